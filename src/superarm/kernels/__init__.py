"""Prior covariances of arms; `+` and `*` combine them."""

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
