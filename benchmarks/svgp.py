"""The paper's sparse variational GP round in GPyTorch (Algorithm 3, appendix B.3), to compare with.

M = 1000 inducing arms (the most visited), a batch of B = 2500, one natural-gradient step of rate
0.1, one Adam step of rate 0.01 on inducing locations, then mean and variance of all arms. Single
precision, GPyTorch's default, which is in its favour.
"""

import warnings
from typing import Any

import numpy as np

from superarm import Arms
from superarm.arrays import Matrix, Rows, Vector
from superarm.roads.models import EnergyModel
from superarm.roads.models.paper import PRIOR_SPREAD

warnings.filterwarnings("ignore", category=DeprecationWarning)

import gpytorch  # noqa: E402 - after its warnings are silenced
import torch  # noqa: E402

INDUCING, BATCH = 1000, 2500


class _Model(gpytorch.models.ApproximateGP):  # type: ignore[misc]  # an untyped base
    def __init__(self, inducing: Any, kernel: Any) -> None:  # noqa: ANN401 - tensors
        distribution = gpytorch.variational.NaturalVariationalDistribution(inducing.shape[0])
        strategy = gpytorch.variational.VariationalStrategy(
            self, inducing, distribution, learn_inducing_locations=True
        )
        super().__init__(strategy)
        self.mean_module = gpytorch.means.ZeroMean()
        self.covar_module = kernel

    def forward(self, x: Any) -> Any:  # noqa: ANN401 - tensors
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


class SparseRound:
    """One round of the paper's update, on a sum and product of Matérn kernels of the contexts."""

    def __init__(self, arms: Arms, rows: Rows, rewards: Vector, noise_variance: float) -> None:
        """Set up the model for a history of observations."""
        kernel = _matern(0.5) * _matern(1.0) + _matern(0.5)
        self._prepare(arms.contexts, kernel, rows, rewards, noise_variance)

    def _prepare(
        self,
        inputs: Matrix,
        kernel: Any,  # noqa: ANN401 - a kernel of theirs
        rows: Rows,
        rewards: Vector,
        noise_variance: float,
    ) -> None:
        torch.set_num_threads(1)
        self._inputs = torch.tensor(inputs, dtype=torch.float32)
        self._rows = torch.tensor(rows)
        self._rewards = torch.tensor(rewards, dtype=torch.float32)
        visits = np.bincount(rows, minlength=inputs.shape[0])
        busiest = np.argsort(-visits, kind="stable")[:INDUCING]
        self._model = _Model(self._inputs[torch.tensor(busiest)].clone(), kernel)
        self._likelihood = gpytorch.likelihoods.GaussianLikelihood()
        self._likelihood.noise = noise_variance
        self._natural = gpytorch.optim.NGD(
            self._model.variational_parameters(), num_data=rows.size, lr=0.1
        )
        self._adam = torch.optim.Adam([self._model.variational_strategy.inducing_points], lr=0.01)
        self._objective = gpytorch.mlls.VariationalELBO(
            self._likelihood, self._model, num_data=rows.size
        )

    def __call__(self) -> tuple[Any, Any]:
        """Take both steps and predict all arms."""
        self._model.train()
        batch = torch.randperm(self._rows.shape[0])[:BATCH]
        self._natural.zero_grad()
        self._adam.zero_grad()
        output = self._model(self._inputs[self._rows[batch]])
        loss = -self._objective(output, self._rewards[batch])
        loss.backward()
        self._natural.step()
        self._adam.step()
        self._model.eval()
        with torch.no_grad():
            posterior = self._model(self._inputs)
            return posterior.mean, posterior.variance


class _Lookup(gpytorch.kernels.Kernel):  # type: ignore[misc]  # an untyped base
    """A kernel on ids, the first input, from a matrix computed before."""

    def __init__(self, matrix: Any) -> None:  # noqa: ANN401 - a tensor
        super().__init__()
        self._matrix = matrix

    def forward(self, x1: Any, x2: Any, diag: bool = False, **_: Any) -> Any:  # noqa: ANN401, FBT001, FBT002
        left, right = x1[..., 0].round().long(), x2[..., 0].round().long()
        return self._matrix[left, right] if diag else self._matrix[left][..., right]


class GraphSparseRound(SparseRound):
    """The same on the paper's navigation kernel, in units of the spread of energies."""

    def __init__(
        self, graph: Matrix, contexts: Matrix, rows: Rows, rewards: Vector, model: EnergyModel
    ) -> None:
        """Set up the model for a history of trips."""
        unit = model.spread_wh
        inputs = np.column_stack([np.arange(contexts.shape[0], dtype=np.float64), contexts])
        lookup = _Lookup(torch.tensor(graph, dtype=torch.float32))
        half = PRIOR_SPREAD**2 / 2
        features = [_matern(half, active_dims=(1, 2, 3)) for _ in range(2)]
        gap = (rewards + model.prior_cost_wh[rows]) / unit
        noise = (model.noise_std_wh / unit) ** 2
        self._prepare(inputs, lookup * features[0] + features[1], rows, gap, noise)


def _matern(variance: float, active_dims: tuple[int, ...] | None = None) -> Any:  # noqa: ANN401 - a kernel of theirs
    inner = gpytorch.kernels.MaternKernel(nu=2.5, active_dims=active_dims)
    scaled = gpytorch.kernels.ScaleKernel(inner)
    scaled.outputscale = variance
    scaled.base_kernel.lengthscale = 1.0
    for parameter in scaled.parameters():
        parameter.requires_grad_(requires_grad=False)
    return scaled
