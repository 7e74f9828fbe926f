"""Saved runs: bit for bit, without pickle, and damage is told."""

import functools
import hashlib
import itertools
import json
import os
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from strategies import random_arms
from superarm import Agent, Arms, DataError, DelayedAgent, Round, load, play, save
from superarm.arrays import Matrix, Vector
from superarm.beliefs import ExactGP, FiniteGP, IndependentGaussian, SparseGP, StreamingGP
from superarm.kernels import RBF, Kernel, Matern52, PerArm
from superarm.oracles import Dijkstra, Subsets, TopK
from superarm.policies import (
    EpsilonGreedy,
    JointThompson,
    MarginalThompson,
    Rectified,
    UpperConfidenceBound,
)
from superarm.problems import ContextualProblem, FiniteProblem, PoissonSubset, grid_paths
from superarm.roads.bandit import NavigationProblem, crossing_routes, navigator
from superarm.roads.network import generate_city
from superarm.saving import load_value, save_value
from superarm.theory import BayesUCBWidth, QuantileWidth, ScaledWidth

N = 60
ARMS = random_arms(N, 2, seed=2)
KERNEL = 0.5 * Matern52([0.4, 0.8]) * RBF(1.0) + PerArm(0.1)


def half_of_t(t: int) -> float:
    return 0.5 / t


def prior_mean(arms: Arms) -> Vector:
    return arms.contexts @ np.ones(2)


@dataclass(frozen=True)
class LinearKernel(Kernel):
    scale: float

    def gram(self, left: Arms, right: Arms) -> Matrix:
        return self.scale * left.contexts @ right.contexts.T

    def diagonal(self, arms: Arms) -> Vector:
        return self.scale * (arms.contexts**2) @ np.ones(arms.n_features)


def finite_world() -> Any:
    offer = PoissonSubset(30, fewest=4)
    rng = np.random.default_rng(0)
    return FiniteProblem.sample(ARMS, KERNEL, Subsets(N, 4), rng, availability=offer)


def contextual_world() -> Any:
    rng = np.random.default_rng(0)
    return ContextualProblem.sample(N, 2, RBF(0.5), Subsets(N, 4), rng)


def path_world() -> Any:
    paths = grid_paths(4, 4)
    arms = random_arms(paths.n_arms, 2, 0)
    return FiniteProblem.sample(arms, RBF(), paths, np.random.default_rng(0), mean=-9.0)


def path_agent() -> Any:
    arms = random_arms(grid_paths(4, 4).n_arms, 2, 0)
    belief = FiniteGP.from_kernel(arms, RBF(), 0.01, mean=-9.0)
    return Agent(belief, Rectified(MarginalThompson()), Dijkstra())


finite_gp = FiniteGP.from_kernel(ARMS, KERNEL, 0.01)
CASES: dict[str, tuple[Any, Any]] = {
    "finite": (finite_world(), Agent(finite_gp, MarginalThompson(), TopK())),
    "joint": (finite_world(), Agent(finite_gp, JointThompson(), TopK())),
    "dense": (
        finite_world(),
        Agent(
            FiniteGP.from_covariance(np.zeros(N), KERNEL.gram(ARMS, ARMS), 0.01),
            UpperConfidenceBound(ScaledWidth(BayesUCBWidth(N), 0.5)),
            TopK(),
        ),
    ),
    "independent": (
        finite_world(),
        Agent(IndependentGaussian(np.zeros(N), 1.0, 0.01), EpsilonGreedy(0.2), TopK()),
    ),
    "exact": (
        contextual_world(),
        Agent(ExactGP.from_kernel(RBF(0.5), 0.01), JointThompson(), TopK()),
    ),
    "paths": (path_world(), path_agent()),
    "sparse": (
        finite_world(),
        Agent(
            SparseGP.from_kernel(ARMS, KERNEL, 0.01, n_inducing=20, batch=30),
            JointThompson(),
            TopK(),
        ),
    ),
    "streaming": (
        contextual_world(),
        Agent(
            StreamingGP.from_kernel(Matern52(0.5), 0.01, n_inducing=20), MarginalThompson(), TopK()
        ),
    ),
}
CITY = generate_city(0, 500).largest_component()
for congestion in (False, True):
    trip: Any = NavigationProblem(
        CITY, *crossing_routes(CITY)["A"], rng=np.random.default_rng(0), congestion=congestion
    )
    CASES[f"navigation {congestion}"] = (trip, navigator(trip, "GP-TS"))


def steps_of(world: Any, agent: Any, horizon: int, streams: Any, start: int = 1) -> Any:
    return list(play(world, agent, horizon, start=start, **streams))


def streams(kind: Any = np.random.PCG64) -> Any:
    return {
        "world": np.random.Generator(kind(1)),
        "mind": np.random.Generator(kind(2)),
    }


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("pause", [0, 1, 17])
def test_a_resumed_run_is_the_uninterrupted_run(tmp_path: Path, case: str, pause: int) -> None:
    world, agent = CASES[case]
    whole = steps_of(world, agent, 30, streams())
    generators = streams()
    for _, learned in itertools.islice(play(world, agent, 30, **generators), pause):
        agent = learned
    save(agent, tmp_path / "run", t=pause, **generators)
    agent, t, outer, inner = load(tmp_path / "run")
    assert t == pause
    rest = steps_of(world, agent, 30, {"world": outer, "mind": inner}, start=t + 1)
    for (left, learned), (right, resumed) in zip(whole[pause:], rest, strict=True):
        assert left.t == right.t
        assert_array_equal(left.indices, right.indices)
        assert_array_equal(left.super_arm, right.super_arm)
        assert_array_equal(left.rewards, right.rewards)
        arms = left.round.arms
        assert_array_equal(learned.belief.posterior(arms).std, resumed.belief.posterior(arms).std)


@pytest.mark.parametrize(
    "kind",
    [
        np.random.PCG64,
        np.random.PCG64DXSM,
        np.random.MT19937,
        np.random.Philox,
        np.random.SFC64,
    ],
)
def test_every_generator_goes_on_where_it_was(tmp_path: Path, kind: Any) -> None:
    generators = streams(kind)
    generators["world"].standard_normal(7)
    save(CASES["independent"][1], tmp_path / "run", t=0, **generators)
    _, _, world, mind = load(tmp_path / "run")
    assert_array_equal(world.random(9), generators["world"].random(9))
    assert_array_equal(mind.integers(99, size=9), generators["mind"].integers(99, size=9))
    left, right = world.spawn(1)[0], generators["world"].spawn(1)[0]
    assert_array_equal(left.random(3), right.random(3))


def test_parts_of_ones_own_must_be_named_to_load(tmp_path: Path) -> None:
    belief = ExactGP.from_kernel(LinearKernel(2.0), 0.1, prior_mean)
    agent = Agent(belief, UpperConfidenceBound(QuantileWidth(half_of_t)), TopK())
    agent = agent.learn(Round(1, ARMS, Subsets(N, 2)), [3, 4], [1.0, 2.0])
    save(agent, tmp_path / "run", t=1, **streams())
    with pytest.raises(DataError, match=r"LinearKernel, which is not part of superarm"):
        load(tmp_path / "run")
    loaded = load(tmp_path / "run", known=[LinearKernel, prior_mean, half_of_t]).agent
    assert_array_equal(loaded.belief.posterior(ARMS).mean, agent.belief.posterior(ARMS).mean)
    assert loaded.policy.width(3) == agent.policy.width(3)  # type: ignore[attr-defined]  # UCB


def test_what_cannot_be_saved_is_told_and_nothing_is_written(tmp_path: Path) -> None:
    nameless: Any = Agent(finite_gp, UpperConfidenceBound(QuantileWidth(lambda t: 0.5 / t)), TopK())
    with pytest.raises(ValueError, match="define it at the top level of a module"):
        save(nameless, tmp_path / "run", t=0, **streams())

    class Stateful:
        def __init__(self) -> None:
            self.memory = [1]

    with pytest.raises(ValueError, match="make it a frozen dataclass|top level"):
        save(Agent(finite_gp, Stateful(), TopK()), tmp_path / "run", t=0, **streams())  # type: ignore[arg-type]  # the bad input under test
    with pytest.raises(ValueError, match="t must be the last round played"):
        save(CASES["finite"][1], tmp_path / "run", t=-1, **streams())
    assert list(tmp_path.iterdir()) == []


@dataclass(frozen=True)
class WithHiddenState(LinearKernel):
    def __post_init__(self) -> None:
        object.__setattr__(self, "hidden", 1.0)


class Pair(NamedTuple):
    a: int
    b: int


@dataclass(frozen=True)
class Holder:
    content: Any

    def indices(self, t: int, posterior: Any, rng: Any) -> Vector:
        del t, rng
        return np.zeros(posterior.mean.size)


@pytest.mark.parametrize(
    "content",
    [
        functools.partial(half_of_t, 1),
        {1, 2},
        b"bytes",
        1 + 2j,
        range(3),
        Path("file"),
        np.random.default_rng(0),
        {3: 1.5},
        Pair(1, 2),
        LinearKernel(1.0).gram,
        WithHiddenState(1.0),
        lambda t: t,
    ],
    ids=lambda content: type(content).__name__,
)
def test_state_that_could_not_be_given_back_is_refused(tmp_path: Path, content: Any) -> None:
    agent: Any = Agent(finite_gp, Holder(content), TopK())
    with pytest.raises(ValueError, match="cannot save"):
        save(agent, tmp_path / "run", t=0, **streams())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("content", [None, True, 3, 0.1, "x", (1, (2.0,)), [1, "a"], {"k": [1]}])
def test_plain_state_comes_back_as_it_was(tmp_path: Path, content: Any) -> None:
    agent: Any = Agent(finite_gp, Holder(content), TopK())
    save(agent, tmp_path / "run", t=0, **streams())
    loaded: Any = load(tmp_path / "run", known=[Holder]).agent
    assert loaded.policy.content == content
    assert type(loaded.policy.content) is type(content)


def test_one_generator_for_both_stays_one(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    rounds: Any = np.int64(2)
    save(CASES["finite"][1], tmp_path / "run", t=rounds, world=rng, mind=rng)
    _, t, world, mind = load(tmp_path / "run")
    assert world is mind
    assert t == 2
    assert_array_equal([world.random(), mind.random()], rng.random(2))


@pytest.mark.parametrize(
    "name", ["superarm.saving.runs:os._exit", "superarm.saving.values:json.loads", "os:_exit"]
)
def test_a_file_cannot_name_what_is_not_the_packages(tmp_path: Path, name: str) -> None:
    path, forged = tmp_path / "run", tmp_path / "forged"
    agent = Agent(finite_gp, UpperConfidenceBound(QuantileWidth(half_of_t)), TopK())
    save(agent, path, t=0, **streams())
    with zipfile.ZipFile(path) as original, zipfile.ZipFile(forged, "w") as archive:
        for member in original.namelist():
            content = original.read(member)
            if member == "state.json":
                text = content.decode()
                start = text.index('{"name": ')
                end = text.index("}", start) + 1
                content = (text[:start] + json.dumps({"name": name}) + text[end:]).encode()
            archive.writestr(member, content)
    body = forged.read_bytes()
    header = f"superarm-state 2 {hashlib.sha256(body).hexdigest()}".encode().ljust(127) + b"\n"
    forged.write_bytes(header + body)
    with pytest.raises(DataError, match="no class or function of superarm|not part of superarm"):
        load(forged, known=[half_of_t])


def saved(folder: Path) -> Path:
    path = folder / "run"
    save(CASES["independent"][1], path, t=3, **streams())
    return path


def test_there_is_no_pickle_in_the_file(tmp_path: Path) -> None:
    with zipfile.ZipFile(saved(tmp_path)) as archive:
        names = archive.namelist()
        tree = json.loads(archive.read("state.json"))
    assert all(name == "state.json" or name.endswith(".npy") for name in names)
    assert tree["dict"]["t"] == 3


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_any_damaged_byte_is_noticed(tmp_path: Path, data: Any) -> None:
    path = saved(tmp_path)
    content = bytearray(path.read_bytes())
    # the header's padding says nothing
    useful = list(range(82)) + list(range(128, len(content)))
    place = data.draw(st.sampled_from(useful))
    content[place] ^= data.draw(st.integers(1, 255))
    path.write_bytes(content)
    with pytest.raises(DataError, match="run"):
        load(path)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.floats(0, 1, exclude_max=True))
def test_any_truncation_is_noticed(tmp_path: Path, share: float) -> None:
    path = saved(tmp_path)
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    with pytest.raises(DataError, match="truncated"):
        load(path)


@pytest.mark.parametrize(("version", "advice"), [(3, "install a newer"), (1, "learn again")])
def test_another_format_is_refused(tmp_path: Path, version: int, advice: str) -> None:
    path = saved(tmp_path)
    other = f"superarm-state {version} ".encode()
    path.write_bytes(path.read_bytes().replace(b"superarm-state 2 ", other, 1))
    with pytest.raises(
        DataError, match=f"format version {version}, this superarm .* 2: .*{advice}"
    ):
        load(path)


def test_any_value_is_saved_and_comes_back(tmp_path: Path) -> None:
    belief = FiniteGP.from_kernel(ARMS, KERNEL, 0.1).condition(ARMS.take([3, 4]), np.ones(2))
    value = {"belief": belief, "numbers": (1, 2.5, None, True), "names": ["a"], "kernel": KERNEL}
    save_value(value, tmp_path / "value")
    loaded = load_value(tmp_path / "value")
    assert loaded["numbers"] == value["numbers"]
    assert loaded["kernel"] == KERNEL
    assert_array_equal(loaded["belief"].mean, belief.mean)
    with pytest.raises(DataError, match="holds no agent but a dict; read it with load_value"):
        load(tmp_path / "value")
    save_value(belief, tmp_path / "belief")
    with pytest.raises(DataError, match="holds no agent but a FiniteGP"):
        load(tmp_path / "belief")


def test_an_agent_in_use_is_saved_without_generators(tmp_path: Path) -> None:
    agent = CASES["finite"][1]
    save(agent, tmp_path / "agent")
    loaded = load(tmp_path / "agent")
    assert (loaded.t, loaded.world, loaded.mind) == (0, None, None)
    world = np.random.default_rng(3)
    save(DelayedAgent(agent, delay=2), tmp_path / "late", t=4, world=world)
    late = load(tmp_path / "late")
    assert late.agent.delay == 2
    assert late.mind is None
    assert late.world.random() == world.random()


def test_a_missing_file_and_a_strange_file_are_told(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="nowhere"):
        load(tmp_path / "nowhere")
    (tmp_path / "strange").write_text("hello")
    with pytest.raises(DataError, match="is no file of superarm"):
        load(tmp_path / "strange")


def test_a_failing_write_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = saved(tmp_path)
    before = path.read_bytes()

    def full_disk(_: int) -> None:
        msg = "No space left on device"
        raise OSError(msg)

    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(OSError, match="No space left"):
        save(CASES["finite"][1], path, t=9, **streams())
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_numbers_that_only_numpy_has_are_refused_before_anything_is_written(tmp_path: Path) -> None:
    for number in (np.complex128(1), np.datetime64("2020-01-01"), np.timedelta64(5, "s")):
        with pytest.raises(ValueError, match="only those that Python has too"):
            save_value({"x": number}, tmp_path / "value")
    assert not list(tmp_path.iterdir())
    save_value([np.float32(0.5), np.int8(3), np.bool_(1), np.str_("a")], tmp_path / "value")
    assert load_value(tmp_path / "value") == [0.5, 3, True, "a"]
