"""What a hostile reader found: extremes that must be right, or refused with a reason."""

import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from strategies import random_arms, seeds
from superarm import Arms, CapacityError, NumericalError
from superarm.beliefs import (
    DenseGP,
    Evidence,
    ExactGP,
    FiniteGP,
    IndependentGaussian,
    MatrixMemory,
    SparseGP,
    StreamingGP,
)
from superarm.beliefs.sums import memory as memory_module
from superarm.kernels import RBF, Kernel, Linear, Matern12, Matern32, Matern52

EMPTY = np.empty(0)


def textbook(
    prior: Any, rows: list[Any], totals: list[float], noise: list[float]
) -> tuple[Any, Any]:
    design = np.array([np.bincount(some, minlength=prior.shape[0]) for some in rows], dtype=float)
    gain = np.linalg.solve(design @ prior @ design.T + np.diag(noise), design @ prior).T
    return gain @ np.array(totals), (prior - gain @ design @ prior).diagonal()


@given(seeds, st.integers(2, 8))
def test_sums_of_very_different_precision_all_count(seed: int, pairs: int) -> None:
    """Prior variances and noises span many orders; a total must not vanish beside a precise one."""
    rng = np.random.default_rng(seed)
    scale = 10.0 ** rng.integers(0, 7, pairs)
    prior = np.diag(np.repeat(scale, 2))
    ratio = 10.0 ** rng.integers(-2, 8, pairs)  # prior over noise
    noise, totals = (scale / ratio).tolist(), (np.sqrt(scale) * rng.standard_normal(pairs)).tolist()
    rows = [np.array([2 * i, 2 * i + 1]) for i in range(pairs)]
    belief = DenseGP.from_covariance(np.zeros(2 * pairs), prior, 1.0)
    starts = np.arange(0, 2 * pairs + 1, 2)
    arms = Arms(np.arange(2 * pairs))
    learned = belief.condition_sums(arms, starts, totals, noise_variance=noise)
    mean, variance = textbook(prior, rows, totals, noise)
    assert_allclose(learned.mean, mean, rtol=1e-6, atol=1e-9 * np.sqrt(scale.max()))
    assert_allclose(learned.variance, variance, rtol=1e-5)


def test_sparse_variances_count_arms_of_any_scale() -> None:
    arms = Arms([0, 1], [[1.0, 0.0], [0.0, 1e6]])
    noise = [1e-8, 1e10]
    sparse = SparseGP.from_kernel(arms, Linear(), noise, rate=1.0)
    exact = FiniteGP.from_kernel(arms, Linear(), noise)
    left, right = (b.condition(arms, np.array([1.0, 1e6])).posterior(arms) for b in (sparse, exact))
    assert_allclose(left.std, right.std, rtol=1e-6)
    assert_allclose(left.mean, right.mean, rtol=1e-6)


def test_memory_in_use_is_never_handed_out() -> None:
    memory = MatrixMemory()
    first = memory.empty(4)
    held = first[1:2, ::2]  # a slice is enough
    del first
    second = memory.empty(4)
    assert not np.shares_memory(second, held)
    place = second.__array_interface__["data"][0]
    del second
    assert memory.empty(4).__array_interface__["data"][0] == place
    # the count of an array that only the pool knows, on whatever interpreter this is
    alone = [np.empty((2, 2))]
    assert memory_module._references(alone, 0) == memory_module._ALONE  # noqa: SLF001
    other = alone[0]
    assert memory_module._references(alone, 0) == memory_module._ALONE + 1  # noqa: SLF001
    assert sys.getrefcount(other) >= 2


def test_memory_of_a_size_nobody_wants_is_given_up() -> None:
    memory = MatrixMemory(most=2)
    for size in (3, 4, 5, 100):
        memory.empty(size)
    place = memory.empty(100).__array_interface__["data"][0]
    assert memory.empty(100).__array_interface__["data"][0] == place


@given(seeds, st.sampled_from([RBF(1.0), Matern32(0.8), Matern52(0.5)]), st.integers(20, 150))
def test_large_batches_leave_streaming_variances_close(
    seed: int, kernel: Kernel, size: int
) -> None:
    arms = Arms(np.zeros(size, dtype=int), np.random.default_rng(seed).random((size, 1)))
    belief = StreamingGP.from_kernel(kernel, 1.0).condition(arms, np.zeros(size))
    gram = kernel.gram(arms, arms)
    exact = (gram - gram @ np.linalg.solve(gram + np.eye(size), gram)).diagonal()
    assert (belief.posterior(arms).std ** 2 / exact).max() < 2.0


def test_streaming_draws_are_joint_at_any_size() -> None:
    belief = StreamingGP.from_kernel(Matern12(0.1), 0.1, n_inducing=2)
    belief = belief.condition(Arms([0, 0, 0], [[0.0], [0.5], [1.0]]), np.array([1.0, 2.0, 3.0]))
    rng = np.random.default_rng(0)
    for size in (1000, 1001):
        arms = Arms(np.zeros(size, dtype=int), np.linspace(0.2, 0.3, size)[:, None])
        posterior = belief.posterior(arms)
        draws = np.array([posterior.sample(rng) for _ in range(60)])
        middle = draws[:, [size // 2, size // 2 + 1]]
        assert np.corrcoef(middle.T)[0, 1] > 0.9
        spread = posterior.std[size // 2]
        assert abs(middle[:, 0].mean() - posterior.mean[size // 2]) < 5 * spread / np.sqrt(60)


def test_deviations_that_no_digit_is_left_of_are_refused() -> None:
    two = Arms([0, 1], [[0.0], [np.sqrt(2 * np.log(2))]])
    for belief in (FiniteGP.from_kernel(two, RBF(), 1e-16), ExactGP.from_kernel(RBF(), 1e-16)):
        with pytest.raises(NumericalError, match="prior over noise variance would be 1e"):
            belief.condition(two, np.array([1.0, 2.0]))
    fine = FiniteGP.from_kernel(two, RBF(), 1e-13).condition(two, np.array([1.0, 2.0]))
    assert (fine.posterior(two).covariance().diagonal() >= 0).all()


def test_arms_that_do_not_vary_are_no_trouble() -> None:
    still = Arms([0, 1, 2], np.zeros((3, 2)))
    rng = np.random.default_rng(0)
    for make in (FiniteGP, DenseGP, SparseGP):
        belief: Any = make.from_kernel(still, Linear(), 0.1, 2.0)
        learned = belief.condition(still, np.array([1.0, 2.0, 3.0]))
        assert_array_equal(learned.posterior(still).mean, np.full(3, 2.0))
        assert_array_equal(learned.posterior(still).sample(rng), np.full(3, 2.0))
    flat = DenseGP.from_covariance([0, 0], np.zeros((2, 2)))
    assert_array_equal(flat.posterior(Arms([0, 1])).sample(rng), np.zeros(2))


def test_an_arm_given_twice_is_one_arm_to_independent_beliefs_too() -> None:
    belief = IndependentGaussian([0.0, 1.0], 1.0, 1.0)
    posterior = belief.posterior(Arms([0, 1, 0]))
    assert_array_equal(posterior.covariance(), [[1, 0, 1], [0, 1, 0], [1, 0, 1]])
    draw = posterior.sample(np.random.default_rng(0))
    assert draw[0] == draw[2]
    many = IndependentGaussian(np.zeros(30_000), 1.0).posterior(Arms(np.arange(30_000)))
    with pytest.raises(CapacityError, match="joint covariance of 30000 arms"):
        many.covariance()


def test_numbers_that_cannot_be_added_up_are_refused() -> None:
    for belief in (
        FiniteGP.from_kernel(random_arms(3, 1, 0), RBF()),
        IndependentGaussian([0.0], 1),
    ):
        with pytest.raises(ValueError, match="noise_variance must be between"):
            belief.condition(Arms([0]), np.ones(1), noise_variance=3e-308)
        with pytest.raises(ValueError, match="too large to be added up"):
            belief.condition(Arms([0, 0]), np.full(2, 1.7e308), noise_variance=1e-9)


def test_evidence_cannot_be_written_to_and_knows_its_size() -> None:
    seen = Evidence.of_rewards([0, 1], [1.0, 2.0], np.full(3, 0.1))
    for part in (seen.precision.data, seen.weighted, seen.precision.indices):
        with pytest.raises(ValueError, match="read-only"):
            part[0] = 7
    with pytest.raises(ValueError, match="about 4 arms, the other about 3"):
        Evidence.nothing(3) + Evidence.nothing(4)


def test_large_universes_claim_little_and_say_what_they_hold() -> None:
    arms = Arms(np.arange(300_000), np.linspace(0, 1, 300_000)[:, None])
    belief = FiniteGP.from_kernel(arms, Matern52(0.1), 0.1).condition(arms.take([1]), np.ones(1))
    assert belief.rows.blocks[0].data.nbytes <= 160e6
    assert belief.rows.held_bytes == 8 * 300_000
    assert "MB" in repr(belief)


@pytest.mark.parametrize("bad", [2.5, "3"])
def test_counts_are_whole_numbers(bad: Any) -> None:
    arms = random_arms(4, 1, 0)
    makers: list[Any] = [
        lambda: StreamingGP.from_kernel(RBF(), n_inducing=bad),
        lambda: SparseGP.from_kernel(arms, RBF(), n_inducing=bad),
    ]
    for make in makers:
        with pytest.raises(ValueError, match="n_inducing must be a whole number"):
            make()


def test_ids_beyond_the_integers_are_refused() -> None:
    with pytest.raises(ValueError, match="ids must be integers up to"):
        Arms(np.array([2**63], dtype=np.uint64))
    with pytest.raises(ValueError, match="ids must be integers .from -2"):
        Arms([2**64])
