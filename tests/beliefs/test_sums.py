"""Conditioning on sums of arms, against the textbook formula."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.linalg import block_diag
from scipy.sparse import csr_array

from strategies import finite, histories, kernels, random_arms, rngs, vectors
from superarm import Agent, Arms, CapacityError, NumericalError, load, save
from superarm.arrays import Matrix, Vector
from superarm.beliefs import DenseGP, Evidence, FiniteGP, MatrixMemory
from superarm.beliefs.sums.direct import direct_root
from superarm.beliefs.sums.linked import linked_root
from superarm.kernels import RBF, Kernel, Matern52
from superarm.oracles import TopK
from superarm.policies import Greedy

N = 25
ARMS = random_arms(N, 2, seed=2)
TIGHT: Any = {"rtol": 0.0, "atol": 1e-9}
Sums = list[tuple[Any, float]]


@st.composite
def sums(draw: Any) -> Sums:
    """Spans of arms (some arms twice) and their totals."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    sizes = draw(st.lists(st.sampled_from([1, 1, 2, 6, 30]), max_size=40))
    return [(rng.integers(N, size=size), 3 * rng.standard_normal()) for size in sizes]


def arguments(given_sums: Sums) -> tuple[Arms, Any, Vector]:
    rows = [rows for rows, _ in given_sums]
    starts = np.concatenate([[0], np.cumsum([r.size for r in rows])]).astype(int)
    flat = np.concatenate(rows) if rows else np.empty(0, dtype=int)
    return ARMS.take(flat), starts, np.array([total for _, total in given_sums])


def textbook(mean: Vector, prior: Matrix, noise: Vector, given_sums: Sums) -> tuple[Vector, Matrix]:
    if not given_sums:
        return mean, prior
    rows = np.array([np.bincount(rows, minlength=N) for rows, _ in given_sums], dtype=float)
    errors = np.array([noise[rows].sum() for rows, _ in given_sums])
    gain = np.linalg.solve(rows @ prior @ rows.T + np.diag(errors), rows @ prior).T
    totals = np.array([total for _, total in given_sums])
    return mean + gain @ (totals - rows @ mean), prior - gain @ rows @ prior


@given(kernels(), sums(), vectors(N, 0.02, 2.0), vectors(N))
def test_conditioning_on_sums_is_the_textbook_posterior(
    kernel: Kernel, seen: Sums, noise: Vector, mean: Vector
) -> None:
    belief = DenseGP.from_kernel(ARMS, kernel, noise, mean)
    posterior = belief.condition_sums(*arguments(seen)).posterior(ARMS)
    expected_mean, expected = textbook(mean, kernel.gram(ARMS, ARMS), noise, seen)
    assert_allclose(posterior.mean, expected_mean, rtol=0, atol=1e-8)
    assert_allclose(posterior.covariance(), expected, **TIGHT)
    assert_allclose(posterior.std**2, expected.diagonal(), **TIGHT)
    assert_array_equal(posterior.covariance(), posterior.covariance().T)


@given(kernels(), histories(N), finite(0.01, 2.0), vectors(N))
def test_sums_of_one_arm_are_rewards(
    kernel: Kernel, history: Any, noise: float, mean: Vector
) -> None:
    dense = DenseGP.from_kernel(ARMS, kernel, noise, mean)
    finite_gp = FiniteGP.from_kernel(ARMS, kernel, noise, mean)
    for rows, rewards in history:
        dense = dense.condition(ARMS.take(rows), rewards)
        finite_gp = finite_gp.condition(ARMS.take(rows), rewards)
    left, right = dense.posterior(ARMS), finite_gp.posterior(ARMS)
    assert_allclose(left.mean, right.mean, rtol=0, atol=1e-8)
    assert_allclose(left.covariance(), right.covariance(), **TIGHT)
    assert_array_equal(left.noise_std, right.noise_std)


@given(kernels(), sums(), finite(0.05, 2.0), st.integers(0, 40), rngs())
def test_order_and_batches_do_not_matter_and_evidence_adds_up(
    kernel: Kernel, seen: Sums, noise: float, cut: int, rng: np.random.Generator
) -> None:
    prior = DenseGP.from_kernel(ARMS, kernel, noise)
    shuffled = [seen[i] for i in rng.permutation(len(seen))]
    at_once = prior.condition_sums(*arguments(seen))
    parts = prior.condition_sums(*arguments(shuffled[:cut])).condition_sums(
        *arguments(shuffled[cut:])
    )
    variances = np.full(N, noise)
    evidence = Evidence.nothing(N)
    for some in (seen[:cut], seen[cut:]):
        arms, starts, totals = arguments(some)
        evidence += Evidence.of_sums(arms.ids, starts, totals, variances)
    added = prior.condition_evidence(Evidence.restored(evidence.stored()))
    for other in (parts, added):
        assert_allclose(at_once.mean, other.mean, rtol=0, atol=1e-8)
        assert_allclose(at_once.matrix, other.matrix, **TIGHT)


@given(kernels(), st.lists(sums(), min_size=3, max_size=6), finite(0.05, 2.0))
def test_memory_is_used_again_only_when_nobody_holds_it(
    kernel: Kernel, batches: list[Sums], noise: float
) -> None:
    memory = MatrixMemory(most=2)
    plain = reused = DenseGP.from_kernel(ARMS, kernel, noise)
    held = [(reused, reused.matrix.copy())]
    for number, batch in enumerate(batches):
        arms, starts, totals = arguments(batch)
        evidence = Evidence.of_sums(arms.ids, starts, totals, plain.prior.noise_variance)
        plain = plain.condition_evidence(evidence)
        reused = reused.condition_evidence(evidence, memory)
        assert_array_equal(reused.mean, plain.mean)
        assert_array_equal(reused.matrix, plain.matrix)
        if number % 2:
            held.append((reused, reused.matrix.copy()))
        assert not reused.matrix.flags.writeable
    for belief, before in held:
        assert_array_equal(belief.matrix, before)
    assert len(memory._kept) <= 2  # noqa: SLF001


def test_memory_nobody_holds_is_used_again() -> None:
    memory = MatrixMemory(most=3)
    belief = DenseGP.from_kernel(ARMS, Matern52(0.4), 0.1)
    for _ in range(20):
        seen = Evidence.of_rewards([1], [0.5], belief.prior.noise_variance)
        belief = belief.condition_evidence(seen, memory)
    assert len(memory._kept) == 2  # noqa: SLF001 - the present belief and the one before it


@pytest.mark.parametrize("order", ["C", "F"])
def test_the_order_of_a_matrix_in_memory_does_not_matter(order: Any) -> None:
    kernel = Matern52(0.4)
    given_matrix = np.array(kernel.gram(ARMS, ARMS), order=order)
    belief = DenseGP.from_covariance(np.zeros(N), given_matrix, 0.1)
    plain = DenseGP.from_kernel(Arms(np.arange(N), ARMS.contexts), kernel, 0.1)
    rng = np.random.default_rng(0)
    for _ in range(3):
        rows, rewards = rng.integers(N, size=6), rng.standard_normal(6)
        belief = belief.condition(Arms(rows), rewards)
        plain = plain.condition(ARMS.take(rows), rewards)
    assert_allclose(belief.mean, plain.mean, **TIGHT)
    assert_allclose(belief.matrix, plain.matrix, **TIGHT)
    assert_array_equal(given_matrix, kernel.gram(ARMS, ARMS))  # the caller's stays as it was


@given(kernels(), sums(), finite(0.05, 2.0))
def test_a_total_tells_less_than_its_parts(kernel: Kernel, seen: Sums, noise: float) -> None:
    prior = DenseGP.from_kernel(ARMS, kernel, noise)
    totals = prior.condition_sums(*arguments(seen)).posterior(ARMS)
    parts = [(np.array([row]), 0.0) for rows, _ in seen for row in rows]
    apart = prior.condition_sums(*arguments(parts)).posterior(ARMS)
    difference = totals.covariance() - apart.covariance()
    assert np.linalg.eigvalsh(difference)[0] > -1e-8  # positive semi-definite
    assert (totals.std <= prior.posterior(ARMS).std + 1e-9).all()


def test_rounding_does_not_build_up_over_many_batches() -> None:
    rng = np.random.default_rng(5)
    kernel = Matern52(0.4) + RBF(1.0)
    belief = DenseGP.from_kernel(ARMS, kernel, 0.1)
    history: Sums = []
    for _ in range(1500):
        batch = [(rng.integers(N, size=rng.integers(1, 9)), float(rng.normal())) for _ in range(3)]
        belief = belief.condition_sums(*arguments(batch))
        history += batch
    expected = DenseGP.from_kernel(ARMS, kernel, 0.1).condition_sums(*arguments(history))
    assert_allclose(belief.mean, expected.mean, **TIGHT)
    assert_allclose(belief.matrix, expected.matrix, **TIGHT)


def test_joint_draws_have_the_moments_of_the_posterior() -> None:
    rng = np.random.default_rng(3)
    belief = DenseGP.from_kernel(ARMS, Matern52(0.4), 0.2)
    posterior = belief.condition_sums(ARMS.take([0, 1, 2, 3]), [0, 4], [3.0]).posterior(ARMS)
    draws = np.array([posterior.sample(rng) for _ in range(4000)])
    assert_allclose(draws.mean(axis=0), posterior.mean, atol=0.08)
    assert_allclose(np.cov(draws.T), posterior.covariance(), atol=0.12)


def test_it_is_saved_and_loaded(tmp_path: Any) -> None:
    belief = DenseGP.from_kernel(ARMS, Matern52(0.4), 0.2)
    belief = belief.condition_sums(ARMS.take([0, 1]), [0, 2], [3.0])
    rng = np.random.default_rng(0)
    save(Agent(belief, Greedy(), TopK()), tmp_path / "run", t=1, world=rng, mind=rng)
    loaded: Any = load(tmp_path / "run").agent.belief
    assert_array_equal(loaded.mean, belief.mean)
    assert_array_equal(loaded.matrix, belief.matrix)


@pytest.mark.parametrize(
    ("starts", "totals", "message"),
    [
        ([0, 1], [1.0], "rise from 0 to the number of arms"),
        ([0, 0, 2], [1.0, 2.0], "no sum may be empty"),
        ([0, 2], [1.0, 2.0], "totals must have length 1"),
        ([0, 2], [np.nan], "totals must be finite"),
    ],
)
def test_bad_sums_are_refused(starts: Any, totals: Any, message: str) -> None:
    belief = DenseGP.from_kernel(ARMS, Matern52(0.4), 0.2)
    with pytest.raises(ValueError, match=message):
        belief.condition_sums(ARMS.take([0, 1]), starts, totals)


def test_evidence_about_other_arms_and_huge_universes_are_refused() -> None:
    belief = DenseGP.from_kernel(ARMS, Matern52(0.4), 0.2)
    with pytest.raises(ValueError, match="about 3 arms, the other about 25"):
        belief.condition_evidence(Evidence.nothing(3))
    with pytest.raises(CapacityError, match="at most 12,000"):
        DenseGP.from_kernel(Arms(np.arange(12_001)), Matern52(0.4))
    assert belief.condition_evidence(Evidence.nothing(N)) is belief


@given(rngs(), st.integers(1, 12), st.integers(1, 15), st.integers(0, 4))
def test_functionals_with_shared_errors_are_a_dense_solve(
    rng: np.random.Generator, n: int, m: int, groups: int
) -> None:
    rows = rng.standard_normal((m, n)) * (rng.random((m, n)) < 0.5)
    noise, values = rng.uniform(0.3, 3, m), rng.standard_normal(m)
    shared = np.zeros((max(groups, 1), m))
    if groups:
        shared[rng.integers(groups, size=m), np.arange(m)] = 2 * rng.standard_normal(m)
    full = np.diag(noise) + shared.T @ shared
    seen = Evidence.of_functionals(
        csr_array(rows), values, noise, csr_array(shared) if groups else None
    )
    solved = np.linalg.solve(full, np.column_stack([rows, values]))
    assert_allclose(seen.precision.toarray(), rows.T @ solved[:, :n], rtol=1e-8, atol=1e-9)
    assert_allclose(seen.weighted, rows.T @ solved[:, n], rtol=1e-8, atol=1e-9)
    assert_allclose(seen.squares, values @ solved[:, n], rtol=1e-8, atol=1e-9)
    assert_allclose(seen.log_noise, np.linalg.slogdet(full)[1], rtol=1e-8, atol=1e-9)
    assert seen.count == m
    places = rng.permutation(n + 3)[:n]
    units = rng.uniform(0.5, 2, n)
    moved = seen.moved(n + 3, places, units)
    wide = np.zeros((m, n + 3))
    wide[:, places] = rows * units
    again = Evidence.of_functionals(
        csr_array(wide), values, noise, csr_array(shared) if groups else None
    )
    assert_allclose(moved.precision.toarray(), again.precision.toarray(), rtol=1e-8, atol=1e-9)
    assert_allclose(moved.weighted, again.weighted, rtol=1e-8, atol=1e-9)


@given(rngs(), st.integers(1, 3), st.integers(0, 2), finite(0.01, 30.0), st.booleans())
def test_trips_of_single_arms_need_no_full_root(
    rng: np.random.Generator, trips: int, hubs: int, spread: float, hub_twice: bool
) -> None:
    n = 60
    edges = [rng.choice(n - hubs, size=rng.integers(8, 30), replace=False) for _ in range(trips)]
    flat, owner = np.concatenate(edges), np.repeat(np.arange(trips), [e.size for e in edges])
    rows = np.zeros((flat.size, n))
    rows[np.arange(flat.size), flat] = rng.uniform(0.5, 20, flat.size)
    if hubs:
        rows[np.arange(flat.size), n - 1 - owner % hubs] = rng.uniform(1, 3, flat.size)
        rows[-1, n - 1] += hub_twice
    noise, values = rng.uniform(0.3, 3, flat.size), rng.standard_normal(flat.size)
    shared = np.zeros((trips, flat.size))
    shared[owner, np.arange(flat.size)] = spread * rng.uniform(0.2, 1, flat.size)
    seen = Evidence.of_functionals(csr_array(rows), values, noise, csr_array(shared))
    root = linked_root(seen, np.ones(n))
    assert root is not None or np.unique(flat).size < 4 * (trips + hubs)
    prior = random_arms(n, 2, seed=3)
    gram = Matern52(0.4).gram(prior, prior)
    found = DenseGP.from_covariance(np.zeros(n), gram, 1.0).condition_evidence(seen)
    gain = np.linalg.solve(rows @ gram @ rows.T + np.diag(noise) + shared.T @ shared, rows @ gram)
    assert_allclose(found.mean, values @ gain, rtol=0, atol=1e-7)
    assert_allclose(found.matrix, gram - gram @ rows.T @ gain, rtol=0, atol=1e-8)
    if root is not None:
        half = root.times(np.eye(n)[root.touched])
        assert_allclose(half.T @ half, seen.precision.toarray(), rtol=1e-9, atol=1e-8)
        inner = np.eye(half.shape[0]) + half @ half.T
        assert_allclose(root.inner(half[:, root.touched]), inner, rtol=1e-9, atol=1e-8)
        there = seen.weighted[root.touched]
        assert_allclose(half.T[root.touched] @ root.solve(there), there, rtol=1e-7, atol=1e-7)


@given(rngs(), st.integers(2, 6), st.integers(0, 3), finite(0.0, 10.0), st.booleans())
def test_errors_that_neighbours_share_with_opposite_signs_need_no_root(
    rng: np.random.Generator, trips: int, keys: int, motion: float, same: bool
) -> None:
    n = 80
    roads = [rng.permutation(n - keys)[: rng.integers(8, 40)] for _ in range(trips)]
    rows, noise = [], []
    for trip, edges in enumerate(roads):
        weights = rng.uniform(0.5, 2, edges.size)
        block = np.zeros((edges.size, n))
        block[np.arange(edges.size), edges] = weights
        if keys:  # roads that take more and a key that reports more look the same
            block[:, n - 1 - trip % keys] = weights if same else rng.uniform(1, 3, edges.size)
        ends = np.diff(np.eye(edges.size + 1), axis=0)[:, 1:-1]
        share = 0.3 * weights
        own = np.diag(rng.uniform(0.3, 3, edges.size)) + motion**2 * ends @ ends.T
        noise.append(own + np.outer(share, share))
        rows.append(block)
    every, whole = np.concatenate(rows), block_diag(*noise)
    values = rng.standard_normal(every.shape[0])
    white = np.linalg.inv(np.linalg.cholesky(whole))
    seen = Evidence.of_functionals(csr_array(white @ every), white @ values, 1.0)
    prior = random_arms(n, 2, seed=3)
    gram = Matern52(0.4).gram(prior, prior)
    gram[:, n - keys :] = gram[n - keys :] = 0
    gram[np.arange(n - keys, n), np.arange(n - keys, n)] = 0.5
    root = direct_root(seen, np.ones(n))
    assert root is not None or keys
    found = DenseGP.from_covariance(np.zeros(n), gram, 1.0).condition_evidence(seen)
    gain = np.linalg.solve(every @ gram @ every.T + whole, every @ gram)
    assert_allclose(found.mean, values @ gain, rtol=0, atol=1e-8)
    assert_allclose(found.matrix, gram - gram @ every.T @ gain, rtol=0, atol=1e-9)
    if root is not None:
        half = root.times(np.eye(n)[root.touched])
        inner = root.inner(half[:, root.touched])
        outer = half.T @ np.linalg.solve(inner - half @ half.T, half)
        assert_allclose(outer, seen.precision.toarray(), rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("size", [300, 700])
def test_rows_that_depend_on_others_are_found_in_every_block(size: int) -> None:
    rng = np.random.default_rng(size)
    extra = np.sort(rng.choice(np.arange(20, size), 12, replace=False))
    rows = rng.standard_normal((2 * size, size)) + 3 * rng.standard_normal((2 * size, 1))
    for place in extra:
        rows[:, place] = rows[:, :place] @ rng.standard_normal(place) / place
    seen = Evidence.of_functionals(csr_array(rows), rng.standard_normal(2 * size), 1.0)
    root = direct_root(seen, np.ones(size))
    assert root is not None
    assert np.sort(root.touched[root.noise.shape[0] :]).tolist() == extra.tolist()
    matrix = np.eye(size) / 1000
    found = DenseGP.from_covariance(np.zeros(size), matrix, 1.0).condition_evidence(seen)
    precision = np.linalg.inv(matrix) + seen.precision.toarray()
    assert_allclose(found.matrix, np.linalg.inv(precision), rtol=0, atol=1e-12)
    assert_allclose(found.mean, np.linalg.solve(precision, seen.weighted), rtol=0, atol=1e-11)


def test_shared_errors_do_not_hide_that_double_precision_is_not_enough() -> None:
    size = 8
    common = csr_array(1e3 * np.ones((1, size)))
    seen = Evidence.of_functionals(csr_array(np.eye(size)), np.ones(size), 1e-14, common)
    belief = DenseGP.from_covariance(np.zeros(size), np.eye(size), 1.0)
    with pytest.raises(NumericalError, match="prior over noise"):
        belief.condition_evidence(seen)


def test_shared_errors_stay_apart_only_while_they_are_few() -> None:
    rng = np.random.default_rng(0)

    def seen(size: int) -> Evidence:
        rows = csr_array(np.eye(40)[rng.choice(40, size, replace=False)])
        return Evidence.of_functionals(rows, np.ones(size), 1.0, csr_array(np.ones((1, size))))

    few = seen(30) + seen(30)
    many = sum((seen(30) for _ in range(20)), few)
    assert few.shared is not None
    assert few.shared.shape == (2, 40)
    assert many.shared is None
    assert seen(2).shared is None
    assert few.with_noise(4.0).precision.toarray() == pytest.approx(few.precision.toarray() / 4)
    assert few.times(np.arange(40.0)) == pytest.approx(few.precision @ np.arange(40.0))


@given(rngs(), st.integers(2, 8), st.integers(1, 12), finite(0.2, 5.0))
def test_an_arm_nobody_asks_for_is_noise(
    rng: np.random.Generator, n: int, m: int, precision: float
) -> None:
    rows, values = rng.standard_normal((m, n)), rng.standard_normal(m)
    seen = Evidence.of_functionals(csr_array(rows), values, 1.0).without_last(precision)
    noise = np.eye(m) + np.outer(rows[:, -1], rows[:, -1]) / precision
    solved = np.linalg.solve(noise, np.column_stack([rows[:, :-1], values]))
    assert_allclose(seen.precision.toarray(), rows[:, :-1].T @ solved[:, :-1], atol=1e-8)
    assert_allclose(seen.weighted, rows[:, :-1].T @ solved[:, -1], atol=1e-8)
    assert_allclose(seen.squares, values @ solved[:, -1], atol=1e-8)
    assert_allclose(seen.log_noise, np.linalg.slogdet(noise)[1], atol=1e-8)


def test_bad_functionals_are_refused() -> None:
    one = csr_array(np.ones((2, 3)))
    with pytest.raises(ValueError, match="at most one common error"):
        Evidence.of_functionals(one, [1.0, 2.0], 1.0, csr_array(np.ones((2, 2))))
    with pytest.raises(ValueError, match="one column per value"):
        Evidence.of_functionals(one, [1.0, 2.0], 1.0, csr_array(np.ones((1, 3))))
    with pytest.raises(ValueError, match="functionals must be finite"):
        Evidence.of_functionals(csr_array(np.full((2, 3), np.nan)), [1.0, 2.0], 1.0)
    with pytest.raises(ValueError, match="noise_variance"):
        Evidence.of_functionals(one, [1.0, 2.0], 0.0)
