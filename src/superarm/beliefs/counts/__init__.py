"""Rewards that are counts: clicks of visitors (`Binomial`), events of an exposure (`Poisson`)."""

from superarm.beliefs.counts.belief import CountGP, CountPosterior
from superarm.beliefs.counts.families import Binomial, Poisson

__all__ = ["Binomial", "CountGP", "CountPosterior", "Poisson"]
