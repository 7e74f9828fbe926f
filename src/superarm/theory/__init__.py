"""The theory of the paper as code: confidence schedules."""

from superarm.theory.schedules import (
    BayesUCBWidth,
    FixedWidth,
    QuantileWidth,
    ScaledWidth,
    UCBWidth,
    Width,
)

__all__ = [
    "BayesUCBWidth",
    "FixedWidth",
    "QuantileWidth",
    "ScaledWidth",
    "UCBWidth",
    "Width",
]
