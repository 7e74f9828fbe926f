"""The paper's sparse variational GP: exact where it should be, projected where arms change."""

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from parts import require_module
from strategies import finite, histories, random_arms, seeds
from superarm import Arms, CapacityError
from superarm.beliefs import ExactGP, FiniteGP, SparseGP, StreamingGP
from superarm.beliefs.variational.inducing import most_visited
from superarm.beliefs.variational.moving import Adam, Objective
from superarm.kernels import RBF, GraphMatern, Kernel, Matern12, Matern32, Matern52
from superarm.values import changed

N = 30
ARMS = random_arms(N, 2, seed=4)
ROUGH: Any = st.sampled_from([Matern32(0.4), Matern12(0.5) + 0.3 * RBF(0.7), Matern32([0.2, 0.9])])


def conditioned(belief: Any, history: Any, arms: Arms = ARMS) -> Any:
    for rows, rewards in history:
        belief = belief.condition(arms.take(rows), rewards)
    return belief


def assert_same(left: Any, right: Any, tolerance: float) -> None:
    assert_allclose(left.mean, right.mean, atol=tolerance)
    assert_allclose(left.std**2, right.std**2, atol=tolerance)
    assert_allclose(left.covariance(), right.covariance(), atol=tolerance)


@given(ROUGH, histories(N), finite(0.05, 1.0))
def test_with_rate_one_all_data_and_all_arms_inducing_it_is_the_exact_posterior(
    kernel: Kernel, history: Any, noise: float
) -> None:
    exact = conditioned(FiniteGP.from_kernel(ARMS, kernel, noise, 0.5), history)
    sparse = conditioned(
        SparseGP.from_kernel(ARMS, kernel, noise, 0.5, n_inducing=N, rate=1.0), history
    )
    assert_same(sparse.posterior(ARMS), exact.posterior(ARMS), 1e-9)


@given(ROUGH, histories(N), st.integers(1, 8))
def test_with_rate_one_and_few_inducing_arms_it_is_titsias_posterior(
    kernel: Kernel, history: Any, most: int
) -> None:
    sparse = conditioned(
        SparseGP.from_kernel(ARMS, kernel, 0.3, 0.7, n_inducing=most, rate=1.0), history
    )
    if sparse.q.places.size:
        inducing = ARMS.take(sparse.q.places)
        few = len(inducing)
        best = StreamingGP.from_kernel(kernel, 0.3, 0.7, inducing=inducing, n_inducing=few)
        best = best.condition(ARMS.take(sparse.history), sparse.rewards)
        assert_same(sparse.posterior(ARMS), best.posterior(ARMS), 1e-7)


@given(ROUGH, histories(N), st.integers(3, 8), finite(0.05, 0.9))
def test_a_step_moves_natural_parameters_by_the_rate(
    kernel: Kernel, history: Any, most: int, rate: float
) -> None:
    """In dense textbook form: precision of u is K^-1 + R, moved towards its optimum."""
    belief = conditioned(
        SparseGP.from_kernel(ARMS, kernel, 0.3, n_inducing=most, rate=0.5), history
    )
    more = np.array([1.0, -2.0, 0.5, 3.0, 0.0])
    belief = belief.with_history(np.arange(5), more).with_inducing_arms()
    before = belief.q
    after = before.stepped(belief.subsampled(np.random.default_rng(0)), rate)
    inducing = ARMS.take(before.places)
    gram = kernel.gram(inducing, inducing)
    design = np.linalg.solve(gram, kernel.gram(inducing, ARMS.take(belief.history)))
    precision = (1 - rate) * before.precision + rate * design @ design.T / 0.3
    assert_allclose(after.precision, precision, atol=1e-6)
    pull = (1 - rate) * before.pull + rate * design @ belief.rewards / 0.3
    assert_allclose(after.pull, pull, atol=1e-6)


@given(ROUGH, histories(N), seeds)
def test_projecting_onto_some_inducing_arms_leaves_their_posterior_as_it_was(
    kernel: Kernel, history: Any, seed: int
) -> None:
    """Arms that stay keep mean and covariance; arms that leave are integrated out."""
    rng = np.random.default_rng(seed)
    belief = conditioned(SparseGP.from_kernel(ARMS, kernel, 0.2, n_inducing=8, rate=0.7), history)
    if belief.q.places.size < 3:
        return
    before = belief.posterior(ARMS.take(belief.q.places))
    stay = rng.permutation(belief.q.places)[: belief.q.places.size // 2]
    fresh = np.setdiff1d(np.arange(N), belief.q.places)[:2]
    after = changed(belief, q=belief.q.on(np.concatenate([fresh, stay])))
    places = np.flatnonzero(np.isin(belief.q.places, stay))
    now = after.posterior(ARMS.take(belief.q.places[places]))
    assert_allclose(now.mean, before.mean[places], atol=1e-7)
    assert_allclose(now.covariance(), before.covariance()[np.ix_(places, places)], atol=1e-7)


@given(ROUGH, histories(N))
def test_fillers_change_nothing(kernel: Kernel, history: Any) -> None:
    seen = np.unique(np.concatenate([rows for rows, _ in history])).astype(int)
    most = max(1, seen.size)
    few = conditioned(SparseGP.from_kernel(ARMS, kernel, 0.2, n_inducing=most), history)
    many = conditioned(SparseGP.from_kernel(ARMS, kernel, 0.2, n_inducing=N), history)
    assert_same(few.posterior(ARMS), many.posterior(ARMS), 1e-9)


@given(histories(N), seeds)
def test_arms_may_come_in_any_order(history: Any, seed: int) -> None:
    order = np.random.default_rng(seed).permutation(N)
    shuffled = Arms(ARMS.ids[order], ARMS.contexts[order])
    left = conditioned(SparseGP.from_kernel(ARMS, Matern32(0.4), 0.2, n_inducing=N), history)
    right = conditioned(
        SparseGP.from_kernel(shuffled, Matern32(0.4), 0.2, n_inducing=N), history, ARMS
    )
    assert_allclose(left.posterior(ARMS).mean, right.posterior(ARMS).mean, atol=1e-9)
    assert_allclose(left.posterior(ARMS).std, right.posterior(ARMS).std, atol=1e-7)


@given(histories(N), seeds)
def test_conditioning_is_a_pure_function_even_with_batches(history: Any, seed: int) -> None:
    def final() -> Any:
        belief = SparseGP.from_kernel(
            ARMS, Matern32(0.4), 0.2, n_inducing=6, batch=7, steps=2, seed=seed
        )
        return conditioned(belief, history).posterior(ARMS)

    assert_array_equal(final().mean, final().mean)
    assert_array_equal(final().std, final().std)


def test_batches_are_drawn_without_replacement_and_scaled_to_the_history() -> None:
    rng = np.random.default_rng(0)
    belief = SparseGP.from_kernel(ARMS, Matern32(0.4), 0.2, batch=4)
    belief = belief.condition(ARMS.take(np.arange(20) % 5), rng.standard_normal(20))
    totals = np.zeros(N)
    for seed in range(300):
        batch = belief.subsampled(np.random.default_rng(seed))
        assert_allclose(batch.precision.sum(), 20 / 0.2)
        totals[batch.places] += batch.precision
    # every arm has 4 of the 20 observations: in the mean its batch says as much as all of them
    error = 20 / 0.2 * np.sqrt(0.2 * 0.8 / 4 / 300)
    assert_allclose(totals[:5] / 300, 4 / 0.2, atol=4 * error)


@given(st.lists(st.integers(0, 4), min_size=12, max_size=12), st.integers(1, 12), seeds)
def test_the_most_visited_arms_induce_and_keep_their_places(
    visits: list[int], most: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    counts, variance = np.array(visits, dtype=np.float64), rng.random(12)
    incumbents = rng.permutation(12)[:most]
    chosen = most_visited(counts, variance, incumbents, most)
    assert np.unique(chosen).size == most
    left = np.setdiff1d(np.arange(12), chosen)
    assert not left.size or counts[left].max() <= counts[chosen].min()
    stays = np.isin(incumbents, chosen)
    assert_array_equal(chosen[stays], incumbents[stays])
    fillers = chosen[counts[chosen] == 0]
    spare = left[counts[left] == 0]
    assert not (fillers.size and spare.size) or variance[fillers].min() >= variance[spare].max()


def test_joint_draws_have_the_posteriors_moments(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    belief = SparseGP.from_kernel(ARMS, Matern32(0.4), 0.2, 0.5, n_inducing=6)
    for _ in range(12):
        belief = belief.condition(ARMS.take(rng.integers(N, size=6)), rng.standard_normal(6))
    posterior = belief.posterior(ARMS)
    for limit in (1000, 5):  # by a factor of the covariance, and by Matheron's rule
        monkeypatch.setattr("superarm.beliefs.posterior.DIRECT_DRAW_LIMIT", limit)
        draws = np.array([posterior.sample(rng) for _ in range(20_000)])
        assert_allclose(draws.mean(axis=0), posterior.mean, atol=5 / np.sqrt(20_000))
        assert_allclose(np.cov(draws.T), posterior.covariance(), atol=8 / np.sqrt(20_000))


def elbo(objective: Objective, inducing: Arms) -> float:
    """The formula of `Objective` in dense NumPy."""
    gram = objective.kernel.gram(inducing, inducing)
    lower = np.linalg.cholesky(gram + objective.jitter * np.eye(len(inducing)))
    features = np.linalg.solve(lower, objective.kernel.gram(inducing, objective.batch))
    gap = objective.targets - objective.mean @ features
    spread = np.einsum("ij,ik,kj->j", features, objective.covariance, features)
    lost = gap**2 - (features**2).sum(axis=0) + spread
    return -0.5 * float(objective.precision @ lost)


@pytest.mark.parametrize(
    "kernel",
    [
        RBF(0.6) + Matern12(0.9, 0.5),
        Matern32([0.4, 0.8]) * RBF(1.5),
        GraphMatern([(i, i + 1) for i in range(N - 1)], np.ones(N)) * Matern52(0.7) + Matern52(0.5),
    ],
)
def test_the_gradient_of_inducing_contexts_is_that_of_finite_differences(kernel: Kernel) -> None:
    require_module("torch", "torch")
    rng = np.random.default_rng(1)
    inducing = Arms(np.arange(5), ARMS.contexts[:5] + 0.05)
    root = rng.standard_normal((5, 5))
    objective = Objective(
        kernel=kernel,
        batch=ARMS.take(np.arange(3, 12)),
        precision=rng.random(9) + 0.5,
        targets=rng.standard_normal(9),
        mean=rng.standard_normal(5),
        covariance=root @ root.T / 5,
        jitter=1e-8,
    )
    gradient = objective.gradient(inducing)
    step = 1e-6
    for place in itertools.product(range(5), range(2)):
        ends = []
        for sign in (1, -1):
            contexts = inducing.contexts.copy()
            contexts[place] += sign * step
            ends.append(elbo(objective, Arms(inducing.ids, contexts)))
        assert_allclose((ends[0] - ends[1]) / (2 * step), gradient[place], rtol=1e-5, atol=1e-5)


def test_adam_is_torchs() -> None:
    require_module("torch", "torch")
    import torch  # noqa: PLC0415 - an optional part

    rng = np.random.default_rng(2)
    place, state = rng.standard_normal((3, 2)), Adam(0.01)
    theirs = torch.tensor(place, requires_grad=True)
    optimiser = torch.optim.Adam([theirs], lr=0.01, maximize=True)
    for _ in range(7):
        gradient = rng.standard_normal((3, 2))
        move, state = state.ascended(gradient)
        place = place + move
        theirs.grad = torch.tensor(gradient)
        optimiser.step()
    assert_allclose(place, theirs.detach().numpy(), atol=1e-12)


def test_moving_inducing_arms_raises_the_elbo_and_keeps_whitened_q() -> None:
    require_module("torch", "torch")
    rng = np.random.default_rng(3)
    history = [(rng.integers(N, size=6), rng.standard_normal(6)) for _ in range(5)]
    still = conditioned(SparseGP.from_kernel(ARMS, Matern32(0.4), 0.2, n_inducing=5), history)
    moved = conditioned(
        SparseGP.from_kernel(ARMS, Matern32(0.4), 0.2, n_inducing=5, adam_rate=0.01), history
    )
    shift = moved.q.contexts - ARMS.contexts[moved.q.places]
    assert_allclose(np.abs(shift), 0.01, atol=1e-6)  # Adam's first step is rate times sign
    assert_allclose(moved.posterior(ARMS).mean, still.posterior(ARMS).mean, atol=0.5)
    # the last update alone: same q before it, so both are L^-1 u with the same law after it
    before = conditioned(SparseGP.from_kernel(ARMS, Matern32(0.4), 0.2, n_inducing=5), history[:1])
    after = conditioned(
        SparseGP.from_kernel(ARMS, Matern32(0.4), 0.2, n_inducing=5, adam_rate=0.01), history[:1]
    )
    inner = [
        np.eye(b.q.places.size) + b.q.lower.T @ b.q.precision @ b.q.lower for b in (before, after)
    ]
    assert_array_equal(before.q.places, after.q.places)
    assert_allclose(inner[0], inner[1], atol=1e-6)


def test_moved_inducing_arms_refuse_large_joint_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    require_module("torch", "torch")
    monkeypatch.setattr("superarm.beliefs.posterior.DIRECT_DRAW_LIMIT", 5)
    belief = SparseGP.from_kernel(ARMS, Matern32(0.4), 0.2, n_inducing=5, adam_rate=0.01)
    moved = belief.condition(ARMS.take([1, 2]), np.array([0.1, 0.2]))
    with pytest.raises(CapacityError, match="adam_rate = 0"):
        moved.posterior(ARMS).sample(np.random.default_rng(0))


@settings(max_examples=20)
@given(histories(N))
def test_a_slow_rate_reaches_the_exact_posterior_in_many_steps(history: Any) -> None:
    """Each step removes a tenth of the gap in natural parameters."""
    exact = conditioned(ExactGP.from_kernel(Matern32(0.4), 0.2), history).posterior(ARMS)
    sparse = conditioned(
        SparseGP.from_kernel(ARMS, Matern32(0.4), 0.2, n_inducing=N, steps=300), history
    )
    assert_same(sparse.posterior(ARMS), exact, 1e-6)


def test_bad_parameters_are_refused() -> None:
    with pytest.raises(ValueError, match="inducing must be at least 1"):
        SparseGP.from_kernel(ARMS, RBF(), n_inducing=0)
    with pytest.raises(ValueError, match=r"rate must lie in \(0, 1\]"):
        SparseGP.from_kernel(ARMS, RBF(), rate=0.0)
    belief = SparseGP.from_kernel(ARMS, RBF())
    with pytest.raises(ValueError, match="rewards"):
        belief.condition(ARMS.take([1]), np.array([np.nan]))
    assert belief.history.size == 0


@given(histories(N), finite(1e-4, 0.3), st.sampled_from([RBF(1.0), RBF(2.0), Matern52(3.0)]))
def test_smooth_kernels_and_repeated_contexts_leave_redundant_arms_out(
    history: Any, noise: float, kernel: Kernel
) -> None:
    """Arms that the others all but determine are not inducing; Titsias' posterior is the check."""
    line = Arms(np.arange(N), np.repeat(np.linspace(0, 2, N // 2), 2)[:, None])
    belief = SparseGP.from_kernel(line, kernel, noise, n_inducing=12, rate=1.0)
    for rows, rewards in history:
        belief = belief.condition(line.take(rows), rewards)
        posterior = belief.posterior(line)
        assert np.isfinite(posterior.mean).all()
        assert (posterior.std**2 <= kernel.diagonal(line) * (1 + 1e-9)).all()
    if belief.q.places.size:
        inducing = line.take(belief.q.places)
        most = len(inducing)
        best: Any = StreamingGP.from_kernel(kernel, noise, inducing=inducing, n_inducing=most)
        best = best.condition(line.take(belief.history), belief.rewards)
        scale = np.abs(belief.rewards).max()
        if np.isin(belief.history, belief.q.places).all():  # then it is exact
            best = FiniteGP.from_kernel(line, kernel, noise)
            best = best.condition(line.take(belief.history), belief.rewards)
        # solves lose what the conditioning of K_ZZ takes, up to 1e6 times the rounding
        assert_allclose(belief.posterior(line).std, best.posterior(line).std, atol=2e-3)
        assert_allclose(belief.posterior(line).mean, best.posterior(line).mean, atol=2e-3 * scale)
