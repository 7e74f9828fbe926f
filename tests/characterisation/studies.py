"""Measured vehicles: how well models predict their first trips."""

from typing import Any

from characterisation import asking
from characterisation.forms import Answer, Files, means


def bus() -> Files:
    """Return predictions for a bus."""
    return {"study-bus": _scores("real-bus", 11)}


def twizy() -> Files:
    """Return predictions for a small car whose points are matched."""
    return {"study-twizy": _scores("real-twizy", 7)}


def _scores(study: str, trips: int) -> dict[str, Answer]:
    return {
        model: {name: _summary(values) for name, values in columns.items()}
        for model, columns in asking.score_drives(study, trips).items()
    }


def _summary(values: Any) -> Any:
    return values if isinstance(values, dict) else means(values)
