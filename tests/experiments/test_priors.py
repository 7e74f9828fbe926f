"""Studies of wrong priors, of a truth that drifts, and with parts of the user's own."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from superarm import DataError
from superarm.adapting import Forgetting, PriorElimination, Refitting
from superarm.beliefs import ExactGP, FiniteGP, HyperpriorBelief
from superarm.delays import DelayedAgent
from superarm.experiments import Study, read_experiment
from superarm.experiments.build import point_setting, road_setting
from superarm.experiments.engines import ThisProcess
from superarm.experiments.execution import execute
from superarm.experiments.plan import RunSpec, expand
from superarm.experiments.runner import prepare, run_experiment, run_plan
from superarm.policies import Rectified, SampledPrior
from superarm.roads.models.paper import EnergyModel
from superarm.roads.network import generate_city

POINTS = """
name = "own"
horizon = 12
repeats = 2
[[places]]
points = {{ arms = 30, dimension = 2, offered = 15, chosen = 3, noise_variance = 0.25 }}
[world]
lengthscale = 0.3
{world}
[methods]
one = {{ policy = "ts"{method} }}
"""


def runs_of(tmp_path: Path, method: str = "", world: str = "") -> list[RunSpec]:
    file = tmp_path / "own.toml"
    file.write_text(POINTS.format(method=method, world=world), encoding="utf-8")
    return expand(read_experiment(file), {"points": "x"}, {"points": {"all": ("", "")}})


def agent_of(spec: RunSpec) -> Any:
    return point_setting(spec).agent


def belief_of(setting: Any) -> Any:
    return setting.agent.belief


CANDIDATES = ", candidates = { lengthscale = [0.25, 4.0], noise = [3.0], variance = [0.5] }"


def test_beliefs_are_as_wrong_as_they_are_told_to_be(tmp_path: Path) -> None:
    wrong = ", lengthscale_factor = 4.0, noise_factor = 3.0, variance_factor = 0.5"
    right, off = (agent_of(runs_of(tmp_path, m)[0]).belief for m in ("", wrong))
    assert isinstance(right, FiniteGP)
    assert isinstance(off, FiniteGP)
    kernel: Any = off.prior.covariance
    assert kernel.kernel.parameters() == {"variance": 0.5, "lengthscale": 1.2}
    arms = right.prior.universe.arms
    np.testing.assert_allclose(off.posterior(arms).noise_std, 3 * right.posterior(arms).noise_std)


def test_roads_are_believed_as_wrong_as_points(tmp_path: Path) -> None:
    network = generate_city(0, 500).largest_component()
    ids = network.edge_ids
    (spec, *_) = runs_of(tmp_path, ", lengthscale_factor = 4.0, variance_factor = 3.0")
    spec = spec.model_copy(
        update={
            "points": None,
            "network": "city",
            "lengthscale": 1.0,
            "route": spec.route.model_copy(update={"start": ids[0], "goal": ids[200]}),
        }
    )
    model = EnergyModel(network)
    off = belief_of(road_setting(spec, model)).prior.covariance.kernel.parameters()
    usual = model.kernel.parameters()
    for name, value in usual.items():
        times = {"right.variance": 3, "left.right.variance": 3}.get(name, 1)
        assert off[name] == pytest.approx(value * (4 if "lengthscale" in name else times))
    hyper = spec.model_copy(
        update={"settings": runs_of(tmp_path, f', adapt = "hyper"{CANDIDATES}')[0].settings}
    )
    agent: Any = road_setting(hyper, model).agent
    assert isinstance(agent.policy, SampledPrior)  # the rectifier's noise is that of the draw
    assert isinstance(agent.policy.policy, Rectified)


@pytest.mark.parametrize(
    ("method", "kind", "drift"),
    [
        (f', adapt = "hyper"{CANDIDATES}', HyperpriorBelief, "none"),
        (f', adapt = "elimination"{CANDIDATES}', PriorElimination, "none"),
        (', adapt = "refit", refit_every = 5', Refitting, "none"),
        (", forget = 0.9", Forgetting, "none"),
        (", forget = 0.9", Forgetting, "jumps"),
        (", time_lengthscale = 20.0", ExactGP, "wanders"),
        (", time_lengthscale = 20.0", ExactGP, "none"),
        (f', adapt = "hyper", delay = 2{CANDIDATES}', DelayedAgent, "none"),
        (f', adapt = "elimination", feedback_batch = 3{CANDIDATES}', DelayedAgent, "none"),
        (', adapt = "refit", delay = 1', DelayedAgent, "none"),
    ],
)
def test_agents_that_adapt_play_by_name(
    tmp_path: Path, method: str, kind: type, drift: str
) -> None:
    world = f'drift = "{drift}"\njump_every = 5\nmemory = 5.0'
    spec = runs_of(tmp_path, method, world)[0]
    agent = point_setting(spec).agent
    belief = getattr(agent, "belief", None)
    assert isinstance(agent, kind) or isinstance(belief, kind)
    first, again = execute(spec, None), execute(spec, None)
    np.testing.assert_array_equal(first.columns["regret"], again.columns["regret"])
    assert (first.columns["regret"] >= -1e-9).all()


def test_seven_candidates_are_one_at_a_time(tmp_path: Path) -> None:
    spec = runs_of(tmp_path, f', adapt = "hyper", lengthscale_factor = 4.0{CANDIDATES}')[0]
    beliefs = agent_of(spec).belief.beliefs
    found = [one.prior.covariance.kernel.parameters() for one in beliefs]
    assert [round(p["lengthscale"], 6) for p in found] == [1.2, 0.3, 4.8, 1.2, 1.2]
    assert [p["variance"] for p in found] == [1.0, 1.0, 1.0, 1.0, 0.5]


@pytest.mark.parametrize(
    ("method", "world", "said"),
    [
        (', adapt = "hyper"', "", "candidates and adapt"),
        (CANDIDATES, "", "candidates and adapt"),
        (', adapt = "hyper", candidates = {}', "", "name factors"),
        (', adapt = "hyper", candidates = { nose = [1.0] }', "", "allowed are lengthscale, noise"),
        (', adapt = "refit", belief = "independent"', "", "belief = 'exact' only"),
        (', adapt = "refit", forget = 0.9', "", "cannot be combined"),
        (", refit_every = 3", "", "refit_every goes with adapt = 'refit' only"),
        (", forget = 1.5", "", "less than or equal to 1"),
        (", noise_factor = 0.0", "", "greater than 0"),
        ("", 'drift = "sometimes"', "drift"),
        (', adapt = "refit"', 'drift = "jumps"', "cannot be paired with"),
        (', belief = "streaming"', 'drift = "wanders"', "cannot be paired with"),
        (', kernel = "a:b", lengthscale = 1.0', "", "use kernel_options"),
        (", kernel_options = { a = 1 }", "", "kernel_options go with kernel = 'module:Name' only"),
        (', oracle = "nothing"', "", "oracle"),
    ],
)
def test_what_cannot_be_is_told(tmp_path: Path, method: str, world: str, said: str) -> None:
    with pytest.raises(DataError, match=said):
        runs_of(tmp_path, method, world)


ROADS = """
name = "roads"
[[places]]
network = "city"
routes = ["A"]
[world]
{world}
[methods]
one = {{ policy = "ts"{method} }}
"""


@pytest.mark.parametrize(
    ("method", "world", "said"),
    [("", 'drift = "jumps"', "points may drift"), (", time_lengthscale = 9.0", "", "points only")],
)
def test_roads_stand_still(tmp_path: Path, method: str, world: str, said: str) -> None:
    file = tmp_path / "roads.toml"
    file.write_text(ROADS.format(method=method, world=world), encoding="utf-8")
    with pytest.raises(DataError, match=said):
        read_experiment(file)


OWN = """
from dataclasses import dataclass

import numpy as np

from superarm.kernels import Matern32
from superarm.oracles import TopK


@dataclass(frozen=True)
class Bold:
    reach: float = 1.0

    def indices(self, t, posterior, rng):
        return posterior.mean + self.reach * posterior.std


def rough(lengthscale):
    return Matern32(lengthscale)


class Lazy:
    def __init__(self, share=1.0):
        self.share = share

    def select(self, feasible, indices):
        return TopK().select(feasible, indices)


class NoPolicy:
    pass


a_number = 7
"""


def test_own_parts_lie_beside_the_study(tmp_path: Path) -> None:
    (tmp_path / "my_parts_a.py").write_text(OWN, encoding="utf-8")
    file = tmp_path / "own.toml"
    method = (
        ', kernel = "my_parts_a:rough", kernel_options = { lengthscale = 0.5 }'
        ', oracle = "my_parts_a:Lazy", lengthscale_factor = 2.0, variance_factor = 3.0'
    )
    text = POINTS.format(method=method, world="").replace(
        'policy = "ts"', 'policy = "my_parts_a:Bold", policy_options = { reach = 2.0 }'
    )
    file.write_text(text, encoding="utf-8")
    plan = prepare(read_experiment(file), tmp_path / "out", beside=tmp_path)
    tally = run_plan(plan, ThisProcess())
    assert not tally.failures
    assert tally.finished == 2
    agent = agent_of(plan.runs[0])
    assert agent.policy.reach == 2.0
    assert type(agent.oracle).__name__ == "Lazy"
    arms = agent.belief.prior.universe.arms.take([0])
    assert agent.belief.posterior(arms).std[0] == pytest.approx(np.sqrt(3.0))


@pytest.mark.parametrize(
    ("policy", "options", "said"),
    [
        ("no_such_module_at_all:Name", "{}", "cannot be imported"),
        ("my_parts_b:Missing", "{}", "Missing"),
        ("my_parts_b:a_number", "{}", "no class or function"),
        ("my_parts_b:NoPolicy", "{}", "no policy with indices"),
        ("my_parts_b:Bold", "{ wide = 1 }", "cannot be made with"),
        ("my_broken_parts:Bold", "{}", "fails when it is imported"),
    ],
)
def test_own_parts_that_are_wrong_are_told(
    tmp_path: Path, policy: str, options: str, said: str
) -> None:
    (tmp_path / "my_parts_b.py").write_text(OWN, encoding="utf-8")
    (tmp_path / "my_broken_parts.py").write_text("1 +", encoding="utf-8")
    file = tmp_path / "own.toml"
    text = POINTS.format(method=f", policy_options = {options}", world="")
    file.write_text(text.replace('policy = "ts"', f'policy = "{policy}"'), encoding="utf-8")
    experiment = read_experiment(file)
    with pytest.raises(DataError, match=said):
        prepare(experiment, tmp_path / "out", beside=tmp_path)
    assert not (tmp_path / "out").exists()
    with pytest.raises(DataError, match=said):
        run_experiment(experiment, tmp_path / "out")


def test_truths_that_drift_are_told_apart(tmp_path: Path) -> None:
    file = tmp_path / "own.toml"
    world = 'drift = ["none", "jumps", "wanders"]\njump_every = 4\nmemory = 4.0'
    file.write_text(POINTS.format(method="", world=world), encoding="utf-8")
    run_experiment(read_experiment(file), tmp_path / "out")
    study = Study(tmp_path / "out")
    cells = {cell.traffic: cell for cell in study.cells}
    assert set(cells) == {"free", "jumps", "wanders"}
    finals = {name: float(study.final(cell).mean()) for name, cell in cells.items()}
    assert len(set(finals.values())) == 3
