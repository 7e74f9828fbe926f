"""A fixed list of arms, rewards of single arms: exact at any number of arms."""

from superarm.beliefs.finite.exact import FiniteGP, FinitePosterior

__all__ = ["FiniteGP", "FinitePosterior"]
