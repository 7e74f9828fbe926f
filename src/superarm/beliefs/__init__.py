"""Beliefs about the arms: exact Gaussian processes and independent Gaussians."""

from superarm.beliefs.exact import ExactGP
from superarm.beliefs.finite import FiniteGP
from superarm.beliefs.independent import IndependentGaussian

__all__ = ["ExactGP", "FiniteGP", "IndependentGaussian"]
