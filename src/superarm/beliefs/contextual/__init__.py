"""Contexts that are new every round: exact up to some thousand rewards, then streaming."""

from superarm.beliefs.contextual.exact import ExactGP
from superarm.beliefs.contextual.streaming import StreamingGP

__all__ = ["ExactGP", "StreamingGP"]
