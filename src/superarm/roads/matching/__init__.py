"""GPS traces to routes: hidden-Markov matching on legal turns.

========================  ==========================================================================
what you have or want     name
========================  ==========================================================================
points of one drive       `Trace` and `Matcher`: which edges, where, how sure
how good matching is      `random_routes`, `driven`, `wrong_share`
========================  ==========================================================================
"""

from superarm.roads.matching.matcher import Match, Matcher, Part, Trace
from superarm.roads.matching.trial import KnownDrive, driven, random_routes, wrong_share

__all__ = [
    "KnownDrive",
    "Match",
    "Matcher",
    "Part",
    "Trace",
    "driven",
    "random_routes",
    "wrong_share",
]
