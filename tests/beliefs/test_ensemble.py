"""An ensemble of posterior draws, against the posterior held whole."""

from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import coo_array, csc_array, csr_array

from strategies import finite, functionals, kernels, random_arms, rngs, vectors
from superarm import Agent, Arms, CapacityError, NumericalError, Round, load, save
from superarm.arrays import Matrix, Vector
from superarm.beliefs import DenseGP, EnsembleGP, Evidence
from superarm.beliefs.ensemble import Observations, PriorRoot
from superarm.beliefs.ensemble.observations import keyed_normals
from superarm.beliefs.ensemble.solving import conjugate_gradients
from superarm.kernels import (
    RBF,
    Beside,
    Constant,
    GraphMatern,
    Kernel,
    Linear,
    Matern12,
    Matern52,
    OnFeatures,
    PerArm,
)
from superarm.oracles import Subsets, TopK
from superarm.policies import JointThompson, MarginalThompson, UpperConfidenceBound
from superarm.theory import BayesUCBWidth

N = 30
ARMS = random_arms(N, 3, seed=5)
RING = [(i, (i + step) % N) for i in range(N) for step in (1, 7)]
LENGTHS = 0.5 + random_arms(N, 1, seed=6).contexts[:, 0]
SCALED = OnFeatures(Linear(), [2])
LOCAL = GraphMatern(RING, LENGTHS)
ROADS = OnFeatures(Linear(0.5), [0, 1]) + SCALED * (0.3 * LOCAL + PerArm(0.4)) + Constant(0.2)
EVERYTHING = ROADS + SCALED * OnFeatures(Matern52(0.7, 0.3), [0, 1])
NOISE = 0.3
FULL: Any = {"unexplained": 1e-12}


def dense_after(kernel: Kernel, *seen: Any) -> DenseGP:
    belief = DenseGP.from_kernel(ARMS, kernel, NOISE, 0.5)
    for one in seen:
        belief = belief.condition_evidence(Evidence.of_functionals(*one))
    return belief


def ensemble(kernel: Kernel = EVERYTHING, **options: Any) -> EnsembleGP:
    return EnsembleGP.from_kernel(ARMS, kernel, NOISE, 0.5, **(FULL | options))


def gram_of(root: PriorRoot) -> Matrix:
    return root.times(root.transposed(np.eye(root.n_arms)))


@pytest.mark.parametrize(
    "kernel",
    [
        ROADS,
        PerArm(0.5),
        Linear(2.0),
        LOCAL,
        2.0 * GraphMatern(RING, LENGTHS, nu=1, normalise="correlation"),
        Beside(Linear() + SCALED * GraphMatern(RING, LENGTHS), N - 4, PerArm(1.5)),
        Beside(PerArm(0.5) + Constant(0.2), 7, 0.3 * LOCAL + Linear()),
        SCALED * GraphMatern(RING, LENGTHS, nu=3, normalise="none"),
        (PerArm(0.4) + Constant(0.1)) * (Linear() + 1.0),
        PerArm(0.4) * RBF(1.0),
    ],
)
def test_sums_of_graphs_features_and_own_effects_have_an_exact_root(kernel: Kernel) -> None:
    root = PriorRoot.of_kernel(ARMS, kernel, 1e-3, N)
    expected = kernel.gram(ARMS, ARMS)
    assert_allclose(gram_of(root), expected, atol=1e-12 * np.abs(expected).max())
    assert root.unexplained == 0.0


@given(rngs())
def test_the_root_and_its_transpose_are_adjoint(rng: np.random.Generator) -> None:
    root = PriorRoot.of_kernel(ARMS, EVERYTHING, 1e-2, N)
    latent, values = rng.standard_normal((root.size, 20)), rng.standard_normal((N, 20))
    left = (root.times(latent) * values).sum(axis=0)
    right = (latent * root.transposed(values)).sum(axis=0)
    assert_allclose(left, right, atol=1e-10)


@given(rngs(), st.sampled_from([1, 3, 16, 17]))
def test_features_of_single_precision_are_multiplied_in_double_precision(
    rng: np.random.Generator, columns: int
) -> None:
    features: Any = rng.standard_normal((N, 7), dtype=np.float32)
    root = PriorRoot(features, np.ones(N), (), 0.0)
    latent, values = rng.standard_normal((7, columns)), rng.standard_normal((N, columns))
    values[rng.random(N) < 0.5] = 0.0
    exact = features.astype(np.float64)
    assert_allclose(root.features_times(latent), exact @ latent, atol=1e-13 * 7 * 30)
    assert_allclose(root.of_features(values), exact.T @ values, atol=1e-13 * N * 30)
    rough = root.of_features(values.astype(np.float32))
    assert rough.dtype == np.float32
    assert_allclose(rough, exact.T @ values, atol=1e-6 * N * 30)


@given(kernels(), finite(1e-6, 0.2))
def test_what_features_leave_stays_on_the_diagonal(kernel: Kernel, share: float) -> None:
    arms = random_arms(N, 2, seed=2)
    root = PriorRoot.of_kernel(arms, kernel, share, N)
    true, kept = kernel.gram(arms, arms), gram_of(root)
    assert_allclose(np.diag(kept), np.diag(true), rtol=1e-6)
    assert root.unexplained <= share
    apart = true - kept
    scale = np.trace(true)
    # what is dropped are correlations of a positive semi-definite rest of that trace
    assert np.linalg.norm(apart, 2) <= share * scale + 1e-6 * scale


def test_a_kernel_that_features_cannot_span_is_refused_where_no_tiles_may_be() -> None:
    arms = random_arms(400, 3, seed=1)
    with pytest.raises(CapacityError, match="raise most_features"):
        EnsembleGP.from_kernel(arms, Matern12(0.05), most_features=50, rest="diagonal")


def test_pivots_of_a_sample_explain_all_arms() -> None:
    arms = random_arms(9_000, 2, seed=3)
    root = PriorRoot.of_kernel(arms, Matern52(1.0), 1e-3, 1_500)
    assert root.rank < 200
    some = np.arange(0, 9_000, 450)
    few = arms.take(some)
    kept = root.features[some] @ root.features[some].T + np.diag(root.own[some] ** 2)
    assert_allclose(kept, Matern52(1.0).gram(few, few), atol=0.02)


@given(functionals(), rngs())
def test_rows_say_what_the_summed_evidence_says(seen: Any, rng: np.random.Generator) -> None:
    rows, evidence = Observations.of_functionals(*seen), Evidence.of_functionals(*seen)
    precision = evidence.precision.toarray()
    scale = np.abs(precision).max()
    columns = rng.standard_normal((N, 3))
    for form in (rows, rows.compact(), rows.compact() + Observations.nothing(N)):
        assert_allclose(form.times(columns), precision @ columns, atol=1e-9 * scale)
        assert_allclose(form.precision_diagonal, np.diag(precision), atol=1e-10 * scale)
        inner, carried, start = np.ones((3, 3)), np.ones((N, 2)), columns.T[:, :2].copy()
        form.add_projected(columns, start, inner, carried)
        assert_allclose(inner - 1, columns.T @ precision @ columns, atol=1e-8 * scale)
        assert_allclose(carried - 1, precision @ columns @ start, atol=1e-8 * scale * N)
        assert_allclose(form.weighted, evidence.weighted, atol=1e-9 * scale)
        assert_allclose(form.squares, evidence.squares, atol=1e-9 * scale)
        assert_allclose(form.log_noise, evidence.log_noise, atol=1e-9)
        assert_allclose(form.evidence().precision.toarray(), precision, atol=1e-9 * scale)


@given(functionals())
def test_weights_of_single_precision_are_other_functionals_seen_as_they_are(seen: Any) -> None:
    rows = Observations.of_functionals(*seen).rounded()
    assert rows.weights.dtype == np.float32
    assert rows.rounded() is rows
    dense = rows.rows.toarray().astype(np.float64)
    corrected = np.column_stack([rows.corrected(one) for one in np.eye(rows.n_rows)])
    precision = dense.T @ corrected @ dense
    scale = np.abs(precision).max() + 1e-9
    for form in (rows, rows.compact(), rows + Observations.nothing(N)):
        assert_allclose(form.times(np.eye(N)), precision, atol=1e-12 * scale)
        assert_allclose(form.precision_diagonal, np.diag(precision), atol=1e-12 * scale)
    assert_allclose(rows.weighted, dense.T @ corrected @ rows.targets, atol=1e-11 * scale)
    evidence = Evidence.of_functionals(*seen)
    assert_allclose(precision, evidence.precision.toarray(), atol=1e-6 * scale)


@given(functionals())
def test_noise_has_the_covariance_of_the_evidence(seen: Any) -> None:
    rows = Observations.of_functionals(*seen)
    root = rows.noise(np.eye(rows.rows.shape[0]))
    precision = Evidence.of_functionals(*seen).precision.toarray()
    assert_allclose(root @ root.T, precision, atol=1e-9 * np.abs(precision).max())


@given(functionals())
def test_observations_of_other_arms_and_back(seen: Any) -> None:
    rows, _ = Observations.of_functionals(*seen), Evidence.of_functionals(*seen)
    places, scales = np.arange(N)[::-1] + 2, np.linspace(0.5, 2.0, N)
    moved = rows.compact().moved(N + 3, places, scales).evidence()
    expected = Evidence.of_functionals(*seen).moved(N + 3, places, scales)
    scale = np.abs(expected.precision.toarray()).max()
    assert_allclose(moved.precision.toarray(), expected.precision.toarray(), atol=1e-9 * scale)
    assert_allclose(moved.weighted, expected.weighted, atol=1e-9 * scale)
    again = Observations.restored(dict(rows.stored()))
    assert_array_equal(again.times(np.eye(N)), rows.times(np.eye(N)))


@given(rngs(), st.integers(1, 6), finite(0.1, 50.0), st.booleans())
def test_gains_that_are_not_learned_are_noise_of_each_trip(
    rng: np.random.Generator, trips: int, precision: float, common: bool
) -> None:
    sizes = rng.integers(1, 4, size=trips)
    count, groups = int(sizes.sum()), np.repeat(np.arange(trips), sizes)
    magnitude, noise = np.exp(rng.normal(size=count)), np.exp(rng.normal(size=count))
    roads = rng.standard_normal((count, N - 1)) * (rng.random((count, N - 1)) < 0.4)
    values = rng.standard_normal(count)
    spread = 0.3 if common else 0.0

    def shares(of: Vector) -> csr_array:
        return csr_array((of, (groups, np.arange(count))), shape=(trips, count))

    with_gain = csr_array(np.column_stack([roads, -magnitude]))
    seen = Observations.of_functionals(with_gain, values, noise, shares(spread * magnitude))
    found = seen.without_last(precision)
    deviation = np.sqrt(spread**2 + 1 / precision) * magnitude
    expected = Observations.of_functionals(csr_array(roads), values, noise, shares(deviation))
    scale = np.abs(expected.evidence().precision.toarray()).max() + 1e-9
    left, right = found.evidence(), expected.evidence()
    assert_allclose(left.precision.toarray(), right.precision.toarray(), atol=1e-9 * scale)
    assert_allclose(left.weighted, right.weighted, atol=1e-9 * scale)
    assert_allclose(left.squares, right.squares, rtol=1e-9, atol=1e-9)
    assert_allclose(left.log_noise, right.log_noise, rtol=1e-9, atol=1e-9)


def test_keyed_normals_are_normal_and_depend_on_their_key_alone() -> None:
    keys = np.arange(20_000)
    drawn = keyed_normals(3, keys, 4)
    assert_array_equal(keyed_normals(3, keys[777:779], 2), drawn[777:779, :2])
    assert np.abs(drawn.mean(axis=0)).max() < 5 / np.sqrt(20_000)
    assert np.abs(drawn.T @ drawn / 20_000 - np.eye(4)).max() < 5 * np.sqrt(2 / 20_000)
    other = keyed_normals(4, keys, 4)
    assert np.abs(drawn.T @ other / 20_000).max() < 5 / np.sqrt(20_000)
    assert np.abs((drawn[1:] * drawn[:-1]).mean(axis=0)).max() < 5 / np.sqrt(20_000)
    assert abs((drawn < 1.0).mean() - 0.8413) < 5 * np.sqrt(0.8413 * 0.1587 / 80_000)


@settings(deadline=None)
@given(st.lists(functionals(), min_size=1, max_size=3), finite(1e-6, 0.1), rngs())
def test_means_are_those_of_the_whole_posterior_within_the_tolerance(
    seen: list[Any], tolerance: float, rng: np.random.Generator
) -> None:
    belief = ensemble(n_draws=2, tolerance=tolerance)
    for one in seen:
        belief = belief.condition_functionals(*one)
        assert belief.reached <= tolerance
    exact = dense_after(EVERYTHING, *seen)
    sums = np.vstack([np.eye(N), rng.standard_normal((20, N))])
    deviation = np.sqrt(np.einsum("ij,jk,ik->i", sums, exact.matrix, sums))
    error = np.abs(sums @ (belief.mean - exact.mean))
    assert (error <= (tolerance + 1e-5) * deviation + 1e-9).all()


@settings(deadline=None, max_examples=25)
@given(functionals(), rngs())
def test_order_and_batches_do_not_matter(seen: Any, rng: np.random.Generator) -> None:
    rows, values, noise, _ = seen
    keys, order = np.arange(values.size) + 1_000, rng.permutation(values.size)
    start = ensemble(n_draws=5, tolerance=1e-7)
    once = start.condition_functionals(rows, values, noise, keys=keys)
    parts = start
    for some in np.array_split(order, 3):
        parts = parts.condition_functionals(rows[some], values[some], noise[some], keys=keys[some])
    assert_allclose(parts.mean, once.mean, atol=1e-5)
    assert_allclose(parts.draws, once.draws, atol=1e-5)
    assert_allclose(parts.variance, once.variance, atol=1e-5)


@settings(deadline=None, max_examples=20)
@given(functionals(), st.sampled_from([1e-7, 1e-3, 0.5]), st.integers(1, 3))
def test_few_observations_at_a_time_are_solved_for_as_well_as_many(
    seen: Any, tolerance: float, some: int
) -> None:
    rows, values, noise, _ = seen
    keys = np.arange(values.size) + 50
    start = ensemble(n_draws=15, tolerance=tolerance)  # fewer than a fourth are solved for apart
    once, parts = start.condition_functionals(rows, values, noise, keys=keys), start
    for begin in range(0, values.size, some):
        few = slice(begin, begin + some)
        parts = parts.condition_functionals(rows[few], values[few], noise[few], keys=keys[few])
        assert parts.reached <= tolerance
    exact = dense_after(EVERYTHING, (rows, values, noise))
    deviation = np.sqrt(np.diag(exact.matrix))
    rounding = 1e-5 * np.sqrt(np.diag(EVERYTHING.gram(ARMS, ARMS)))
    for belief in (once, parts):  # what is left bounds every error
        assert (np.abs(belief.mean - exact.mean) <= tolerance * deviation + rounding).all()
    apart = np.abs(parts.draws - once.draws)
    assert (apart <= 2 * tolerance * deviation[:, None] + rounding[:, None]).all()
    assert_allclose(parts.noise, once.noise, atol=1e-9 * np.abs(once.noise).max() + 1e-12)


@settings(deadline=None, max_examples=25)
@given(functionals(4))
def test_few_that_share_an_error_are_solved_for_as_in_all_columns(seen: Any) -> None:
    start = ensemble(n_draws=15, tolerance=1e-7)
    few = start.condition_functionals(*seen)
    with patch("superarm.beliefs.ensemble.gp._FEW", 1_000):
        whole = start.condition_functionals(*seen)
    scale = np.sqrt(EVERYTHING.diagonal(ARMS).max())
    assert_allclose(few.mean, whole.mean, atol=1e-5 * scale)
    assert_allclose(few.draws, whole.draws, atol=1e-5 * scale)
    assert_allclose(few.variance, whole.variance, atol=1e-4 * scale**2)


def test_beliefs_of_many_arms_keep_less_and_are_right_to_six_digits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen = history(2)
    start = ensemble(n_draws=3, tolerance=1e-6)
    monkeypatch.setattr("superarm.beliefs.ensemble.features.SINGLE_BEYOND", 0)
    small = ensemble(n_draws=3, tolerance=1e-6)
    for one in seen:
        start, small = start.condition_functionals(*one), small.condition_functionals(*one)
    assert small.root.features.dtype == np.float32
    assert {piece.weights.dtype for piece in small.equations.observations} == {np.dtype("f4")}
    deviation = np.sqrt(start.variance)
    assert np.abs((small.mean - start.mean) / deviation).max() < 1e-5
    again = small.equations.observations[0] + small.equations.observations[0]
    assert again.weights.dtype == np.float32


@pytest.mark.parametrize("sizes", [(1,), (16,), (17,), (40, 1, 1, 1, 2)])
@pytest.mark.parametrize("single", [False, True])
def test_what_is_said_to_be_left_is_left(
    monkeypatch: pytest.MonkeyPatch, sizes: tuple[int, ...], single: bool
) -> None:
    """The residual that is kept along is that of the equations, and no error beyond its bound."""
    if single:
        monkeypatch.setattr("superarm.beliefs.ensemble.features.SINGLE_BEYOND", 0)
    rng, belief = np.random.default_rng(sizes), ensemble(n_draws=63, tolerance=0.05)
    for some in sizes * (120 // sum(sizes)):
        rows = csr_array((rng.random((some, N)) < 0.3).astype(float))
        belief = belief.condition_functionals(rows, 3 * rng.standard_normal(some), 0.01)
        left = residual_of(belief)
        assert_allclose(left, belief.residual, atol=1e-4)
        matrix = precision_of(belief)
        errors = np.sqrt(np.einsum("ij,ij->j", left, np.linalg.solve(matrix, left)))
        assert errors.max() <= belief.reached + 1e-4
        assert belief.reached <= belief.tolerance


def precision_of(belief: EnsembleGP) -> Matrix:
    """Return the posterior precision of latents, whole."""
    root, unit = belief.root, np.eye(belief.root.size)
    found: Matrix = unit + root.transposed(belief.equations.said(root.times(unit)))
    return found


def residual_of(belief: EnsembleGP) -> Matrix:
    """Return what is left of all equations, in double precision and from the beginning."""
    equations, root = belief.equations, belief.root
    total = np.zeros(N)
    for piece in equations.observations:
        total += piece.weighted
    total -= equations.said(belief.prior.mean[:, None])[:, 0]
    right = root.transposed(np.column_stack([total, total[:, None] + belief.noise]))
    right[:, 1:] += root.prior_draws(belief.seed, belief.n_draws)
    said: Matrix = root.transposed(equations.said(root.times(belief.latent)))
    return right - belief.latent - said


@given(rngs(), st.sampled_from([1e-3, 0.1, 1.0]), st.sampled_from([np.float32, np.float64]))
def test_errors_of_conjugate_gradients_are_within_their_bounds(
    rng: np.random.Generator, tolerance: float, kind: Any
) -> None:
    size = int(rng.integers(1, 40))
    turned = np.linalg.qr(rng.standard_normal((size, size)))[0]
    values = 1 + np.exp(rng.uniform(-20, 8, size)) * (rng.random(size) < rng.random())
    matrix = (turned * values) @ turned.T
    right = np.exp(rng.uniform(-5, 5, 3)) * rng.standard_normal((size, 3))
    found = conjugate_gradients(
        lambda columns: matrix.astype(kind) @ columns, right.astype(kind), tolerance, np.zeros(3)
    )
    gap = found.solution - np.linalg.solve(matrix, right)
    errors = np.sqrt(np.einsum("ij,ij->j", gap, matrix @ gap))
    rounding = 1e-4 if kind is np.float32 else 1e-10
    assert (errors <= found.bounds + rounding * np.linalg.norm(right, axis=0)).all()
    assert (found.bounds <= tolerance).all()
    assert (found.bounds <= found.norms * (1 + 1e-6)).all()


def test_matrices_by_columns_say_the_same_as_those_by_rows() -> None:
    """A square one could be taken for its transpose."""
    rows: Any = np.random.default_rng(0).standard_normal((N, N))
    values, noise = np.arange(N) / N, 0.5
    forms: list[Any] = [csr_array(rows), csc_array(rows), coo_array(rows)]
    one, *others = (Evidence.of_functionals(form, values, noise) for form in forms)
    for other in others:
        assert_allclose(other.precision.toarray(), one.precision.toarray())
        assert_allclose(other.weighted, one.weighted)
    few, many = forms[0][:3], forms[1][:3]
    belief = ensemble(n_draws=3).condition_functionals(few, values[:3], noise)
    other_belief = ensemble(n_draws=3).condition_functionals(many, values[:3], noise)
    assert_array_equal(belief.mean, other_belief.mean)
    assert_array_equal(belief.covariance_of(few), belief.covariance_of(many))


def history(seed: int) -> list[Any]:
    rng = np.random.default_rng(seed)
    rows = rng.random((40, N)) < 0.2
    groups = csr_array((np.full(40, 0.5), (np.arange(40) // 10, np.arange(40))), shape=(4, 40))
    first = (csr_array(rows.astype(float)), rng.standard_normal(40), np.full(40, 0.4), groups)
    single = csr_array((np.ones(25), (np.arange(25), rng.integers(N, size=25))), shape=(25, N))
    return [first, (single, rng.standard_normal(25), np.full(25, 0.3), None)]


def test_draws_have_the_moments_of_the_posterior() -> None:
    seen, count = history(0), 4_000
    belief = ensemble(n_draws=count, tolerance=1e-3)
    for one in seen:
        belief = belief.condition_functionals(*one)
    exact = dense_after(EVERYTHING, *seen)
    deviation = np.sqrt(np.diag(exact.matrix))
    assert (np.abs(belief.draws.mean(axis=1) - exact.mean) < 5 * deviation / np.sqrt(count)).all()
    beyond = (belief.draws - exact.mean[:, None]) / deviation[:, None]
    correlation = exact.matrix / np.outer(deviation, deviation)
    assert np.abs(beyond @ beyond.T / count - correlation).max() < 6 * np.sqrt(2 / count)
    # what is known of each arm's own makes variances better than those of the draws alone
    error = belief.variance / deviation**2 - 1
    assert np.abs(error).max() < 5 * np.sqrt(2 / count)
    plain = (beyond**2).mean(axis=1) - 1
    assert (error**2).mean() < (plain**2).mean()


def test_fresh_draws_have_the_moments_of_the_posterior() -> None:
    seen, count = history(1), 1_500
    belief = ensemble(n_draws=1, tolerance=1e-3)
    for one in seen:
        belief = belief.condition_functionals(*one)
    exact = dense_after(EVERYTHING, *seen)
    rng, view = np.random.default_rng(0), belief.posterior(ARMS)
    drawn = np.array([view.sample(rng) for _ in range(count)]).T - exact.mean[:, None]
    deviation = np.sqrt(np.diag(exact.matrix))
    drawn /= deviation[:, None]
    assert np.abs(drawn.mean(axis=1)).max() < 5 / np.sqrt(count)
    correlation = exact.matrix / np.outer(deviation, deviation)
    assert np.abs(drawn @ drawn.T / count - correlation).max() < 6 * np.sqrt(2 / count)


@settings(deadline=None, max_examples=25)
@given(functionals(), finite(1e-4, 0.1))
def test_variances_of_sums_by_solves_are_exact_to_the_tolerance_squared(
    seen: Any, tolerance: float
) -> None:
    belief = ensemble(n_draws=64, tolerance=tolerance).condition_functionals(*seen)
    exact = dense_after(EVERYTHING, seen)
    sums = np.vstack([np.eye(N), np.ones((1, N))])
    found = np.diag(belief.covariance_of(csr_array(sums)))
    expected = np.einsum("ij,jk,ik->i", sums, exact.matrix, sums)
    # the deviation that scales the solve is itself known from 64 draws
    assert_allclose(found, expected, rtol=3 * tolerance**2 + 1e-6, atol=1e-9)
    few = ARMS.take([3, 3, 7])
    places = [3, 3, 7]
    scale = np.sqrt(np.outer(*[np.diag(exact.matrix)[places]] * 2))
    apart = belief.posterior(few).covariance() - exact.matrix[np.ix_(places, places)]
    assert (np.abs(apart) <= 3 * tolerance * scale + 1e-6).all()


def test_before_the_first_observation_it_is_the_prior() -> None:
    belief = ensemble(n_draws=400)
    assert_allclose(belief.mean, 0.5)
    prior = EVERYTHING.diagonal(ARMS)
    assert np.abs(belief.variance / prior - 1).max() < 5 * belief.variance_error
    assert belief.condition(ARMS.take([]), np.empty(0)) is belief
    assert "400" in repr(belief)


@given(vectors(6), st.lists(st.integers(0, N - 1), min_size=6, max_size=6))
def test_rewards_totals_and_evidence_are_the_same_observations(
    values: Vector, places: list[int]
) -> None:
    start = ensemble(n_draws=2, tolerance=1e-8)
    arms = ARMS.take(places)
    exact = DenseGP.from_kernel(ARMS, EVERYTHING, NOISE, 0.5)
    assert_allclose(
        start.condition(arms, values).mean, exact.condition(arms, values).mean, atol=1e-6
    )
    sums = start.condition_sums(arms, [0, 2, 6], values[:2])
    expected = exact.condition_sums(arms, [0, 2, 6], values[:2])
    assert_allclose(sums.mean, expected.mean, atol=1e-6)
    known = Evidence.of_sums(places, [0, 2, 6], values[:2], np.full(N, NOISE))
    assert_allclose(start.condition_evidence(known).mean, expected.mean, atol=1e-6)
    again = sums.again(sums.prior, 2.0)
    assert_allclose(again.mean, expected.again(expected.prior, 2.0).mean, atol=1e-6)


@settings(deadline=None, max_examples=20)
@given(rngs(), st.sampled_from([1e-6, 1e-8, 1e-10, 1e-12]), st.booleans())
def test_noise_too_small_for_single_precision_is_solved_for_in_double_precision(
    rng: np.random.Generator, noise: float, one_by_one: bool
) -> None:
    dense = rng.standard_normal((4, N)) * (rng.random((4, N)) < 0.3)
    rows, values, keys = csr_array(dense), rng.standard_normal(4), np.arange(4)
    belief, tolerance = ensemble(n_draws=15, tolerance=0.05), 0.05
    for some in np.array_split(keys, 4 if one_by_one else 1):
        belief = belief.condition_functionals(rows[some], values[some], noise, keys=keys[some])
    assert belief.reached <= tolerance
    gram = EVERYTHING.gram(ARMS, ARMS)
    gain = np.linalg.lstsq(dense @ gram @ dense.T + noise * np.eye(4), dense @ gram)[0].T
    deviation = np.sqrt(np.maximum(np.diag(gram - gain @ dense @ gram), 0.0))
    error = np.abs(belief.mean - 0.5 - gain @ (values - 0.5 * dense.sum(axis=1)))
    assert (error <= tolerance * deviation + 1e-4).all()
    seen = np.flatnonzero(np.abs(dense).sum(axis=1) > 0.5)  # what is known to the noise
    assert (np.abs(dense @ belief.mean - values)[seen] <= 5 * np.sqrt(noise) + 1e-7).all()


def test_tiny_noise_is_an_error_and_not_an_answer() -> None:
    rng = np.random.default_rng(0)
    rows = csr_array((rng.random((60, N)) < 0.4).astype(float))
    for noise in (1e-28, 1e-22):
        belief = ensemble(n_draws=1, tolerance=1e-6)
        with pytest.raises(NumericalError, match="raise"):
            belief.condition_functionals(rows, rng.random(60), noise)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_draws": 0}, "n_draws must be at least 1"),
        ({"tolerance": 0.0}, "tolerance"),
        ({"unexplained": -1.0}, "unexplained"),
        ({"seed": 0.5}, "seed"),
        ({"rest": "somewhere"}, "rest must be one of"),
    ],
)
def test_options_that_cannot_be_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        ensemble(**options)


def test_bad_observations_are_refused_and_change_nothing() -> None:
    belief = ensemble(n_draws=2)
    good = csr_array(np.eye(N)[:2])
    for rows, values, noise, keys, message in (
        (csr_array(np.eye(4)), np.zeros(4), 1.0, None, "functionals are about 4 arms"),
        (good * np.nan, np.zeros(2), 1.0, None, "finite"),
        (good, np.zeros(3), 1.0, None, "values"),
        (good, [0.0, np.inf], 1.0, None, "values"),
        (good, np.zeros(2), 0.0, None, "noise"),
        (good, np.zeros(2), 1.0, [0.5, 1.0], "keys must be 2 whole numbers"),
        (good, np.zeros(2), 1.0, [-1, 1], "keys must be 2 whole numbers"),
        (good, np.zeros(2), 1.0, [1, 1], "keys must differ"),
    ):
        with pytest.raises(ValueError, match=message):
            belief.condition_functionals(rows, values, noise, keys=keys)
    with pytest.raises(ValueError, match="no sum may be empty"):
        belief.condition_sums(ARMS.take([0]), [0, 1, 1], [1.0, 2.0])
    with pytest.raises(ValueError, match="made compact"):
        belief.condition_observations(Observations.of_functionals(good, [1.0, 2.0], 1.0).compact())
    assert belief.count == 0


def test_evidence_that_links_too_many_arms_is_refused() -> None:
    arms = Arms(np.arange(4_200))
    belief = EnsembleGP.from_kernel(arms, PerArm(1.0), 1.0, n_draws=1, tolerance=1e-9)
    places = np.arange(4_200)
    seen = Evidence.of_sums(places, [0, 4_200], [1.0], np.ones(4_200))
    with pytest.raises(CapacityError, match="condition_functionals"):
        belief.condition_evidence(seen)
    assert belief.condition_sums(arms, [0, 4_200], [8_400.0]).mean[0] == pytest.approx(1.0)


def test_all_policies_decide_and_a_saved_agent_goes_on_as_before(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    offered = Round(1, ARMS, Subsets(N, 4))
    width = BayesUCBWidth(N)
    for policy in (UpperConfidenceBound(width), MarginalThompson(), JointThompson()):
        agent: Any = Agent(ensemble(n_draws=8), policy, TopK())
        for _ in range(3):
            chosen = agent.decide(offered, rng)
            agent = agent.learn(offered, chosen, rng.standard_normal(4))
        save(agent, tmp_path / "agent")
        other: Any = load(tmp_path / "agent").agent
        rewards = np.ones(4)
        left, right = (each.learn(offered, chosen, rewards).belief for each in (agent, other))
        assert_array_equal(left.mean, right.mean)
        assert_array_equal(left.draws, right.draws)
        assert_array_equal(left.variance, right.variance)
