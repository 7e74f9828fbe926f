"""Ensembles of kernels that are neither local nor of low rank, against the posterior held whole."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_array

from strategies import finite, functionals, kernels, random_arms, rngs
from superarm import Agent, Arms, CapacityError, DataError, NumericalError, Round, load, save
from superarm.arrays import Matrix
from superarm.beliefs import DenseGP, EnsembleGP, Evidence
from superarm.beliefs.ensemble import PriorRoot, tiled
from superarm.beliefs.ensemble.features import spanned
from superarm.beliefs.ensemble.storing import EnsembleState
from superarm.beliefs.ensemble.tiled import TiledRest
from superarm.beliefs.prior import FinitePrior
from superarm.kernels import (
    Beside,
    GraphMatern,
    Kernel,
    Linear,
    Matern12,
    Matern32,
    Matern52,
    OnFeatures,
    PerArm,
)
from superarm.oracles import Subsets, TopK
from superarm.policies import JointThompson, MarginalThompson

N = 30
ARMS = random_arms(N, 3, seed=5)
RING = [(i, (i + step) % N) for i in range(N) for step in (1, 7)]
GRAPH = GraphMatern(RING, 0.5 + random_arms(N, 1, seed=6).contexts[:, 0])
PAPER = GRAPH * Matern52(1.0) + Matern52(1.0)
SCALED = OnFeatures(Linear(), [2]) * Matern12(0.2)
MIXED = 0.3 * GRAPH + SCALED + PerArm(0.2) + Linear(0.1)
PARTED = Beside(Matern12(0.1) + Linear(0.5), N - 9, Matern32(0.2) + PerArm(0.3))
NOISE = 0.3


def made(kernel: Kernel, most: int = 4, **options: Any) -> EnsembleGP:
    given_too: dict[str, Any] = {"most_features": most, "rest": "tiles", "tolerance": 1e-5}
    return EnsembleGP.from_kernel(ARMS, kernel, NOISE, 0.5, **(given_too | options))


def exact(kernel: Kernel, *seen: Any) -> DenseGP:
    belief = DenseGP.from_kernel(ARMS, kernel, NOISE, 0.5)
    for one in seen:
        belief = belief.condition_evidence(Evidence.of_functionals(*one))
    return belief


@given(kernels(), st.integers(1, 12), st.integers(1, 40), rngs())
def test_tiles_and_features_are_the_kernel(
    kernel: Kernel, most: int, at_once: int, rng: np.random.Generator
) -> None:
    arms = random_arms(N, 2, seed=2)
    features, _, _ = spanned(kernel, arms, 1e-9, most, exactly=True)
    scales, rows = rng.standard_normal(N), rng.permutation(N + 3)[:N]
    rest = TiledRest(kernel, arms, features, rows, scales, N + 3)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tiled, "_AT_ONCE", at_once * N)
        whole = rest.times(np.eye(N + 3))
    gram = kernel.gram(arms, arms)
    expected = np.zeros((N + 3, N + 3))
    left = gram - features @ features.T
    expected[np.ix_(rows, rows)] = scales[:, None] * left * scales
    assert_allclose(whole, expected, atol=1e-9 * np.abs(gram).max() * (1 + (scales**2).max()))


@pytest.mark.parametrize("exactly", [True, False])
@pytest.mark.parametrize("kernel", [Matern12(0.3), Matern52(0.5), PAPER, SCALED, PARTED, MIXED])
def test_draws_of_what_is_kept_by_tiles_have_its_covariance(
    kernel: Kernel, exactly: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not exactly:  # Lanczos' recursion of as many steps as arms is exact, but for rounding
        monkeypatch.setattr(tiled, "EXACT_DRAW_LIMIT", 0)
    root = PriorRoot.of_kernel(ARMS, kernel, 1e-9, 3, "tiles")
    assert root.rests
    for rest in root.rests:
        here = rest.times(np.eye(N))
        drawn = rest.drawn(np.eye(N))
        assert_allclose(drawn @ drawn.T, here, atol=3e-3 * np.abs(here).max())


def test_draws_of_many_arms_are_right_to_what_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiled, "EXACT_DRAW_LIMIT", 0)
    arms, rng = random_arms(1_500, 2, seed=4), np.random.default_rng(0)
    for kernel in (Matern12(0.05), Matern32(0.3), Matern52(0.3)):
        features, _, _ = spanned(kernel, arms, 1e-9, 40, exactly=True)
        rest = TiledRest(kernel, arms, features, np.arange(1_500), np.ones(1_500), 1_500)
        noise = rng.standard_normal((1_500, 3))
        values, vectors = np.linalg.eigh(kernel.gram(arms, arms) - features @ features.T)
        right = vectors @ (np.sqrt(np.maximum(values, 0.0))[:, None] * (vectors.T @ noise))
        error = np.linalg.norm(rest.drawn(noise) - right, axis=0)
        assert error.max() < tiled.DRAWN * np.linalg.norm(noise, axis=0).min()


def test_draws_that_take_too_long_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiled, "EXACT_DRAW_LIMIT", 0)
    monkeypatch.setattr(tiled, "_MOST_STEPS", 8)
    with pytest.raises(NumericalError, match="raise most_features"):
        EnsembleGP.from_kernel(random_arms(300, 3, seed=1), Matern52(0.5), most_features=3)


@pytest.mark.parametrize("exactly", [True, False])
def test_what_is_drawn_of_some_arms_does_not_leak_into_others(
    exactly: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not exactly:
        monkeypatch.setattr(tiled, "EXACT_DRAW_LIMIT", 0)
    arms = random_arms(600, 2, seed=0)
    kernel = Beside(1e4 * Matern52(0.3), 500, 1e-2 * Matern52(0.3))
    belief = EnsembleGP.from_kernel(arms, kernel, 0.01, n_draws=100, most_features=20)
    ratio = belief.variance / kernel.diagonal(arms)
    assert 0.7 < ratio[:500].mean() < 1.3
    assert 0.7 < ratio[500:].mean() < 1.3
    scales = np.repeat([0.0, 1e-3, 1.0], 200)
    scaled = Arms(np.arange(600), np.column_stack([arms.contexts, scales]))
    some = OnFeatures(Linear(), [2]) * OnFeatures(Matern52(0.3), [0, 1])
    belief = EnsembleGP.from_kernel(scaled, some, 0.01, n_draws=100, most_features=20)
    assert_array_equal(belief.variance[:200], 0.0)
    assert 0.6 < (belief.variance[200:400] / 1e-6).mean() < 1.4


def near_duplicates() -> tuple[Arms, EnsembleGP]:
    rng = np.random.default_rng(1)
    base = rng.random((200, 2))
    arms = Arms(np.arange(400), np.vstack([base, base + 1e-4 * rng.standard_normal(base.shape)]))
    options: dict[str, Any] = {"most_features": 30, "rest": "tiles"}
    return arms, EnsembleGP.from_kernel(arms, Matern52(0.5), 1e-6, 0.0, **options)


def test_variances_are_right_where_noise_is_tiny_and_arms_are_alike() -> None:
    arms, belief = near_duplicates()
    seen, values = arms.take(np.arange(200)), 0.1 * np.random.default_rng(2).standard_normal(200)
    whole = DenseGP.from_kernel(arms, Matern52(0.5), 1e-6, 0.0).condition(seen, values)
    ratio = belief.condition(seen, values).variance / np.diag(whole.matrix)
    assert 0.7 < np.median(ratio) < 1.3


def test_covariances_of_contrasts_do_not_depend_on_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiled, "EXACT_DRAW_LIMIT", 0)  # draws of contrasts are wrong then
    arms, belief = near_duplicates()
    rows = csr_array(
        (np.r_[np.ones(4), -np.ones(4)], (np.r_[:4, :4], np.r_[0:4, 200:204])), shape=(4, 400)
    )
    expected = rows @ Matern52(0.5).gram(arms, arms) @ rows.T.toarray()
    assert_allclose(np.diag(belief.covariance_of(rows)), np.diag(expected), rtol=0.02)


def test_what_was_learned_under_another_prior_is_refused() -> None:
    arms = random_arms(1_000, 3, seed=0)
    options: dict[str, Any] = {"n_draws": 5, "most_features": 0}
    seen = arms.take(np.arange(100))
    belief = EnsembleGP.from_kernel(arms, Matern12(0.3), 0.1, **options)
    state = EnsembleState.of(belief.condition(seen, np.ones(100)))
    other = EnsembleGP.from_kernel(arms, Matern52(2.0, 9.0), 0.1, **options)
    with pytest.raises(DataError, match="another prior"):
        state.resumed(other.prior, other.root)
    ring = [(i, (i + 1) % 1_000) for i in range(1_000)]
    graphs = [GraphMatern(ring, np.full(1_000, 1.0), kappa=kappa) for kappa in (1.0, 3.0)]
    beliefs = [EnsembleGP.from_kernel(arms, graph, 0.1, n_draws=2) for graph in graphs]
    with pytest.raises(DataError, match="another prior"):
        EnsembleState.of(beliefs[0]).resumed(beliefs[1].prior, beliefs[1].root)


def test_another_prior_is_kept_as_the_first_one_was() -> None:
    arms = random_arms(300, 3, seed=0)
    belief = EnsembleGP.from_kernel(arms, Matern12(0.3), 0.1, n_draws=3, most_features=20)
    again = belief.unlearned(FinitePrior.of_kernel(arms, Matern12(0.3), 0.1, None))
    assert again.root.rank == 20
    assert_array_equal(again.draws, belief.draws)
    assert belief.unlearned().latent is not None
    assert not belief.unlearned(FinitePrior.of_kernel(arms, Linear(), 0.1, None)).root.rests


def test_summands_of_nothing_and_bad_options() -> None:
    nothing = Arms(np.arange(60), np.zeros((60, 2)))
    kernel = OnFeatures(Linear(), [0]) * Matern12(0.3) + PerArm(0.1)
    belief = EnsembleGP.from_kernel(nothing, kernel, 0.1, n_draws=200)
    assert_allclose(belief.variance, 0.1, rtol=0.5)
    for most in (-1, 1.5):
        with pytest.raises(ValueError, match="most_features"):
            made(PAPER, most)  # type: ignore[arg-type] # what users may give


@settings(deadline=None, max_examples=40)
@given(
    st.sampled_from([Matern12(0.3), PAPER, MIXED, PARTED, Matern52(2.0)]),
    st.lists(functionals(), min_size=1, max_size=3),
    finite(1e-6, 0.05),
    rngs(),
)
def test_means_are_those_of_the_whole_posterior(
    kernel: Kernel, seen: list[Any], tolerance: float, rng: np.random.Generator
) -> None:
    belief = made(kernel, tolerance=tolerance, n_draws=2)
    for one in seen:
        belief = belief.condition_functionals(*one)
        assert belief.reached <= tolerance
    whole = exact(kernel, *seen)
    sums = np.vstack([np.eye(N), rng.standard_normal((20, N))])
    deviation = np.sqrt(np.einsum("ij,jk,ik->i", sums, whole.matrix, sums))
    error = np.abs(sums @ (belief.mean - whole.mean))
    assert (error <= (tolerance + 1e-6) * deviation + 1e-9).all()
    found = belief.covariance_of(csr_array(sums))
    bound = (3 * tolerance + 1e-6) * np.outer(deviation, deviation)
    assert (np.abs(found - sums @ whole.matrix @ sums.T) <= bound + 1e-9).all()


def history(seed: int) -> tuple[Any, ...]:
    rng = np.random.default_rng(seed)
    rows = csr_array((rng.random((40, N)) < 0.2).astype(float))
    return rows, rng.standard_normal(40), np.full(40, 0.4), None


def assert_moments(drawn: Matrix, whole: DenseGP) -> None:
    count, deviation = drawn.shape[1], np.sqrt(np.diag(whole.matrix))
    beyond = (drawn - whole.mean[:, None]) / deviation[:, None]
    assert np.abs(beyond.mean(axis=1)).max() < 5 / np.sqrt(count)
    correlation = whole.matrix / np.outer(deviation, deviation)
    assert np.abs(beyond @ beyond.T / count - correlation).max() < 6 * np.sqrt(2 / count)


@pytest.mark.parametrize("kernel", [PAPER, MIXED, PARTED])
def test_draws_have_the_moments_of_the_posterior(kernel: Kernel) -> None:
    seen = history(0)
    belief = made(kernel, n_draws=2_000, tolerance=1e-3).condition_functionals(*seen)
    whole = exact(kernel, seen)
    assert_moments(belief.draws, whole)
    error = belief.variance / np.diag(whole.matrix) - 1
    assert np.abs(error).max() < 5 * belief.variance_error
    rng, few = np.random.default_rng(1), made(kernel, n_draws=1).condition_functionals(*seen)
    fresh = np.array([few.fresh_draw(rng) for _ in range(600)]).T
    assert_moments(fresh, whole)


def test_order_and_batches_do_not_matter() -> None:
    rows, values, noise, _ = history(1)
    keys, order = np.arange(40), np.random.default_rng(2).permutation(40)
    start = made(PAPER, n_draws=5, tolerance=1e-7)
    once = start.condition_functionals(rows, values, noise, keys=keys)
    parts = start
    for some in np.array_split(order, 3):
        parts = parts.condition_functionals(rows[some], values[some], noise[some], keys=keys[some])
    assert_allclose(parts.draws, once.draws, atol=1e-5)
    assert_allclose(parts.variance, once.variance, atol=1e-5)


def test_the_rule_takes_tiles_where_features_do_not_span(monkeypatch: pytest.MonkeyPatch) -> None:
    arms = random_arms(200, 3, seed=1)
    rough, smooth = Matern12(0.1), Matern52(3.0)
    assert PriorRoot.of_kernel(arms, rough, 1e-3, 50).rests
    assert PriorRoot.of_kernel(arms, rough, 1e-3, 50).unexplained == 0.0
    assert not PriorRoot.of_kernel(arms, smooth, 1e-3, 50).rests
    assert PriorRoot.of_kernel(arms, smooth, 1e-3, 50, "tiles").rests
    assert not PriorRoot.of_kernel(arms, rough, 1e-3, 200).rests
    monkeypatch.setattr("superarm.beliefs.ensemble.roots.MOST_TILED", 100)
    with pytest.raises(CapacityError, match='rest="tiles"'):
        PriorRoot.of_kernel(arms, rough, 1e-3, 50)
    assert PriorRoot.of_kernel(arms, rough, 1e-3, 50, "tiles").rests


def test_a_saved_agent_goes_on_as_before(tmp_path: Path) -> None:
    rng, offered = np.random.default_rng(0), Round(1, ARMS, Subsets(N, 4))
    for policy in (MarginalThompson(), JointThompson()):
        agent: Any = Agent(made(PAPER, n_draws=8), policy, TopK())
        for _ in range(3):
            chosen = agent.decide(offered, rng)
            agent = agent.learn(offered, chosen, rng.standard_normal(4))
        save(agent, tmp_path / "agent")
        other: Any = load(tmp_path / "agent").agent
        left, right = (each.learn(offered, chosen, np.ones(4)).belief for each in (agent, other))
        assert_array_equal(left.draws, right.draws)
    start = made(PAPER, n_draws=8)
    belief = start.condition_functionals(*history(3))
    again = EnsembleState.of(belief).resumed(start.prior, start.root, start.tolerance)
    assert_allclose(again.draws, belief.draws, atol=1e-9)
    assert_allclose(belief.unlearned(belief.prior).draws, start.draws)
