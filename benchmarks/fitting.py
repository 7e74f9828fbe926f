"""Fitting a prior to 2,000 arms with ten rewards each, side by side with scikit-learn and GPyTorch.

Rivals fit once with all rewards and once with arms collapsed by hand to their averages, whose noise
is a tenth; all maximise the evidence alone, from the same start. What they found is compared by
`superarm.fitting.log_evidence` of all rewards.
"""

import time
import warnings
from collections.abc import Callable
from typing import Any

import gpytorch
import numpy as np
import torch
from common import peak_mib, report, say, table
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel

from superarm import Arms
from superarm.beliefs import FiniteGP
from superarm.fitting import fit, log_evidence
from superarm.kernels import Matern52

FEATURES, REPEATS = 6, 10
TRUE = Matern52([0.5, 1.0, 2.0, 4.0, 8.0, 16.0], 2.0)
NOISE, MEAN = 0.5, 3.0
Found = tuple[float, list[float], float, float]
"""Variance, lengthscales, noise variance of one reward, mean."""


def world(n_arms: int) -> tuple[Arms, Any, Any]:
    """Arms, and ten rewards of each, shape (n, 10)."""
    rng = np.random.default_rng(0)
    arms = Arms(range(n_arms), rng.standard_normal((n_arms, FEATURES)))
    truth = MEAN + TRUE.draw(arms, rng)
    noise = np.sqrt(NOISE) * rng.standard_normal((n_arms, REPEATS))
    return arms, truth, truth[:, None] + noise


def belief_of(arms: Arms, rewards: Any) -> FiniteGP:  # noqa: ANN401 - an array
    """What was seen, under a prior that is wrong."""
    belief = FiniteGP.from_kernel(arms, Matern52(np.ones(FEATURES)), 1.0)
    everything = np.tile(np.arange(len(arms)), REPEATS)
    return belief.condition(arms.take(everything), rewards.T.ravel())


def ours(arms: Arms, rewards: Any) -> Found:  # noqa: ANN401
    """Fit with this library."""
    found = fit(belief_of(arms, rewards), hyperpriors=None, restarts=0)
    values = list(found.values.values())
    return values[0], values[1:-2], values[-2], values[-1]


def with_sklearn(arms: Arms, rewards: Any, *, collapsed: bool) -> Found:  # noqa: ANN401
    """Fit with scikit-learn; it has no mean, so rewards are centred."""
    x, y, repeats = _data(arms, rewards, collapsed=collapsed)
    mean = float(y.mean())
    bounds = (1e-5, 1e6)
    kernel = ConstantKernel(1.0, bounds) * Matern(np.ones(FEATURES), bounds, nu=2.5)
    model = GaussianProcessRegressor(kernel + WhiteKernel(1.0 / repeats, bounds), alpha=0.0)
    model.fit(x, y - mean)
    best = model.kernel_
    noise = float(best.k2.noise_level) * repeats
    scales = np.atleast_1d(best.k1.k2.length_scale).tolist()
    return float(best.k1.k1.constant_value), scales, noise, mean


class _Model(gpytorch.models.ExactGP):  # type: ignore[misc]
    def __init__(self, x: Any, y: Any, likelihood: Any) -> None:  # noqa: ANN401
        super().__init__(x, y, likelihood)
        self.mean_module = gpytorch.means.ConstantMean()
        self.covar_module = gpytorch.kernels.ScaleKernel(
            gpytorch.kernels.MaternKernel(nu=2.5, ard_num_dims=FEATURES)
        )

    def forward(self, x: Any) -> Any:  # noqa: ANN401
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


def with_gpytorch(arms: Arms, rewards: Any, *, collapsed: bool) -> Found:  # noqa: ANN401
    """Fit with GPyTorch: Cholesky, L-BFGS."""
    torch.set_default_dtype(torch.float64)
    torch.set_num_threads(1)
    x, y, repeats = _data(arms, rewards, collapsed=collapsed)
    likelihood = gpytorch.likelihoods.GaussianLikelihood(
        noise_constraint=gpytorch.constraints.GreaterThan(1e-6)
    )
    model = _Model(torch.tensor(x), torch.tensor(y), likelihood)
    likelihood.noise = 1.0 / repeats
    model.covar_module.outputscale = 1.0
    model.covar_module.base_kernel.lengthscale = torch.ones(FEATURES)
    model.mean_module.constant = torch.tensor(float(y.mean()))
    model.train()
    likelihood.train()
    density = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
    optimiser = torch.optim.LBFGS(
        model.parameters(),
        max_iter=200,
        line_search_fn="strong_wolfe",
        tolerance_grad=1e-4 / y.size,
        tolerance_change=1e-10,
    )

    def closure() -> Any:  # noqa: ANN401
        optimiser.zero_grad()
        loss = -density(model(*model.train_inputs), model.train_targets)
        loss.backward()
        return loss

    with gpytorch.settings.fast_computations(False, False, False):  # noqa: FBT003
        optimiser.step(closure)
    scales = model.covar_module.base_kernel.lengthscale.detach().numpy().ravel().tolist()
    return (
        float(model.covar_module.outputscale),
        scales,
        float(likelihood.noise) * repeats,
        float(model.mean_module.constant),
    )


def _data(arms: Arms, rewards: Any, *, collapsed: bool) -> tuple[Any, Any, int]:  # noqa: ANN401
    if collapsed:
        return arms.contexts.copy(), rewards.mean(axis=1), REPEATS
    return np.repeat(arms.contexts, REPEATS, axis=0), rewards.ravel(), 1


def measured(
    name: str,
    arms: Arms,
    rewards: Any,  # noqa: ANN401
    how: Callable[[], Found],
) -> dict[str, Any]:
    """Time one way, and say how likely all rewards are under what it found."""
    say(name)
    begin = time.process_time()
    variance, scales, noise, mean = how()
    seconds = time.process_time() - begin
    kernel = Matern52(scales, variance)
    judged = belief_of(arms, rewards).reconsidered(kernel, noise_factor=noise, mean=mean)
    return {
        "fitted with": name,
        "CPU s": seconds,
        "log evidence": f"{log_evidence(judged):,.2f}",
        "noise variance": noise,
        "smallest and largest lengthscale": f"{min(scales):.2f}, {max(scales):.1f}",
        "peak MiB": peak_mib(),
    }


def main() -> None:
    """Fit both sizes."""
    warnings.simplefilter("ignore")
    tables = []
    for n_arms, everything in ((200, True), (2_000, False)):
        arms, _, rewards = world(n_arms)
        ways: dict[str, Callable[[], Found]] = {
            "superarm": lambda arms=arms, rewards=rewards: ours(arms, rewards)  # type: ignore[misc]
        }
        for name, rival in (("scikit-learn", with_sklearn), ("GPyTorch", with_gpytorch)):
            for collapsed in (True, False) if everything else (True,):
                said = "arms collapsed by hand" if collapsed else "all rewards"
                ways[f"{name}, {said}"] = (
                    lambda arms=arms, rewards=rewards, rival=rival, collapsed=collapsed: rival(  # type: ignore[misc]
                        arms, rewards, collapsed=collapsed
                    )
                )
        rows = [measured(name, arms, rewards, how) for name, how in ways.items()]
        for row in rows:
            row["times as long"] = row["CPU s"] / rows[0]["CPU s"]
        notes = ["All with one thread, from lengthscales, variance and noise of one."]
        if not everything:
            notes.append(
                f"All {n_arms * REPEATS:,} rewards at once are beyond the rivals: a matrix of "
                "3.2 GB, factorised in every step."
            )
        tables.append(
            table(
                f"{n_arms:,} arms, {REPEATS} rewards each, {FEATURES + 3} parameters", rows, *notes
            )
        )
    report(*tables)


if __name__ == "__main__":
    main()
