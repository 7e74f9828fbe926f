"""All questions by name, as they are stored beside values, and what a user's own values need."""

from collections.abc import Callable, Mapping

from stored.asking.learning import LEARNING, Answer, gain, level
from stored.asking.roads import ROADS

ASKED: Mapping[str, Callable[..., Answer]] = {**LEARNING, **ROADS}

KNOWN = (level, gain)
"""What is stored by name and is not of the package."""
