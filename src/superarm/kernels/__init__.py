r"""Prior covariances of arms; `+` and `*` combine them.

==============================  ====================================================================
what you know                   kernel
==============================  ====================================================================
close contexts, close rewards   `Matern52`, usually; `Matern32`, `Matern12` if rewards are rough,
                                `RBF` if they are very smooth; one lengthscale per feature or one
rewards linear in features      `Linear`
arms are edges of a network     `GraphMatern`: smooth along turns, any number of edges
a level that nobody knows       ``+ Constant(variance)``
arms differ beyond features     ``+ PerArm(variance)``
some features only              `OnFeatures`
two kinds of arms               `Beside`
==============================  ====================================================================

The paper has ``GraphMatern(...) * Matern52(...) + Matern52(...)`` on road networks. To write
one of your own inherit from `Kernel` and write ``gram`` and ``diagonal``. Lengthscales that nobody
knows are found by `superarm.fitting`.
"""

from superarm.kernels.base import (
    EXACT_DRAW_LIMIT,
    RANDOM_FEATURES,
    Constant,
    Kernel,
    PerArm,
    Product,
    RandomFunction,
    Sum,
    draw_function,
)
from superarm.kernels.beside import Beside
from superarm.kernels.columns import OnFeatures
from superarm.kernels.graph import GraphMatern
from superarm.kernels.linear import Linear
from superarm.kernels.stationary import RBF, Matern12, Matern32, Matern52, Stationary

__all__ = [
    "EXACT_DRAW_LIMIT",
    "RANDOM_FEATURES",
    "RBF",
    "Beside",
    "Constant",
    "GraphMatern",
    "Kernel",
    "Linear",
    "Matern12",
    "Matern32",
    "Matern52",
    "OnFeatures",
    "PerArm",
    "Product",
    "RandomFunction",
    "Stationary",
    "Sum",
    "draw_function",
]
