"""The theory of the paper as code: confidence schedules, information gain, regret bounds."""

from superarm.protocols import Width
from superarm.theory.bounds import (
    Bound,
    BoundCurve,
    bound_curve,
    c_omega,
    finite_bound,
    infinite_bound,
)
from superarm.theory.design import GainBounds, information_gain_bounds
from superarm.theory.eigenvalues import EigenvalueBound, largest_eigenvalue_bound
from superarm.theory.infinite import InfiniteBayesUCBWidth, InfiniteUCBWidth
from superarm.theory.information import (
    GainSoFar,
    GreedyGain,
    greedy_information_gain,
    growth_rate,
    independent_information_gain,
    information_gain,
)
from superarm.theory.regularity import Regularity
from superarm.theory.schedules import (
    BayesUCBWidth,
    FixedWidth,
    QuantileWidth,
    ScaledWidth,
    UCBWidth,
)
from superarm.theory.validity import Judged, Validity, validate

__all__ = [
    "BayesUCBWidth",
    "Bound",
    "BoundCurve",
    "EigenvalueBound",
    "FixedWidth",
    "GainBounds",
    "GainSoFar",
    "GreedyGain",
    "InfiniteBayesUCBWidth",
    "InfiniteUCBWidth",
    "Judged",
    "QuantileWidth",
    "Regularity",
    "ScaledWidth",
    "UCBWidth",
    "Validity",
    "Width",
    "bound_curve",
    "c_omega",
    "finite_bound",
    "greedy_information_gain",
    "growth_rate",
    "independent_information_gain",
    "infinite_bound",
    "information_gain",
    "information_gain_bounds",
    "largest_eigenvalue_bound",
    "validate",
]
