"""The theory of the paper as code: confidence schedules, information gain, regret bounds.

==============================  ====================================================================
which width                     when
==============================  ====================================================================
`BayesUCBWidth`                 finitely many arms, GP-BUCB: narrow; proven if xi > omega > 1, which
                                the experiments' 1 and 1, the default, are not
`UCBWidth`                      finitely many arms, GP-UCB
`InfiniteBayesUCBWidth`         GP-BUCB with contexts from a continuum, as smooth as `Regularity`
`InfiniteUCBWidth`              likewise GP-UCB
`QuantileWidth`, `FixedWidth`   a level or a width that you choose: no guarantee, often less regret
`ScaledWidth`                   another one, wider or narrower
==============================  ====================================================================

`finite_bound` and `infinite_bound` are Theorems 1 and 2, term by term; `bound_curve` draws one over
rounds; `validate` says whether a schedule has the guarantee at all. Information gain is
`information_gain` of given arms, `greedy_information_gain` and `information_gain_bounds` of the
worst ones.
"""

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
