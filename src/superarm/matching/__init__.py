"""GPS traces to routes: hidden-Markov map matching on legal turns."""

from superarm.matching.matcher import Match, Matcher, Part, Trace
from superarm.matching.trial import random_routes, wrong_share

__all__ = ["Match", "Matcher", "Part", "Trace", "random_routes", "wrong_share"]
