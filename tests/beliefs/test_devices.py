"""Beliefs on a device are the beliefs in main memory; run on every device there is."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.sparse import csr_array

from parts import require_module
from strategies import random_arms, seeds
from superarm import Agent, CapacityError, Round, load, save
from superarm.beliefs import EnsembleGP, FiniteGP
from superarm.beliefs.ensemble import DeviceEnsembleGP, Observations, PriorRoot
from superarm.beliefs.ensemble.device_parts import DeviceGraph
from superarm.devices import Device
from superarm.kernels import Beside, GraphMatern, Linear, Matern52, OnFeatures, PerArm
from superarm.oracles import Subsets, TopK
from superarm.policies import MarginalThompson

require_module("torch", "torch")

import torch  # noqa: E402

N = 60
ARMS = random_arms(N, 3, seed=5)
KERNEL = Matern52(0.7) + PerArm(0.1)
CUDA = pytest.param(
    "cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here")
)
DEVICES = pytest.mark.parametrize("device", ["cpu", CUDA])


@DEVICES
@settings(deadline=None, max_examples=20)
@given(seed=seeds, rounds=st.integers(1, 12), most=st.integers(1, 25))
def test_rows_on_a_device_give_the_same_posterior(
    device: str, seed: int, rounds: int, most: int
) -> None:
    rng = np.random.default_rng(seed)
    here: Any = FiniteGP.from_kernel(ARMS, KERNEL, 0.3)
    there: Any = FiniteGP.from_kernel(ARMS, KERNEL, 0.3, device=device)
    sibling = there
    for _ in range(rounds):
        places = rng.integers(N, size=int(rng.integers(1, most + 1)))
        rewards = rng.standard_normal(places.size)
        here = here.condition(ARMS.take(places), rewards)
        sibling.condition(ARMS.take(places[::-1]), 2 * rewards)  # must not disturb the other
        sibling, there = there, there.condition(ARMS.take(places), rewards)
    assert_allclose(there.mean, here.mean, atol=1e-9)
    assert_allclose(there.variance, here.variance, atol=1e-9)
    some = ARMS.take(rng.integers(N, size=9))
    left, right = there.posterior(some), here.posterior(some)
    assert_allclose(left.covariance(), right.covariance(), atol=1e-9)
    again = there.again(there.prior, 2.0)
    assert_allclose(again.mean, here.again(here.prior, 2.0).mean, atol=1e-9)


@DEVICES
def test_the_core_is_made_anew_on_a_device_as_well(
    device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("superarm.beliefs.factor._FEWEST_EXTRA", 5)
    monkeypatch.setattr("superarm.beliefs.device_rows._BLOCK_BYTES", 8 * N * 7)
    monkeypatch.setattr("superarm.beliefs.device_rows._FEWEST_ROWS", 7)
    rng = np.random.default_rng(0)
    here: Any = FiniteGP.from_kernel(ARMS, KERNEL, 0.3)
    there: Any = FiniteGP.from_kernel(ARMS, KERNEL, 0.3, device=device)
    for _ in range(20):
        places = rng.integers(N, size=8)
        rewards = rng.standard_normal(8)
        here = here.condition(ARMS.take(places), rewards)
        there = there.condition(ARMS.take(places), rewards)
        assert_allclose(there.mean, here.mean, atol=1e-9)
        assert_allclose(there.variance, here.variance, atol=1e-9)
    # rewards so precise that everything is solved for again
    here = here.condition(ARMS, np.zeros(N), noise_variance=1e-6)
    there = there.condition(ARMS, np.zeros(N), noise_variance=1e-6)
    assert_allclose(there.mean, here.mean, atol=1e-6)
    assert_allclose(there.variance, here.variance, atol=1e-8)


@DEVICES
def test_an_agent_on_a_device_is_saved_and_goes_on(device: str, tmp_path: Path) -> None:
    belief = FiniteGP.from_kernel(ARMS, KERNEL, 0.3, device=device)
    agent = Agent(belief, MarginalThompson(), TopK())
    offer, rng = Round(1, ARMS, Subsets(N, 4)), np.random.default_rng(0)
    chosen = agent.decide(offer, rng)
    agent = agent.learn(offer, chosen, rng.standard_normal(chosen.size))
    save(agent, tmp_path / "agent")
    again: Any = load(tmp_path / "agent").agent
    left, right = (one.learn(offer, chosen, np.ones(chosen.size)) for one in (again, agent))
    assert_allclose(left.belief.posterior(ARMS).mean, right.belief.posterior(ARMS).mean)
    assert_allclose(left.belief.posterior(ARMS).std, right.belief.posterior(ARMS).std)


def test_a_device_that_is_not_there_is_named() -> None:
    with pytest.raises(ValueError, match="there is no device 'cuda:77'"):
        Device("cuda:77")
    with pytest.raises(ValueError, match="there is no device 'toaster'"):
        FiniteGP.from_kernel(ARMS, KERNEL, device="toaster")


RING = [(i, (i + step) % N) for i in range(N) for step in (1, 7)]
LENGTHS = 0.5 + random_arms(N, 1, seed=6).contexts[:, 0]
SCALED = OnFeatures(Linear(), [2])
ROADS = OnFeatures(Linear(0.5), [0, 1]) + SCALED * (
    0.3 * GraphMatern(RING, LENGTHS) + PerArm(0.4) + OnFeatures(Matern52(0.7, 0.3), [0, 1])
)


def seen_by(rng: np.random.Generator, count: int, *, common: bool) -> Any:
    rows = rng.standard_normal((count, N)) * (rng.random((count, N)) < 0.3)
    values, noise = 2 * rng.standard_normal(count), np.exp(rng.uniform(-3, 1, count))
    if not common:
        return csr_array(rows), values, noise
    groups = (np.arange(count) // 3, np.arange(count))
    return csr_array(rows), values, noise, csr_array((np.full(count, 0.4), groups))


@DEVICES
@pytest.mark.parametrize("kernel", [ROADS, Beside(ROADS, N - 4, PerArm(1.5)), PerArm(0.5)])
def test_an_ensemble_on_a_device_is_the_one_in_main_memory(device: str, kernel: Any) -> None:
    rng = np.random.default_rng(0)
    options: Any = {"n_draws": 7, "tolerance": 1e-6, "unexplained": 1e-12}
    here: Any = EnsembleGP.from_kernel(ARMS, kernel, 0.3, 0.5, **options)
    there: Any = DeviceEnsembleGP.from_kernel(ARMS, kernel, 0.3, 0.5, device=device, **options)
    single = (csr_array(np.eye(N)[:9]), rng.standard_normal(9), np.full(9, 0.4))
    for seen in (seen_by(rng, 20, common=True), single, seen_by(rng, 40, common=False)):
        here, there = here.condition_functionals(*seen), there.condition_functionals(*seen)
        assert there.reached <= 1e-6
        assert_allclose(there.mean, here.mean, atol=1e-5)
        assert_allclose(there.draws, here.draws, atol=1e-5)
        assert_allclose(there.variance, here.variance, atol=1e-5)
    sums = csr_array(rng.standard_normal((3, N)))
    assert_allclose(there.covariance_of(sums), here.covariance_of(sums), atol=1e-5)
    left, right = (one.fresh_draw(np.random.default_rng(5)) for one in (there, here))
    assert np.isfinite(left).all()
    assert np.corrcoef(left, right)[0, 1] > 0  # draws of one posterior
    assert_allclose(
        there.all_evidence().precision.toarray(), here.all_evidence().precision.toarray(), atol=1e-8
    )
    assert_allclose(there.again(there.prior, 2.0).mean, here.again(here.prior, 2.0).mean, atol=1e-5)
    assert "DeviceEnsembleGP(60 arms" in repr(there)
    assert there.unlearned().count == 0


@DEVICES
@pytest.mark.parametrize("size", [1e-150, 1e-30, 1.0, 1e30])
def test_graphs_are_solved_for_at_any_size(device: str, size: float) -> None:
    graph = GraphMatern(RING, LENGTHS)
    host = PriorRoot.of_kernel(ARMS, graph, 1e-3, N).graphs[0]
    there = Device(device)
    columns = np.random.default_rng(0).standard_normal((N, 3)) * [1.0, 0.0, size]
    for name in ("times", "transposed"):
        found = there.get(getattr(DeviceGraph(there, host), name)(there.put(columns), rough=False))
        expected = getattr(host, name)(columns)
        scale = np.abs(expected).max(axis=0)
        assert (np.abs(found - expected) <= 1e-8 * scale).all()


def test_what_a_device_cannot_do_is_said() -> None:
    compact = Observations.of_functionals(csr_array(np.eye(N)), np.ones(N), 0.1).compact()
    fresh = DeviceEnsembleGP.from_kernel(ARMS, PerArm(1.0), 0.3, device="cpu", n_draws=1)
    with pytest.raises(ValueError, match="made compact"):
        fresh.condition_observations(compact)
    kernel = GraphMatern(RING, LENGTHS, nu=1)
    belief = DeviceEnsembleGP.from_kernel(ARMS, kernel, 0.3, device="cpu", n_draws=1)
    with pytest.raises(CapacityError, match="even nu"):
        belief.condition(ARMS.take([0]), np.ones(1))
