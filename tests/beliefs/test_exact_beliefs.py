"""Laws that every exact belief obeys, against the textbook formula and each other."""

import copy
import pickle
import threading
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from strategies import (
    dense_posterior,
    finite,
    histories,
    kernels,
    random_arms,
    rngs,
    seeds,
    vectors,
)
from superarm import Arms, CapacityError, NumericalError
from superarm.arrays import Vector
from superarm.beliefs import ExactGP, FiniteGP, IndependentGaussian
from superarm.beliefs import rows as rows_module
from superarm.kernels import RBF, Constant, Kernel, Matern52, PerArm
from superarm.protocols import JointPosterior

N = 40


@pytest.fixture
def fewest_extra(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> int:
    """How many extra rows a factor may have at least: few of them make a core early."""
    monkeypatch.setattr("superarm.beliefs.factor._FEWEST_EXTRA", request.param)
    return int(request.param)


EVERY_FACTOR = pytest.mark.parametrize("fewest_extra", [0, 3, 192], indirect=True)
FIXTURES = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30)
TIGHT: Any = {"rtol": 0.0, "atol": 1e-9}
ARMS = random_arms(N, 2, seed=1)
History = list[tuple[Any, Vector]]
Beliefs = FiniteGP | ExactGP | IndependentGaussian


def conditioned(belief: Any, history: History, arms: Arms = ARMS) -> Any:
    for rows, rewards in history:
        belief = belief.condition(arms.take(rows), rewards)
    return belief


def joined(history: History) -> tuple[Any, Vector]:
    return (
        np.concatenate([rows for rows, _ in history]),
        np.concatenate([rewards for _, rewards in history]),
    )


def assert_same(left: JointPosterior, right: JointPosterior) -> None:
    assert_allclose(left.mean, right.mean, **TIGHT)
    assert_allclose(left.std**2, right.std**2, **TIGHT)
    assert_allclose(left.covariance(), right.covariance(), **TIGHT)


def all_beliefs(kernel: Kernel, noise: float) -> list[Any]:
    return [
        FiniteGP.from_kernel(ARMS, kernel, noise),
        FiniteGP.from_covariance(np.zeros(N), kernel.gram(ARMS, ARMS), noise),
        ExactGP.from_kernel(kernel, noise),
    ]


@EVERY_FACTOR
@FIXTURES
@given(kernels(), histories(N), finite(0.01, 2.0), vectors(N))
def test_finite_gp_is_the_dense_solve(
    fewest_extra: int, kernel: Kernel, history: History, noise: float, mean: Vector
) -> None:
    del fewest_extra
    belief = FiniteGP.from_kernel(ARMS, kernel, noise, mean)
    posterior = conditioned(belief, history).posterior(ARMS)
    expected_mean, expected = dense_posterior(
        mean, kernel.gram(ARMS, ARMS), np.full(N, noise), *joined(history)
    )
    assert_allclose(posterior.mean, expected_mean, atol=1e-8)
    assert_allclose(posterior.std**2, np.diag(expected), **TIGHT)
    assert_allclose(posterior.covariance(), expected, **TIGHT)


@EVERY_FACTOR
@FIXTURES
@given(kernels(), histories(N), finite(0.01, 2.0))
def test_finite_gp_exact_gp_and_full_covariance_agree(
    fewest_extra: int, kernel: Kernel, history: History, noise: float
) -> None:
    del fewest_extra
    finite_gp, dense, exact = (
        conditioned(belief, history).posterior(ARMS) for belief in all_beliefs(kernel, noise)
    )
    assert_same(finite_gp, dense)
    assert_same(finite_gp, exact)


@EVERY_FACTOR
@FIXTURES
@given(kernels(), histories(N), seeds)
def test_sequential_is_batch_is_shuffled_conditioning(
    fewest_extra: int, kernel: Kernel, history: History, seed: int
) -> None:
    del fewest_extra
    rows, rewards = joined(history)
    order = np.random.default_rng(seed).permutation(rows.size)
    for belief in [*all_beliefs(kernel, 0.3), IndependentGaussian(np.zeros(N), 1.0, 0.3)]:
        sequential = conditioned(belief, history).posterior(ARMS)
        assert_same(sequential, conditioned(belief, [(rows, rewards)]).posterior(ARMS))
        shuffled = conditioned(belief, [(rows[order], rewards[order])])
        assert_same(sequential, shuffled.posterior(ARMS))
        one_by_one = [(rows[[i]], rewards[[i]]) for i in order[:30]]
        rest = [(rows[order[30:]], rewards[order[30:]])]
        assert_same(sequential, conditioned(belief, one_by_one + rest).posterior(ARMS))


@given(kernels(), seeds)
def test_merged_repeats_are_unmerged_repeats(kernel: Kernel, seed: int) -> None:
    """A repeat of an arm is another arm with another id and the same value."""
    rng = np.random.default_rng(seed)
    rows, rewards = rng.integers(5, size=60), rng.standard_normal(60)
    twins = Arms(np.arange(60), ARMS.contexts[rows])
    shared = kernel.gram(ARMS.take(rows), ARMS.take(rows))
    merged = FiniteGP.from_kernel(ARMS, kernel, 0.2).condition(ARMS.take(rows), rewards)
    apart = FiniteGP.from_covariance(np.zeros(60), shared, 0.2).condition(Arms(twins.ids), rewards)
    assert merged.seen.size <= 5
    assert apart.seen.size == 60
    assert_allclose(
        merged.posterior(ARMS).mean[rows], apart.posterior(Arms(twins.ids)).mean, **TIGHT
    )
    assert_allclose(
        merged.posterior(ARMS).std[rows] ** 2,
        apart.posterior(Arms(twins.ids)).std ** 2,
        **TIGHT,
    )


@given(vectors(N, 0.01, 4.0), vectors(N), histories(N), vectors(N, 0.05, 2.0))
def test_independent_belief_is_the_gp_with_diagonal_covariance(
    variances: Vector, mean: Vector, history: History, noise: Vector
) -> None:
    arms = Arms(np.arange(N))
    left = FiniteGP.from_covariance(mean, np.diag(variances), noise)
    right = IndependentGaussian(mean, variances, noise)
    assert_same(
        conditioned(left, history, arms).posterior(arms),
        conditioned(right, history, arms).posterior(arms),
    )


@given(finite(-2, 2), finite(0.1, 3.0), finite(0.1, 3.0), st.lists(finite(-5, 5), max_size=8))
def test_independent_belief_is_the_conjugate_update(
    mean: float, variance: float, noise: float, rewards: list[float]
) -> None:
    arm = Arms(np.zeros(len(rewards), dtype=int))
    posterior = (
        IndependentGaussian([mean], variance, noise)
        .condition(arm, np.array(rewards))
        .posterior(Arms([0]))
    )
    precision = 1 / variance + len(rewards) / noise
    assert_allclose(posterior.std**2, 1 / precision)
    assert_allclose(
        posterior.mean, (mean / variance + sum(rewards) / noise) / precision, atol=1e-12
    )


@EVERY_FACTOR
@FIXTURES
@given(kernels(), histories(N), histories(N), seeds)
def test_old_beliefs_and_siblings_stay_as_they_were(
    fewest_extra: int, kernel: Kernel, first: History, second: History, seed: int
) -> None:
    del fewest_extra
    rng = np.random.default_rng(seed)
    start: History = [(rng.integers(N, size=9), rng.standard_normal(9))]
    for belief in [*all_beliefs(kernel, 0.3), IndependentGaussian(np.zeros(N), 1.0, 0.3)]:
        parent = conditioned(belief, start)
        before = parent.posterior(ARMS)
        mean, covariance = before.mean.copy(), before.covariance().copy()
        left, right = conditioned(parent, first), conditioned(parent, second)
        alone = conditioned(conditioned(belief, start), second)
        assert_same(right.posterior(ARMS), alone.posterior(ARMS))
        assert_same(
            left.posterior(ARMS), conditioned(conditioned(belief, start), first).posterior(ARMS)
        )
        assert_array_equal(parent.posterior(ARMS).mean, mean)
        assert_array_equal(parent.posterior(ARMS).covariance(), covariance)


def test_siblings_conditioned_in_threads_do_not_affect_each_other() -> None:
    kernel = Matern52(0.3)
    arms = random_arms(300, 2, seed=3)
    rng = np.random.default_rng(0)
    parent = FiniteGP.from_kernel(arms, kernel, 0.1).condition(
        arms.take(rng.integers(300, size=20)), rng.standard_normal(20)
    )
    data = [(rng.integers(300, size=15), rng.standard_normal(15)) for _ in range(16)]
    results: dict[int, FiniteGP] = {}

    def learn(number: int) -> None:
        rows, rewards = data[number]
        results[number] = parent.condition(arms.take(rows), rewards)

    threads = [threading.Thread(target=learn, args=(number,)) for number in range(len(data))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number, (rows, rewards) in enumerate(data):
        alone = parent.condition(arms.take(rows), rewards)
        assert_same(results[number].posterior(arms), alone.posterior(arms))


@given(histories(N, batches=6), st.sampled_from([1, 3, 7, 64]))
def test_kernel_rows_hold_what_was_appended_whatever_the_block_size(
    history: History, capacity: int
) -> None:
    fewest, most = rows_module._FEWEST_ROWS, rows_module._BLOCK_BYTES  # noqa: SLF001
    try:
        rows_module._FEWEST_ROWS, rows_module._BLOCK_BYTES = capacity, 0  # noqa: SLF001
        belief = conditioned(FiniteGP.from_kernel(ARMS, RBF(0.4), 0.5), history)
        expected = RBF(0.4).gram(ARMS.take(belief.seen), ARMS)
        assert_array_equal(belief.rows.matrix(), expected)
        exact = conditioned(ExactGP.from_kernel(RBF(0.4), 0.5), history)
        assert_same(belief.posterior(ARMS), exact.posterior(ARMS))
    finally:
        rows_module._FEWEST_ROWS, rows_module._BLOCK_BYTES = fewest, most  # noqa: SLF001


@given(seeds, st.sampled_from([1, 7, 40]))
def test_tiles_do_not_change_the_posterior(seed: int, tile: int) -> None:
    rng = np.random.default_rng(seed)
    rows, rewards = rng.integers(N, size=30), rng.standard_normal(30)
    whole = FiniteGP.from_kernel(ARMS, RBF(0.4), 0.5).condition(ARMS.take(rows), rewards)
    normal = rows_module.TILE
    try:
        rows_module.TILE = tile
        cut = FiniteGP.from_kernel(ARMS, RBF(0.4), 0.5).condition(ARMS.take(rows), rewards)
        exact = ExactGP.from_kernel(RBF(0.4), 0.5).condition(ARMS.take(rows), rewards)
        assert_same(whole.posterior(ARMS), cut.posterior(ARMS))
        assert_same(whole.posterior(ARMS), exact.posterior(ARMS))
    finally:
        rows_module.TILE = normal


@given(seeds, vectors(N, 0.05, 2.0))
def test_noise_per_arm_enters_the_posterior(seed: int, noise: Vector) -> None:
    rng = np.random.default_rng(seed)
    rows, rewards = rng.integers(N, size=50), rng.standard_normal(50)
    kernel = Matern52(0.5)
    mean, covariance = dense_posterior(np.zeros(N), kernel.gram(ARMS, ARMS), noise, rows, rewards)
    for belief in (FiniteGP.from_kernel(ARMS, kernel, noise), ExactGP.from_kernel(kernel, noise)):
        posterior = belief.condition(ARMS.take(rows), rewards).posterior(ARMS)
        assert_allclose(posterior.mean, mean, **TIGHT)
        assert_allclose(posterior.std**2, np.diag(covariance), **TIGHT)
        assert_allclose(posterior.noise_std, np.sqrt(noise))


@given(kernels(), seeds)
def test_exact_gp_generalises_to_contexts_never_seen(kernel: Kernel, seed: int) -> None:
    rng = np.random.default_rng(seed)
    seen = Arms(rng.integers(9, size=30), rng.random((30, 2)))
    asked = Arms(rng.integers(9, size=12), rng.random((12, 2)))
    rewards = rng.standard_normal(30)

    def mean(arms: Arms) -> Vector:
        return np.sin(arms.contexts[:, 0]) + arms.contexts[:, 1]

    posterior = ExactGP.from_kernel(kernel, 0.1, mean).condition(seen, rewards).posterior(asked)
    both = seen.joined(asked)
    expected_mean, expected = dense_posterior(
        mean(both), kernel.gram(both, both), np.full(42, 0.1), np.arange(30), rewards
    )
    assert_allclose(posterior.mean, expected_mean[30:], atol=1e-8)
    assert_allclose(posterior.covariance(), expected[30:, 30:], **TIGHT)


def test_exact_gp_merges_by_id_and_context() -> None:
    belief = ExactGP.from_kernel(RBF() + PerArm(), 0.1)
    arms = Arms([1, 1, 2, 1], [[0.0], [0.0], [0.0], [1.0]])
    belief = belief.condition(arms, np.ones(4)).condition(Arms([1], [[-0.0]]), np.ones(1))
    assert belief.counts.tolist() == [3.0, 1.0, 1.0]
    huge = Arms([2**60, 2**60 + 1], [[0.0], [0.0]])
    assert ExactGP.from_kernel(RBF(), 0.1).condition(huge, np.ones(2)).counts.tolist() == [1.0, 1.0]


@EVERY_FACTOR
@FIXTURES
@given(kernels(), histories(N), st.sampled_from([0, 1, 2, 3]), seeds)
def test_posterior_of_a_subset_is_the_subset_of_the_posterior(
    fewest_extra: int, kernel: Kernel, history: History, which: int, seed: int
) -> None:
    del fewest_extra
    belief = [*all_beliefs(kernel, 0.3), IndependentGaussian(np.zeros(N), 1.0, 0.3)][which]
    rows = np.random.default_rng(seed).permutation(N)[:11]
    learned = conditioned(belief, history)
    part, whole = learned.posterior(ARMS.take(rows)), learned.posterior(ARMS)
    assert_allclose(part.mean, whole.mean[rows], **TIGHT)
    assert_allclose(part.std, whole.std[rows], atol=1e-7)
    assert_allclose(part.covariance(), whole.covariance()[np.ix_(rows, rows)], **TIGHT)


def test_arm_ids_need_not_be_positions() -> None:
    ids = np.array([70, -3, 12, 500, 9])
    arms = Arms(ids, ARMS.contexts[:5])
    plain = FiniteGP.from_kernel(ARMS.take(range(5)), RBF(0.5), 0.1)
    named = FiniteGP.from_kernel(arms, RBF(0.5), 0.1).condition(
        Arms([500, -3, 500]), np.array([1.0, 2.0, 3.0])
    )
    plain = plain.condition(Arms([3, 1, 3]), np.array([1.0, 2.0, 3.0]))
    assert_same(named.posterior(arms), plain.posterior(ARMS.take(range(5))))


SAMPLES = 6000


def assert_moments(posterior: JointPosterior, rng: np.random.Generator) -> None:
    """Mean and covariance of draws, each entry within 5 standard errors."""
    draws = np.array([posterior.sample(rng) for _ in range(SAMPLES)])
    spread = posterior.std
    assert (np.abs(draws.mean(axis=0) - posterior.mean) <= 5 * spread / SAMPLES**0.5 + 1e-9).all()
    error = 5 * np.sqrt(2 / SAMPLES) * np.outer(spread, spread) + 1e-9
    centred = draws - posterior.mean
    assert (np.abs(centred.T @ centred / SAMPLES - posterior.covariance()) <= error).all()


@pytest.mark.parametrize("which", range(4))
@EVERY_FACTOR
def test_joint_draws_have_the_moments_of_the_posterior(which: int, fewest_extra: int) -> None:
    rng = np.random.default_rng(fewest_extra)
    rows, rewards = rng.integers(N, size=30), rng.standard_normal(30)
    belief = [
        *all_beliefs(Matern52(0.4) * RBF(1.0) + Constant(0.5), 0.2),
        IndependentGaussian(np.ones(N), 1.0, 0.2),
    ][which]
    learned = belief.condition(ARMS.take(rows), rewards)
    assert_moments(learned.posterior(ARMS.take(np.arange(0, N, 3))), rng)
    assert_moments(belief.posterior(ARMS.take(np.arange(5))), rng)


@pytest.mark.slow
def test_matherons_rule_has_the_moments_of_the_posterior_in_exact_gp(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("superarm.beliefs.posterior.DIRECT_DRAW_LIMIT", 0)
    monkeypatch.setattr("superarm.beliefs.factor._FEWEST_EXTRA", 3)
    rng = np.random.default_rng(3)
    rows, rewards = rng.integers(N, size=30), rng.standard_normal(30)
    belief = ExactGP.from_kernel(Matern52(0.4), 0.2, lambda arms: arms.contexts.sum(axis=1))
    assert_moments(belief.posterior(ARMS.take(np.arange(5))), rng)
    learned = belief.condition(ARMS.take(rows), rewards)
    assert_moments(learned.posterior(ARMS.take(np.arange(0, N, 5))), rng)


@pytest.mark.slow
@pytest.mark.parametrize("exact", [True, False])
def test_matherons_rule_has_the_moments_of_the_posterior_in_finite_gp(
    monkeypatch: pytest.MonkeyPatch, *, exact: bool
) -> None:
    """Random features change the law of a draw, not its mean and covariance."""
    monkeypatch.setattr("superarm.beliefs.posterior.DIRECT_DRAW_LIMIT", 0)
    monkeypatch.setattr("superarm.beliefs.factor._FEWEST_EXTRA", 3)
    if not exact:
        monkeypatch.setattr("superarm.beliefs.covariance.EXACT_DRAW_LIMIT", 0)
    rng = np.random.default_rng(4)
    rows, rewards = rng.integers(N, size=30), rng.standard_normal(30)
    belief = FiniteGP.from_kernel(ARMS, Matern52(0.4), 0.2).condition(ARMS.take(rows), rewards)
    assert_moments(belief.posterior(ARMS.take(np.arange(0, N, 5))), rng)


@pytest.mark.slow
def test_variances_stay_exact_over_hundreds_of_rounds() -> None:
    rng = np.random.default_rng(0)
    arms = random_arms(300, 3, seed=0)
    kernel = Matern52(0.5)
    belief = FiniteGP.from_kernel(arms, kernel, 0.01)
    everything: History = []
    for _ in range(400):
        rows = rng.choice(80, size=6, replace=False)
        everything.append((rows, rng.standard_normal(6)))
        belief = belief.condition(arms.take(rows), everything[-1][1])
    counts = belief.counts
    gram = kernel.gram(arms, arms)
    seen = belief.seen
    system = gram[np.ix_(seen, seen)] + np.diag(0.01 / counts)
    expected = np.diag(gram) - np.sum(gram[seen] * np.linalg.solve(system, gram[seen]), axis=0)
    assert_allclose(belief.variance, expected, rtol=0, atol=1e-11)
    mean = gram[:, seen] @ np.linalg.solve(system, belief.statistics.averages)
    assert_allclose(belief.mean, mean, rtol=0, atol=1e-9)


@pytest.mark.parametrize(
    "belief", [*all_beliefs(RBF(0.4), 0.1), IndependentGaussian(np.zeros(N), 1.0, 0.1)]
)
class TestBadInputLeavesTheBeliefAsItWas:
    @pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
    def test_rewards_that_are_not_finite(self, belief: Any, bad: float) -> None:
        before = belief.posterior(ARMS).mean.copy()
        with pytest.raises(ValueError, match="rewards must be finite"):
            belief.condition(ARMS.take([0, 1]), np.array([0.5, bad]))
        assert_array_equal(belief.posterior(ARMS).mean, before)

    def test_wrong_number_of_rewards(self, belief: Any) -> None:
        with pytest.raises(ValueError, match="rewards must have length 2, got 3"):
            belief.condition(ARMS.take([0, 1]), np.zeros(3))

    def test_a_matrix_of_rewards(self, belief: Any) -> None:
        with pytest.raises(ValueError, match="one axis"):
            belief.condition(ARMS.take([0, 1]), np.zeros((2, 1)))


@pytest.mark.parametrize(
    "belief", [FiniteGP.from_kernel(ARMS, RBF(), 0.1), IndependentGaussian(np.zeros(N), 1.0, 0.1)]
)
@pytest.mark.parametrize("stranger", [N, -1])
def test_unknown_arm_ids_are_named(belief: Any, stranger: int) -> None:
    with pytest.raises(ValueError, match=f"arm id {stranger} is unknown"):
        belief.posterior(Arms([0, stranger]))
    with pytest.raises(ValueError, match=f"arm id {stranger} is unknown"):
        belief.condition(Arms([0, stranger]), np.zeros(2))


def test_unknown_ids_among_named_ones_are_named() -> None:
    belief = FiniteGP.from_kernel(Arms([5, 2, 9], [[0.0], [1.0], [2.0]]), RBF(), 0.1)
    with pytest.raises(ValueError, match="arm id 3 is unknown"):
        belief.posterior(Arms([3]))
    with pytest.raises(ValueError, match="arm id 10 is unknown"):
        belief.posterior(Arms([10]))


def test_other_contexts_than_the_universes_are_refused() -> None:
    belief = FiniteGP.from_kernel(ARMS, RBF(), 0.1)
    with pytest.raises(ValueError, match="use ExactGP where contexts change"):
        belief.posterior(Arms([0], [[9.0, 9.0]]))


def test_repeated_ids_in_the_universe_are_refused() -> None:
    with pytest.raises(ValueError, match="arm id 1 occurs twice"):
        FiniteGP.from_kernel(Arms([0, 1, 1], [[0.0], [1.0], [2.0]]), RBF(), 0.1)


def test_an_empty_universe_is_refused() -> None:
    with pytest.raises(ValueError, match="no arms"):
        IndependentGaussian([], 1.0, 0.1)


@pytest.mark.parametrize("noise", [0.0, -1.0, np.nan, np.inf])
def test_noise_must_be_positive(noise: float) -> None:
    with pytest.raises(ValueError, match="noise_variance must be"):
        FiniteGP.from_kernel(ARMS, RBF(), noise)
    with pytest.raises(ValueError, match="noise_variance must be"):
        ExactGP.from_kernel(RBF(), noise)
    with pytest.raises(ValueError, match="noise_variance must be"):
        IndependentGaussian([0.0], 1.0, noise)


def test_prior_variance_must_be_positive() -> None:
    with pytest.raises(ValueError, match="variance must be positive"):
        IndependentGaussian([0.0, 0.0], [1.0, 0.0], 0.1)


def test_a_covariance_that_is_not_psd_is_refused() -> None:
    with pytest.raises(ValueError, match="not positive semi-definite"):
        FiniteGP.from_covariance([0.0, 0.0], [[1.0, 2.0], [2.0, 1.0]], 0.1)
    with pytest.raises(ValueError, match="symmetric"):
        FiniteGP.from_covariance([0.0, 0.0], [[1.0, 0.5], [0.0, 1.0]], 0.1)
    with pytest.raises(ValueError, match="square"):
        FiniteGP.from_covariance([0.0, 0.0], [[1.0, 0.5]], 0.1)
    with pytest.raises(ValueError, match="negative variance"):
        FiniteGP.from_covariance([0.0, 0.0], [[-1.0, 0.0], [0.0, 1.0]], 0.1)


def test_a_singular_covariance_is_welcome() -> None:
    belief = FiniteGP.from_covariance(np.zeros(3), np.ones((3, 3)), 0.1)
    learned = belief.condition(Arms([0]), np.array([1.0])).posterior(Arms([0, 1, 2]))
    assert_allclose(learned.mean, 1 / 1.1)
    assert learned.sample(np.random.default_rng(0)).shape == (3,)


def test_a_prior_mean_of_the_wrong_length_is_refused() -> None:
    with pytest.raises(ValueError, match="mean must have length 2, got 3"):
        FiniteGP.from_covariance(np.zeros(3), np.eye(2), 0.1)


def test_noise_lost_beside_the_prior_is_an_error_and_loses_nothing() -> None:
    arms = random_arms(30, 1, seed=0)
    belief = FiniteGP.from_kernel(arms, RBF(lengthscale=50.0, variance=1e6), 1e-14)
    with pytest.raises(NumericalError, match="noise variance"):
        belief.condition(arms, np.zeros(30))
    assert belief.seen.size == 0


def test_exact_gp_says_when_it_holds_too_much() -> None:
    belief = ExactGP.from_kernel(RBF(), 0.1, max_distinct=3).condition(
        ARMS.take([0, 1, 2]), np.zeros(3)
    )
    belief = belief.condition(ARMS.take([0, 1, 2]), np.zeros(3))
    with pytest.raises(CapacityError, match=r"at most 3 distinct.*StreamingGP, a sparse GP"):
        belief.condition(ARMS.take([3]), np.zeros(1))
    with pytest.raises(ValueError, match="max_distinct must be at least 1"):
        ExactGP.from_kernel(RBF(), 0.1, max_distinct=0)


def test_exact_gp_refuses_contexts_of_another_width_and_unknown_noise() -> None:
    belief = ExactGP.from_kernel(RBF(), [0.1, 0.2]).condition(Arms([0], [[0.0]]), np.zeros(1))
    with pytest.raises(ValueError, match="2 context features"):
        belief.posterior(Arms([0], [[0.0, 1.0]]))
    with pytest.raises(ValueError, match="2 context features"):
        belief.condition(Arms([0], [[0.0, 1.0]]), np.zeros(1))
    with pytest.raises(ValueError, match="arm id 2 has no noise variance"):
        belief.condition(Arms([2], [[0.0]]), np.zeros(1))
    with pytest.raises(ValueError, match="mean must be finite|mean must have one axis"):
        ExactGP.from_kernel(RBF(), 0.1, mean=np.nan)


def test_the_covariance_of_too_many_arms_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("superarm.beliefs.posterior.COVARIANCE_LIMIT", 10)
    for belief in all_beliefs(RBF(), 0.1):
        with pytest.raises(CapacityError, match="joint covariance of 40 arms"):
            belief.posterior(ARMS).covariance()


@given(rngs())
def test_conditioning_on_nothing_changes_nothing(rng: np.random.Generator) -> None:
    rows, rewards = rng.integers(N, size=8), rng.standard_normal(8)
    for belief in all_beliefs(RBF(0.4), 0.1):
        learned = belief.condition(ARMS.take(rows), rewards)
        again = learned.condition(ARMS.take([]), np.empty(0))
        assert_array_equal(again.posterior(ARMS).mean, learned.posterior(ARMS).mean)


def test_learned_beliefs_can_be_pickled_and_copied() -> None:
    rng = np.random.default_rng(0)
    rows, rewards = rng.integers(N, size=30), rng.standard_normal(30)
    for belief in (*all_beliefs(RBF(0.4), 0.1), IndependentGaussian(np.zeros(N), 1.0, 0.1)):
        learned = belief.condition(ARMS.take(rows), rewards)
        for twin in (pickle.loads(pickle.dumps(learned)), copy.deepcopy(learned)):  # noqa: S301
            left = learned.condition(ARMS.take(rows), rewards).posterior(ARMS)
            right = twin.condition(ARMS.take(rows), rewards).posterior(ARMS)
            assert_array_equal(left.mean, right.mean)
            assert_array_equal(left.std, right.std)


def test_a_kernel_that_does_not_fit_the_arms_is_refused_at_once() -> None:
    with pytest.raises(ValueError, match="the arms carry none"):
        FiniteGP.from_kernel(Arms(range(5)), RBF(), 0.1)
    with pytest.raises(ValueError, match="3 lengthscales for 2 context features"):
        FiniteGP.from_kernel(ARMS, RBF([1.0, 1.0, 1.0]), 0.1)
    with pytest.raises(ValueError, match="mean must have one axis"):
        ExactGP.from_kernel(RBF(), 0.1, mean=np.zeros((2, 3)))
