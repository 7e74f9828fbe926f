"""Settings of all tests: one Hypothesis profile, plain NumPy printing in doctests."""

import os
import sys
from pathlib import Path

import hypothesis
import pytest

hypothesis.settings.register_profile("ci", deadline=None, derandomize=True, max_examples=60)
hypothesis.settings.register_profile("thorough", deadline=None, max_examples=1000)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


@pytest.fixture
def python() -> str:
    """The interpreter of the environment under test."""
    return sys.executable


@pytest.fixture
def root() -> Path:
    """The folder of the project."""
    return Path(__file__).resolve().parents[1]
