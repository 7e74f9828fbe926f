"""What an ensemble has learned, without its prior: small enough to be written often."""

from dataclasses import dataclass

import numpy as np

from superarm.arrays import Matrix, frozen
from superarm.beliefs.ensemble.gp import TOLERANCE, EnsembleGP
from superarm.beliefs.ensemble.observations import Observations
from superarm.beliefs.ensemble.roots import PriorRoot
from superarm.beliefs.ensemble.system import Equations
from superarm.beliefs.prior import FinitePrior
from superarm.errors import DataError

_PROBED = 64
_SAME = 1e-4


@dataclass(frozen=True, eq=False)
class EnsembleState:
    """The parts of an `EnsembleGP` that observations change.

    Attributes:
        probe: some rows of the prior's root, shape (64, R + 1 + ...), graphs and tiles included:
            solutions are about that root and no other.
        observations: all of them.
        inner: what they say about the features, shape (R, R).
        turned: directions that are eliminated, shape (R, k).
        carried: what observations say of these, shape (n, k).
        turned_at: how many observations there were when these were chosen.
        noise: what observations had of it in the draws, shape (n, S).
        latent: solutions, shape (p, 1 + S).
        residual: what is left of their equations, shape (p, 1 + S).
        reached: the largest bound of an error, in posterior deviations.
        seed: of the draws.
    """

    probe: Matrix
    observations: tuple[Observations, ...]
    inner: Matrix
    turned: Matrix
    carried: Matrix
    turned_at: int
    noise: Matrix
    latent: Matrix
    residual: Matrix
    reached: float
    seed: int

    @classmethod
    def of(cls, belief: EnsembleGP) -> "EnsembleState":
        """Return what a belief has learned."""
        equations = belief.equations
        return cls(
            probe=belief.root.probe(_PROBED),
            observations=equations.observations,
            inner=equations.inner,
            turned=equations.turned,
            carried=equations.carried,
            turned_at=equations.turned_at,
            noise=belief.noise,
            latent=belief.latent,
            residual=belief.residual,
            reached=belief.reached,
            seed=belief.seed,
        )

    @property
    def n_draws(self) -> int:
        """How many draws are kept."""
        return int(self.latent.shape[1]) - 1

    def resumed(
        self, prior: FinitePrior, root: PriorRoot, tolerance: float = TOLERANCE
    ) -> EnsembleGP:
        """Return the belief.

        Args:
            prior: what was believed before the first observation.
            root: of its covariance.
            tolerance: the largest residual from now on.

        Raises:
            DataError: if this was learned under another prior, or another root of it.
        """
        probe, same = root.probe(_PROBED), self.latent.shape[0] == root.size
        same = same and probe.shape == self.probe.shape
        if not (same and np.allclose(probe, self.probe, rtol=_SAME, atol=_SAME * _scale(probe))):
            msg = (
                "what was learned belongs to another prior, or to the same computed otherwise; "
                "learn again from the observations"
            )
            raise DataError(msg)
        equations = Equations(
            root=root,
            observations=self.observations,
            inner=self.inner,
            turned=self.turned,
            felt=frozen(root.features_times(self.turned)),
            carried=self.carried,
            turned_at=self.turned_at,
        )
        return EnsembleGP(
            prior=prior,
            equations=equations,
            seed=self.seed,
            tolerance=tolerance,
            noise=self.noise,
            latent=self.latent,
            field=frozen(root.times(self.latent)),
            residual=self.residual,
            reached=self.reached,
            iterations=0,
        )


def _scale(probe: Matrix) -> float:
    return float(np.abs(probe).max(initial=0.0))
