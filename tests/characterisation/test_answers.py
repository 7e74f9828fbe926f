"""Answers are those that were recorded; see the README beside this file."""

import platform
import sys

import pytest

from characterisation.comparing import differences
from characterisation.sources import SOURCES

_SHOWN = 60


@pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() != "x86_64",
    reason="answers were recorded, and tolerances measured, on Linux on x86-64",
)
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.slow] if source.slow else [])
        for name, source in SOURCES.items()
    ],
)
def test_answers_are_those_recorded(name: str) -> None:
    source = SOURCES[name]
    files = source.answers()
    assert set(files) == set(source.files)
    lines = [
        line
        for file, answers in files.items()
        for fields in differences(file, answers, source.tolerance).values()
        for line in fields
    ]
    if lines:
        more = f"\n... and {len(lines) - _SHOWN} more" if len(lines) > _SHOWN else ""
        pytest.fail(f"{len(lines)} differences:\n" + "\n".join(lines[:_SHOWN]) + more)
