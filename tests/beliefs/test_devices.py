"""Beliefs on a device are the beliefs in main memory; run on every device there is."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from parts import require_module
from strategies import random_arms, seeds
from superarm import Agent, Round, load, save
from superarm.beliefs import FiniteGP
from superarm.devices import Device
from superarm.kernels import Matern52, PerArm
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
