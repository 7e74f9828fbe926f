"""A kernel that looks at some features only: one of time beside one of space, for instance."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from superarm.arms import Arms
from superarm.arrays import Matrix, Vector, as_rows, frozen
from superarm.kernels.base import Kernel
from superarm.values import assembled


@dataclass(frozen=True, init=False)
class OnFeatures(Kernel):
    """Another kernel, of these features alone.

    With the day as the last feature, rewards that change over about 30 days are

    >>> from superarm.kernels import Matern12, Matern52
    >>> kernel = OnFeatures(Matern52(0.3), [0, 1]) * OnFeatures(Matern12(30.0), [2])
    >>> today, later = Arms([7], [[0.2, 0.5, 0.0]]), Arms([7], [[0.2, 0.5, 30.0]])
    >>> round(float(kernel.gram(today, later)[0, 0]), 4)
    0.3679

    Args:
        kernel: what compares them.
        features: their positions, from 0. Lengthscales are named after them.
    """

    kernel: Kernel
    features: tuple[int, ...]

    def __init__(self, kernel: Kernel, features: Sequence[int]) -> None:
        """Check and store the parts."""
        rows = as_rows("features", features)
        if not rows.size or np.unique(rows).size != rows.size or (rows < 0).any():
            msg = f"name one feature at least, from 0, and none twice, got {rows.tolist()}"
            raise ValueError(msg)
        kernel.diagonal(Arms([0], np.zeros((1, rows.size))))  # says if it is of more features
        object.__setattr__(self, "kernel", kernel)
        object.__setattr__(self, "features", tuple(rows.tolist()))

    def gram(self, left: Arms, right: Arms) -> Matrix:
        """Return the other kernel's."""
        return self.kernel.gram(self._of(left), self._of(right))

    def diagonal(self, arms: Arms) -> Vector:
        """Return the other kernel's."""
        return self.kernel.diagonal(self._of(arms))

    def parameters(self) -> dict[str, float]:
        """Return the other kernel's; a lengthscale is named after the feature it is of."""
        return {self._named(name): value for name, value in self.kernel.parameters().items()}

    def replaced(self, values: Mapping[str, float]) -> "OnFeatures":
        """Return it with other parameters."""
        inner = {name: values[self._named(name)] for name in self.kernel.parameters()}
        return OnFeatures(self.kernel.replaced(inner), self.features)

    def slopes(self, arms: Arms, weights: Matrix) -> Vector:
        """Return the other kernel's."""
        return self.kernel.slopes(self._of(arms), weights)

    def scale_parameters(self) -> tuple[str, ...]:
        """Return the other kernel's."""
        return tuple(self._named(name) for name in self.kernel.scale_parameters())

    @property
    def spectral(self) -> bool:
        """As the other kernel."""
        return self.kernel.spectral

    def frequencies(
        self, count: int, n_features: int, rng: np.random.Generator
    ) -> tuple[Matrix, float]:
        """Return the other kernel's; what is not looked at does not vary."""
        places = self._places(n_features)
        some, variance = self.kernel.frequencies(count, len(places), rng)
        result = np.zeros((count, n_features))
        result[:, places] = some
        return result, variance

    def _of(self, arms: Arms) -> Arms:
        places = self._places(arms.n_features)
        return assembled(Arms, ids=arms.ids, contexts=frozen(arms.contexts[:, places]))

    def _named(self, name: str) -> str:
        path, dot, last = name.rpartition(".")
        if last == "lengthscale" and len(self.features) == 1:
            last = "lengthscale[0]"
        if found := re.fullmatch(r"lengthscale\[(\d+)\]", last):
            last = f"lengthscale[{self.features[int(found[1])]}]"
        return f"{path}{dot}{last}"

    def _places(self, n_features: int) -> list[int]:
        if max(self.features) >= n_features:
            msg = (
                f"there is no feature {max(self.features)}: arms have {n_features}, counted from 0"
            )
            raise ValueError(msg)
        return list(self.features)
