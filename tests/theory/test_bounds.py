"""Theorem 1 and 2 and their lemmas, on small problems played many times at once."""

import math
from dataclasses import dataclass
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.special import erfinv

from strategies import finite, random_arms, seeds
from superarm import Agent, Arms
from superarm.arrays import Matrix, Vector
from superarm.beliefs import FiniteGP
from superarm.evaluation import compare
from superarm.gaussian import rectified_mean
from superarm.kernels import RBF, Matern52
from superarm.oracles import Subsets, TopK
from superarm.policies import UpperConfidenceBound
from superarm.problems import FiniteProblem
from superarm.rivals import ClockWidth
from superarm.theory import (
    BayesUCBWidth,
    FixedWidth,
    Regularity,
    UCBWidth,
    bound_curve,
    c_omega,
    finite_bound,
    infinite_bound,
    information_gain_bounds,
    largest_eigenvalue_bound,
)

N, OFFERED, K, T, REPEATS, NOISE = 12, 8, 3, 30, 400, 0.25
ARMS = random_arms(N, 2, seed=9)
GRAM = Matern52(0.4).gram(ARMS, ARMS)
OMEGA, XI = 1.1, 1.3
WIDTHS: dict[str, Any] = {
    "ucb": UCBWidth(N),
    "bucb": BayesUCBWidth(N, omega=OMEGA, xi=XI),
    "ts": UCBWidth(N),
}
PROBLEM: dict[str, Any] = {"n_arms": N, "super_arm_size": K, "noise_variance": NOISE}


@dataclass
class Played:
    """Sums over rounds, one per repeat: shape (R,), and per round, shape (R, T)."""

    regret: Matrix
    optimum_gap: Matrix  # f(a*) - U(a*)
    played_gap: Matrix  # U(a) - f(a)
    width_sum: Matrix  # sqrt(beta) sigma(a)
    variance_sum: Matrix
    gains: Matrix


def play_many(policy: str, width: Any, seed: int = 0) -> Played:
    """Play all repeats together, with dense posteriors: independent of the library's beliefs."""
    rng = np.random.default_rng(seed)
    lower = np.linalg.cholesky(GRAM + 1e-10 * np.eye(N))
    truth = rng.standard_normal((REPEATS, N)) @ lower.T
    mean, covariance = np.zeros((REPEATS, N)), np.tile(GRAM, (REPEATS, 1, 1))
    columns: dict[str, list[Vector]] = {name: [] for name in Played.__dataclass_fields__}
    gained = np.zeros(REPEATS)
    each = np.arange(REPEATS)[:, None]
    for t in range(1, T + 1):
        offered = np.argsort(rng.random((REPEATS, N)), axis=1)[:, :OFFERED]  # volatile
        std = np.sqrt(np.maximum(np.einsum("rii->ri", covariance), 0))
        upper = mean + width(t) * std
        index = upper
        if policy == "ts":
            roots = np.linalg.cholesky(covariance + 1e-9 * np.eye(N))
            index = mean + np.einsum("rij,rj->ri", roots, rng.standard_normal((REPEATS, N)))
        chosen = _top(offered, index[each, offered])
        best = _top(offered, truth[each, offered])
        total = {name: value[each, chosen].sum(axis=1) for name, value in
                 (("f", truth), ("U", upper), ("std", std))}  # fmt: skip
        best_f, best_u = truth[each, best].sum(axis=1), upper[each, best].sum(axis=1)
        block = covariance[each[:, :, None], chosen[:, :, None], chosen[:, None, :]]
        system = block + NOISE * np.eye(K)
        gained = gained + 0.5 * (np.linalg.slogdet(system)[1] - K * math.log(NOISE))
        columns["regret"].append(best_f - total["f"])
        columns["optimum_gap"].append(best_f - best_u)
        columns["played_gap"].append(total["U"] - total["f"])
        columns["width_sum"].append(width(t) * total["std"])
        columns["variance_sum"].append(np.einsum("rii->r", block))
        columns["gains"].append(gained)
        rewards = truth[each, chosen] + math.sqrt(NOISE) * rng.standard_normal((REPEATS, K))
        cross = covariance[each, chosen]  # (R, K, N)
        gain = np.linalg.solve(system, cross)
        mean = mean + np.einsum("rkn,rk->rn", gain, rewards - mean[each, chosen])
        covariance = covariance - np.einsum("rkn,rkm->rnm", cross, gain)
        covariance = (covariance + covariance.transpose(0, 2, 1)) / 2
    return Played(**{name: np.array(values).T for name, values in columns.items()})


def _top(offered: Any, values: Any) -> Any:
    return np.take_along_axis(offered, np.argsort(-values, axis=1)[:, :K], axis=1)


@pytest.fixture(scope="module", params=["ucb", "bucb", "ts"])
def played(request: pytest.FixtureRequest) -> tuple[str, Played]:
    return request.param, play_many(request.param, WIDTHS[request.param])


def mean_and_error(sums: Vector) -> tuple[float, float]:
    return float(sums.mean()), float(sums.std(ddof=1) / math.sqrt(sums.size))


def exponents(policy: str) -> dict[str, Any]:
    return {"omega": OMEGA, "xi": XI} if policy == "bucb" else {}


def first_term(policy: str) -> float:
    """What the lemmas allow the sum of f(a*) - U(a*) to be."""
    return c_omega(OMEGA) * XI / (XI - OMEGA) if policy == "bucb" else math.pi**2 / 6


def test_measured_bayesian_regret_lies_below_the_theorem(played: tuple[str, Played]) -> None:
    policy, runs = played
    bound = finite_bound(
        policy,  # type: ignore[arg-type]  # one of the three
        **PROBLEM,
        horizon=T,
        information_gain=information_gain_bounds(GRAM, NOISE, T * K).upper,
        largest_eigenvalue=largest_eigenvalue_bound(GRAM, K).value,
        **exponents(policy),
    )
    assert bound.case == "theorem"
    regret, error = mean_and_error(runs.regret.sum(axis=1))
    assert 0 < regret + 4 * error < bound.total


def test_the_bound_from_the_runs_own_information_is_smaller_and_still_holds(
    played: tuple[str, Played],
) -> None:
    policy, runs = played
    eigenvalue = largest_eigenvalue_bound(GRAM, K).value
    curve = bound_curve(
        policy,  # type: ignore[arg-type]  # one of the three
        runs.gains,
        **PROBLEM,
        largest_eigenvalue=eigenvalue,
        **exponents(policy),
    )
    cumulative = runs.regret.cumsum(axis=1)
    error = cumulative.std(axis=0, ddof=1) / math.sqrt(REPEATS)
    assert (cumulative.mean(axis=0) + 4 * error < curve.mean - 4 * curve.standard_error).all()
    worst = finite_bound(
        policy,  # type: ignore[arg-type]  # one of the three
        **PROBLEM,
        horizon=T,
        information_gain=information_gain_bounds(GRAM, NOISE, T * K).upper,
        largest_eigenvalue=eigenvalue,
        **exponents(policy),
    )
    assert curve.mean[-1] < worst.total


def test_regret_decomposes_into_two_terms(played: tuple[str, Played]) -> None:
    policy, runs = played
    both = runs.optimum_gap + runs.played_gap
    if policy == "ts":  # equality, in expectation over the sampled index
        gap, error = mean_and_error((both - runs.regret).sum(axis=1))
        assert abs(gap) < 4 * error
    else:  # pathwise, since the agent maximises U
        assert (runs.regret <= both + 1e-9).all()


def test_the_optimum_rarely_exceeds_its_upper_bound(played: tuple[str, Played]) -> None:
    policy, runs = played
    total, error = mean_and_error(runs.optimum_gap.sum(axis=1))
    assert total + 4 * error < first_term(policy)


def test_a_width_of_zero_fails_where_the_lemmas_hold() -> None:
    """So the tests of the lemmas can fail."""
    runs = play_many("ucb", FixedWidth(0.0))
    total, error = mean_and_error(runs.optimum_gap.sum(axis=1))
    assert total - 4 * error > math.pi**2 / 6


def test_indices_exceed_the_truth_by_their_widths(played: tuple[str, Played]) -> None:
    """For Thompson sampling too: given the history its choice is independent of f.

    That is why the sharp bound needs neither the factor 2 nor the second constant.
    """
    _, runs = played
    gap, error = mean_and_error((runs.played_gap - runs.width_sum).sum(axis=1))
    assert abs(gap) < 4 * error


def test_the_sharp_bound_of_thompson_sampling_is_half_and_holds() -> None:
    runs = play_many("ts", WIDTHS["ts"])
    quantities: dict[str, Any] = {
        "horizon": T,
        "information_gain": information_gain_bounds(GRAM, NOISE, T * K).upper,
        "largest_eigenvalue": largest_eigenvalue_bound(GRAM, K).value,
    }
    plain = finite_bound("ts", **PROBLEM, **quantities)
    sharp = finite_bound("ts", **PROBLEM, **quantities, sharp=True)
    assert_allclose(2 * sharp.total, plain.total)
    regret, error = mean_and_error(runs.regret.sum(axis=1))
    assert regret + 4 * error < sharp.total


def test_posterior_variances_are_paid_for_by_information(played: tuple[str, Played]) -> None:
    """In every single run: sum of variances <= 2 (lambda* + noise) I, and the widths follow."""
    policy, runs = played
    constant = 2 * (largest_eigenvalue_bound(GRAM, K).value + NOISE)
    spent = runs.variance_sum.cumsum(axis=1)
    assert (spent <= constant * runs.gains + 1e-9).all()
    beta = WIDTHS[policy](T) ** 2
    root = np.sqrt(constant * T * K * beta * runs.gains[:, -1])
    assert (runs.width_sum.sum(axis=1) <= root).all()


@given(finite(0.0, 0.999999), finite(1.001, 5.0))
def test_the_inverse_error_function_is_enclosed(u: float, omega: float) -> None:
    value = float(erfinv(u))
    largest = math.sqrt(2 * math.e / math.pi) * math.sqrt(omega - 1) / omega
    below = -math.log((1 - u) / largest) / omega
    assert value >= math.sqrt(max(below, 0.0)) - 1e-12
    assert value <= math.sqrt(max(-math.log1p(-u), 0.0)) + 1e-9  # omega = vartheta = 1


@given(st.integers(1, 40), seeds, finite(0.02, 0.5), st.sampled_from([RBF(0.4), Matern52(0.5)]))
def test_discretisation_errors_of_the_posterior_are_bounded(
    seen: int, seed: int, noise: float, kernel: Any
) -> None:
    r"""|sigma([a]) - sigma(a)| <= sqrt(2 L d C_1 / tau), and the lemma for the mean.

    The printed proof for the standard deviation equates a difference of quadratic forms with the
    form of the difference; increments of a posterior have at most the variance of the prior's,
    which gives the statement tested here, and the third inequality on the grid is not needed.
    """
    rng = np.random.default_rng(seed)
    tau, dimension = int(rng.integers(2, 30)), 2
    known = Regularity.of_kernel(kernel, dimension)
    points = rng.random((seen + 20, dimension))
    nearest = (np.floor(points[seen:] * tau).clip(0, tau - 1) + 0.5) / tau
    arms = Arms(np.arange(seen + 40), np.concatenate([points, nearest]))
    belief = FiniteGP.from_kernel(arms, kernel, noise)
    gram = kernel.gram(arms.take(np.arange(seen)), arms.take(np.arange(seen)))
    system = gram + noise * np.eye(seen)
    lower = np.linalg.cholesky(system)
    rewards = lower @ rng.standard_normal(seen)
    belief = belief.condition(arms.take(np.arange(seen)), rewards)
    here = belief.posterior(arms.take(np.arange(seen, seen + 20)))
    grid = belief.posterior(arms.take(np.arange(seen + 20, seen + 40)))
    step = known.lipschitz * dimension / tau
    assert (np.abs(grid.std - here.std) <= math.sqrt(2 * step) + 1e-9).all()
    norm = float(np.linalg.norm(np.linalg.solve(lower, rewards)))
    allowed = step * math.sqrt(seen) / math.sqrt(noise) * norm
    assert (np.abs(grid.mean - here.mean) <= allowed + 1e-9).all()


def test_every_term_is_the_formulas_in_extended_precision() -> None:
    with mpmath.workdps(40):
        gain, eigenvalue = mpmath.mpf("7.5"), mpmath.mpf("2.25")
        constant = 2 * (eigenvalue + NOISE)
        beta = 2 * mpmath.log(N * mpmath.mpf(T) ** 2 / mpmath.sqrt(2 * mpmath.pi))
        root = mpmath.sqrt(constant * T * K * beta * gain)
        expected = {
            "ucb": mpmath.pi**2 / 6 + root,
            "ts": mpmath.pi**2 / 3 + 2 * root,
        }
        quantities: dict[str, Any] = {
            "horizon": T, "information_gain": 7.5, "largest_eigenvalue": 2.25,
        }  # fmt: skip
        for policy, total in expected.items():
            found = finite_bound(policy, **PROBLEM, **quantities)  # type: ignore[arg-type]
            assert_allclose(found.total, float(total), rtol=1e-12)
        inner = mpmath.sqrt(mpmath.pi) * OMEGA / mpmath.sqrt(2 * mpmath.e * (OMEGA - 1))
        constant_omega = inner ** (1 / mpmath.mpf(OMEGA))
        level = mpmath.sqrt(2 * mpmath.pi) ** OMEGA / (2 * mpmath.mpf(N) ** OMEGA * T**XI)
        quantile = 2 * mpmath.erfinv(1 - 2 * level) ** 2
        total = constant_omega * XI / (XI - OMEGA) + mpmath.sqrt(constant * T * K * quantile * gain)
        found = finite_bound("bucb", **PROBLEM, **quantities, omega=OMEGA, xi=XI)
        assert_allclose(found.total, float(total), rtol=1e-10)


@given(finite(1.05, 3.0), finite(0.2, 6.0), st.integers(1, 400))
def test_the_three_cases_of_the_lemma_bound_their_sum(omega: float, xi: float, t: int) -> None:
    quantities: dict[str, Any] = {
        "horizon": t, "information_gain": 1.0, "largest_eigenvalue": 1.0, "omega": omega,
    }  # fmt: skip
    for exponent in (xi, omega):
        found = finite_bound("bucb", **PROBLEM, **quantities, xi=exponent)
        ratio = exponent / omega
        total = sum(s**-ratio for s in range(1, t + 1))
        assert found.constants["confidence"] >= c_omega(omega) * total * (1 - 1e-12)
        case = (
            "theorem" if ratio > 1 else "lemma, " + ("logarithmic" if ratio == 1 else "sublinear")
        )
        assert found.case == case


def test_the_infinite_bound_adds_two_grid_terms() -> None:
    known = Regularity.of_kernel(Matern52(0.4), 2)
    shared: dict[str, Any] = {
        "super_arm_size": K, "horizon": T, "noise_variance": NOISE, "information_gain": 5.0,
        "largest_eigenvalue": 2.0,
    }  # fmt: skip
    constants = {"ucb": math.pi**2 / 2, "ts": 2 * math.pi**2 / 3}
    shared_points = (K - 1) * math.pi**2 / 6
    for policy, constant in constants.items():
        name: Any = policy
        printed = infinite_bound(name, regularity=known, **shared, as_printed=True)
        assert_allclose(sum(printed.constants.values()), constant)
        found = infinite_bound(name, regularity=known, **shared)
        assert_allclose(sum(found.constants.values()), constant + shared_points)
        explicit = infinite_bound(name, regularity=known, **shared, explicit=True)
        assert explicit.total > found.total
    bucb = infinite_bound("bucb", regularity=known, **shared, omega=OMEGA, xi=XI)
    expected = math.pi**2 / 3 + K * c_omega(OMEGA) * XI / (XI - OMEGA)
    assert_allclose(sum(bucb.constants.values()), expected)


@given(finite(0.01, 100.0), st.sampled_from(["ucb", "ts"]))
def test_rescaling_a_problem_rescales_its_bound(variance: float, policy: Any) -> None:
    """Rewards times s: variances and noise times s^2, the information as before, regret times s."""
    unit = finite_bound(policy, **PROBLEM, horizon=T, information_gain=5.0, largest_eigenvalue=2.0)
    scaled = finite_bound(
        policy,
        n_arms=N,
        super_arm_size=K,
        horizon=T,
        noise_variance=variance * NOISE,
        information_gain=5.0,
        largest_eigenvalue=variance * 2.0,
        largest_variance=variance,
    )
    assert_allclose(scaled.total, math.sqrt(variance) * unit.total, rtol=1e-12)


def test_conditions_that_fail_are_named() -> None:
    shared: dict[str, Any] = {"horizon": T, "information_gain": 1.0, "largest_eigenvalue": 1.0}
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"omega": 1.0, "xi": 2.0}, "omega must exceed 1"),
        ({"omega": 1.5, "xi": 0.0}, "xi"),
        ({"omega": 1.5}, "needs omega"),
    ]
    for changes, told in wrong:
        with pytest.raises(ValueError, match=told):
            finite_bound("bucb", **PROBLEM, **shared, **changes)
    wrong = [
        ({"noise_variance": 0.0}, "noise_variance"),
        ({"super_arm_size": 99}, "exceeds the 12 arms"),
        ({"information_gain": -1.0}, "information_gain"),
        ({"omega": 2.0}, "belong to policy 'bucb'"),
        ({"largest_variance": 0.0}, "largest_variance"),
    ]
    for changes, told in wrong:
        with pytest.raises(ValueError, match=told):
            finite_bound("ucb", **(PROBLEM | shared | changes))
    with pytest.raises(ValueError, match="policy must be one of"):
        finite_bound("best", **PROBLEM, **shared)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="at least two runs"):
        bound_curve("ucb", [[1.0, 2.0]], **PROBLEM, largest_eigenvalue=1.0)


# ---- what the printed text gets wrong, in numbers


@given(st.integers(3, 10**6), st.integers(1, 10**5))
def test_a_union_over_the_arms_on_offer_leaves_one_over_t_squared(offered: int, t: int) -> None:
    """However many arms there are in all: E (f - U)_+ summed over A_t, with deviations of one."""
    for width in (UCBWidth(offered), ClockWidth(offered)):
        overshoot = rectified_mean(np.array([-width(t)]), np.ones(1))[0]
        assert offered * overshoot <= 1 / t**2


def test_regret_by_the_width_of_what_is_on_offer_lies_below_the_bound() -> None:
    """20 of 400 points on offer, drawn independently of the past; nothing is rectified."""
    arms = random_arms(400, 2, seed=0)
    kernel, offered, size, horizon, noise = RBF(0.3), 20, 3, 40, 0.25

    def make_world(rng: np.random.Generator) -> Any:
        return FiniteProblem.sample(
            arms, kernel, Subsets(400, size), rng, noise_variance=noise,
            availability=Exactly(offered),
        )  # fmt: skip

    belief = FiniteGP.from_kernel(arms, kernel, noise)
    agent: Any = Agent(belief, UpperConfidenceBound(UCBWidth(offered)), TopK())
    found = compare(make_world, {"ucb": lambda _: agent}, TopK(), horizon=horizon, repeats=6)
    gram = kernel.gram(arms, arms)
    options: Any = {
        "super_arm_size": size,
        "horizon": horizon,
        "noise_variance": noise,
        "information_gain": information_gain_bounds(gram, noise, horizon * size).upper,
        "largest_eigenvalue": largest_eigenvalue_bound(gram, size).value,
    }
    bound = finite_bound("ucb", n_arms=offered, **options).total
    assert found["ucb"].regret.mean[-1] < bound < finite_bound("ucb", n_arms=400, **options).total


@dataclass(frozen=True)
class Exactly:
    """So many arms, drawn anew every round."""

    count: int

    def rows(self, n_arms: int, rng: np.random.Generator) -> Any:
        return np.sort(rng.choice(n_arms, self.count, replace=False))


@pytest.mark.parametrize(("omega", "xi", "keeps_rate"), [
    (1.01, 0.49, False), (1.01, 0.505, True), (1.5, 0.75, True), (2.0, 0.9, False),
])  # fmt: skip
def test_a_rate_of_root_t_needs_xi_of_at_least_half_omega(
    omega: float, xi: float, keeps_rate: bool
) -> None:
    """The footnote asks for xi at *most* one half: then the first term outgrows the root of T."""
    first = [
        finite_bound(
            "bucb", n_arms=100, super_arm_size=5, horizon=horizon, noise_variance=0.25,
            information_gain=10.0, largest_eigenvalue=2.0, omega=omega, xi=xi,
        ).constants.values()
        for horizon in (10**6, 16 * 10**6)
    ]  # fmt: skip
    growth = math.log(sum(first[1]) / sum(first[0])) / math.log(16)
    assert_allclose(growth, 1 - xi / omega, atol=1e-9)
    assert (growth <= 0.5 + 1e-9) == keeps_rate == (xi >= omega / 2 - 1e-9)


@given(st.integers(1, 10**9), finite(0.5, 6.0))
def test_the_printed_union_of_thompson_sampling_grows_with_the_arms(n: int, width: float) -> None:
    """Theorem 2 (iii) sums E (L - f)_+ over all arms, which are infinitely many."""
    one = float(rectified_mean(np.array([-width]), np.ones(1))[0])
    assert n * one >= 1 or n < 1 / one  # from some n on it exceeds any number
    # while the quantity it bounds is the width itself, whatever n: given the history the sampled
    # arm is independent of f, so that E[U(a) - f(a)] = width * std
    rng = np.random.default_rng(n % 2**32)
    few = rng.standard_normal((2000, 3))  # posterior means zero, deviations one
    drawn = rng.standard_normal((2000, 3)).argmax(axis=1)
    gap = width - few[np.arange(2000), drawn]
    assert abs(gap.mean() - width) < 6 / math.sqrt(2000)
