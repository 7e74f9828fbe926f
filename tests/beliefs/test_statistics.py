"""What beliefs keep of rewards: enough for any prior, for evidence, and for known variances."""

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import multivariate_normal

from strategies import finite, histories, kernels, random_arms, seeds, vectors
from superarm import Arms
from superarm.arrays import Matrix, Vector
from superarm.beliefs import (
    ArmStatistics,
    DenseGP,
    Evidence,
    ExactGP,
    FiniteGP,
    IndependentGaussian,
    SparseGP,
    StreamingGP,
)
from superarm.beliefs.contextual.distinct import DistinctArms
from superarm.kernels import RBF, Kernel, Matern32, PerArm

N = 12
ARMS = random_arms(N, 2, seed=9)


def summed(keys: Any, rewards: Vector, noise: Vector) -> ArmStatistics:
    slots, batch = ArmStatistics.of_batch(keys, rewards, noise)
    return ArmStatistics.nothing(N).merged(slots, batch, N)


@given(seeds, st.integers(1, 60), st.integers(0, 60))
def test_summaries_are_the_sums_and_merge_in_any_order(seed: int, size: int, cut: int) -> None:
    rng = np.random.default_rng(seed)
    keys, rewards = rng.integers(N, size=size), 5 + rng.standard_normal(size)
    noise = rng.uniform(0.1, 3.0, size)
    once = summed(keys, rewards, noise)
    parts = ArmStatistics.nothing(N)
    order = rng.permutation(size)
    for some in (order[:cut], order[cut:]):
        if some.size:
            slots, batch = ArmStatistics.of_batch(keys[some], rewards[some], noise[some])
            parts = parts.merged(slots, batch, N)
    for arm in range(N):
        mine = keys == arm
        y, s = rewards[mine], noise[mine]
        average = (y / s).sum() / (1 / s).sum() if y.size else 0.0
        for found in (once, parts):
            assert found.counts[arm] == y.size
            assert_allclose(found.precision[arm], (1 / s).sum(), atol=1e-12)
            assert_allclose(found.averages[arm], average, atol=1e-12)
            assert_allclose(found.squares[arm], ((y - average) ** 2 / s).sum(), atol=1e-9)
            assert_allclose(found.log_noise[arm], np.log(s).sum(), atol=1e-12)


@given(kernels(), histories(N), finite(0.05, 2.0), finite(-1, 1))
def test_statistics_of_arms_suffice_for_the_evidence_of_single_rewards(
    kernel: Kernel, history: Any, noise: float, mean: float
) -> None:
    belief = FiniteGP.from_kernel(ARMS, kernel, noise, mean)
    for rows, rewards in history:
        belief = belief.condition(ARMS.take(rows), rewards)
    rows = np.concatenate([rows for rows, _ in history]).astype(int)
    rewards = np.concatenate([rewards for _, rewards in history])
    if not rows.size:
        return
    gram = kernel.gram(ARMS, ARMS)
    dense = gram[np.ix_(rows, rows)] + noise * np.eye(rows.size)
    expected = multivariate_normal.logpdf(rewards, np.full(rows.size, mean), dense)
    seen, known = belief.seen, belief.statistics
    small = gram[np.ix_(seen, seen)] + np.diag(1 / known.precision)
    found = multivariate_normal.logpdf(known.averages, np.full(seen.size, mean), small)
    found -= 0.5 * np.sum(
        (known.counts - 1) * np.log(2 * np.pi)
        + known.log_noise
        + np.log(known.precision)
        + known.squares
    )
    assert_allclose(found, expected, rtol=1e-6, atol=1e-6)


@given(kernels(), seeds, st.integers(1, 25), finite(0.05, 2.0))
def test_evidence_of_sums_suffices_for_their_density(
    kernel: Kernel, seed: int, size: int, noise: float
) -> None:
    rng = np.random.default_rng(seed)
    belief = DenseGP.from_kernel(ARMS, kernel, noise)
    design, errors, totals = [], [], []
    for _ in range(size):
        rows = rng.integers(N, size=rng.integers(1, 6))
        total = float(3 * rng.standard_normal())
        belief = belief.condition_sums(ARMS.take(rows), [0, rows.size], [total])
        design.append(np.bincount(rows, minlength=N))
        errors.append(noise * rows.size)
        totals.append(total)
    h, r, y = np.array(design, dtype=float), np.array(errors), np.array(totals)
    gram = kernel.gram(ARMS, ARMS)
    expected = multivariate_normal.logpdf(y, np.zeros(size), h @ gram @ h.T + np.diag(r))
    assert belief.evidence is not None
    kept = belief.evidence.total(N)
    assert kept.count == belief.evidence.count == size
    a: Matrix = kept.precision.toarray()
    inner = np.eye(N) + a @ gram
    fit = kept.weighted @ gram @ np.linalg.solve(inner, kept.weighted)
    found = -0.5 * (
        size * np.log(2 * np.pi) + kept.log_noise + np.linalg.slogdet(inner)[1] + kept.squares - fit
    )
    assert_allclose(found, expected, rtol=1e-6, atol=1e-6)


@given(kernels(), kernels(), seeds)
def test_kept_evidence_gives_the_posterior_of_another_prior(
    first: Kernel, second: Kernel, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    belief, other = DenseGP.from_kernel(ARMS, first, 0.3), DenseGP.from_kernel(ARMS, second, 0.3)
    for _ in range(7):
        rows, totals = rng.integers(N, size=8), rng.standard_normal(2)
        belief = belief.condition_sums(ARMS.take(rows), [0, 3, 8], totals)
        other = other.condition_sums(ARMS.take(rows), [0, 3, 8], totals)
    assert belief.evidence is not None
    again = DenseGP.from_kernel(ARMS, second, 0.3).condition_evidence(belief.all_evidence())
    assert_allclose(again.mean, other.mean, rtol=0, atol=1e-8)
    assert_allclose(again.matrix, other.matrix, rtol=0, atol=1e-9)
    sizes = [piece.precision.nnz for piece in belief.evidence.pieces]
    assert all(left > 2 * right for left, right in itertools.pairwise(sizes))


def test_evidence_that_is_not_kept_cannot_be_had() -> None:
    belief = DenseGP.from_kernel(ARMS, RBF(), keep_evidence=False)
    with pytest.raises(ValueError, match="made with keep_evidence=False and keeps none"):
        belief.all_evidence()


def conditionable(noise: float) -> list[Any]:
    kernel = Matern32(0.4)
    return [
        FiniteGP.from_kernel(ARMS, kernel, noise),
        ExactGP.from_kernel(kernel, noise),
        StreamingGP.from_kernel(kernel, noise, inducing=ARMS, n_inducing=N),
        DenseGP.from_kernel(ARMS, kernel, noise),
    ]


@given(seeds, vectors(20, 0.05, 2.0))
def test_rewards_of_known_variances_are_the_textbook_posterior(seed: int, noise: Vector) -> None:
    rng = np.random.default_rng(seed)
    rows, rewards = rng.integers(N, size=20), rng.standard_normal(20)
    gram = Matern32(0.4).gram(ARMS, ARMS)
    gain = np.linalg.solve(gram[np.ix_(rows, rows)] + np.diag(noise), gram[rows]).T
    for belief in conditionable(7.0):  # the belief's own noise has no say
        for some in (slice(0, 9), slice(9, 20)):
            belief = belief.condition(  # noqa: PLW2901 - it learns
                ARMS.take(rows[some]), rewards[some], noise_variance=noise[some]
            )
        posterior = belief.posterior(ARMS)
        assert_allclose(posterior.mean, gain @ rewards, atol=1e-6)
        assert_allclose(
            posterior.std**2, gram.diagonal() - np.sum(gain * gram[:, rows], axis=1), atol=1e-6
        )
    alone = IndependentGaussian(np.zeros(N), 2.0, 7.0)
    alone = alone.condition(ARMS.take(rows), rewards, noise_variance=noise)
    diagonal = FiniteGP.from_covariance(np.zeros(N), 2.0 * np.eye(N), 7.0)
    diagonal = diagonal.condition(Arms(rows), rewards, noise_variance=noise)
    assert_allclose(alone.posterior(Arms(range(N))).mean, diagonal.mean, atol=1e-9)


@pytest.mark.parametrize("bad", [0.0, -1.0, np.nan, 5e-324])
def test_impossible_variances_are_refused(bad: float) -> None:
    beliefs = [*conditionable(0.1), IndependentGaussian(np.zeros(N), 1.0, 0.1)]
    for belief in beliefs:
        with pytest.raises(ValueError, match="noise_variance must be"):
            belief.condition(ARMS.take([0]), np.ones(1), noise_variance=bad)
    with pytest.raises(ValueError, match="noise_variance must be"):
        FiniteGP.from_kernel(ARMS, RBF(), bad)


def number_of_arms(arms: Arms) -> Vector:
    return arms.ids * 0.5 + arms.contexts[:, 0]


@pytest.mark.parametrize("mean", [None, 0.7, np.arange(N) * 0.1, number_of_arms])
def test_a_mean_means_the_same_to_every_belief(mean: Any) -> None:
    kernel = Matern32(0.4)
    given_mean = 0.0 if mean is None else mean
    expected = mean(ARMS) if callable(mean) else np.broadcast_to(given_mean, N)
    beliefs: list[Any] = [
        belief.from_kernel(ARMS, kernel, 0.1, mean)
        for belief in (FiniteGP, DenseGP, SparseGP, IndependentGaussian)
    ] + [belief.from_kernel(kernel, 0.1, mean) for belief in (ExactGP, StreamingGP)]
    for belief in beliefs:
        assert_allclose(belief.posterior(ARMS).mean, expected)
        assert_allclose(belief.posterior(ARMS.take([3, 1])).mean, np.asarray(expected)[[3, 1]])


def test_contextual_means_and_noises_by_id_know_their_ids() -> None:
    belief = ExactGP.from_kernel(RBF(), [0.1, 0.2], mean=[1.0, 2.0])
    assert belief.posterior(Arms([1], [[0.0]])).mean.tolist() == [2.0]
    with pytest.raises(ValueError, match="arm id 2 has no prior mean; 2 were given"):
        belief.posterior(Arms([2], [[0.0]]))


def test_what_is_no_kernel_is_told() -> None:
    class Ducky:
        def gram(self, left: Arms, right: Arms) -> Matrix:
            return np.ones((len(left), len(right)))

        def diagonal(self, arms: Arms) -> Vector:
            return np.ones(len(arms))

    duck: Any = Ducky()
    for belief in (FiniteGP, DenseGP, SparseGP, IndependentGaussian):
        with pytest.raises(TypeError, match="inherit from Kernel"):
            belief.from_kernel(ARMS, duck)
    for contextual in (ExactGP, StreamingGP):
        with pytest.raises(TypeError, match="inherit from Kernel"):
            contextual.from_kernel(duck)


@given(seeds, st.lists(st.integers(1, 12), min_size=1, max_size=8), st.booleans())
def test_distinct_arms_are_those_of_a_plain_search(
    seed: int, sizes: list[int], collide: bool
) -> None:
    rng = np.random.default_rng(seed)
    known, distinct = [], DistinctArms()
    with pytest.MonkeyPatch.context() as patched:
        if collide:  # every pair has one of three hashes
            patched.setattr(
                "superarm.beliefs.contextual.distinct._keys",
                lambda arms: (np.abs(arms.ids) % 3).astype(np.uint64),
            )
        for size in sizes:
            arms = Arms(rng.integers(-3, 4, size), rng.choice([-0.0, 0.0, 1.0, 2.5], (size, 2)))
            distinct, slots = distinct.located(arms)
            assert distinct.arms is not None
            assert_array_equal(distinct.arms.take(slots).ids, arms.ids)
            assert_array_equal(distinct.arms.take(slots).contexts, arms.contexts)
            known += [(int(i), *c.tolist()) for i, c in zip(arms.ids, arms.contexts, strict=True)]
            assert_array_equal(np.sort(distinct.slots), np.arange(len(distinct)))
            assert (np.diff(distinct.keys.astype(float)) >= 0).all()
            if not collide:
                assert len(distinct) == len(set(known))  # zero and minus zero are equal


def test_evidence_is_one_line_and_refuses_bad_noise() -> None:
    noise = np.ones(3)
    seen = Evidence.of_rewards([0, 2], [1.0, 2.0], noise, noise_variance=[0.5, 4.0])
    assert repr(seen) == "Evidence(2 observations of 3 arms)"
    assert seen.precision.diagonal().tolist() == [2.0, 0.0, 0.25]
    with pytest.raises(ValueError, match="noise_variance must be positive"):
        Evidence.of_rewards([0], [1.0], noise, noise_variance=0.0)


def test_beliefs_say_what_they_are_in_one_line() -> None:
    kernel = RBF() + PerArm()
    for belief in [
        *conditionable(0.1),
        SparseGP.from_kernel(ARMS, kernel, 0.1),
        IndependentGaussian(np.zeros(N), 1.0, 0.1),
    ]:
        learned = belief.condition(ARMS.take([1, 5, 1]), np.ones(3))
        assert "\n" not in repr(learned)
        assert len(repr(learned)) < 100
        assert "2 seen" in repr(learned)
