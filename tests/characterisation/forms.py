"""Answers as they are kept: short, readable, and the same on every machine up to rounding."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

Answer = dict[str, Any]
"""What one case was answered: plain JSON."""

Files = dict[str, dict[str, Answer]]
"""Answers by the file they are recorded in and by the name of their case."""

_DIGITS = 12
_WIDTH = 140
_GOLDEN = 0.6180339887498949


def digest(words: Iterable[object]) -> str:
    """Return the beginning of the SHA-256 of a sequence: what may not be kept itself."""
    text = "\n".join(str(word) for word in words)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def summarise(values: object) -> Answer:
    """Return a few numbers that change when any one of these values does."""
    flat = np.asarray(values, dtype=np.float64).ravel()
    if not flat.size:
        return {"count": 0}
    return {"count": flat.size, "means": means(flat), "range": [flat.min(), flat.max()]}


def means(values: object) -> list[float]:
    """Return the mean, the root mean square and a weighted mean.

    The weights lie between 1 and 2 and differ from place to place, so that a permutation is noticed
    as well.
    """
    flat = np.asarray(values, dtype=np.float64).ravel()
    weights = 1 + np.modf(_GOLDEN * np.arange(flat.size))[0]
    return [float(flat.mean()), float(np.sqrt((flat**2).mean())), float((weights * flat).mean())]


def plain(value: object) -> Any:
    """Return a value as JSON has it, floats with twelve digits."""
    if isinstance(value, Mapping):
        return {str(name): plain(part) for name, part in value.items()}
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float):
        return float(f"{value:.{_DIGITS}g}") + 0.0  # zero has no sign
    return value


def write(cases: Mapping[str, Answer]) -> str:
    """Return the text of a file of answers: sorted, one field per line, lists within a line."""
    return _text_of(plain(cases), "") + "\n"


def _text_of(value: object, indent: str) -> str:
    short = json.dumps(value, sort_keys=True)
    if not isinstance(value, dict) or (indent and len(indent) + len(short) <= _WIDTH):
        return short
    inner = indent + "  "
    lines = [f"{inner}{json.dumps(name)}: {_text_of(value[name], inner)}" for name in sorted(value)]
    return "{\n" + ",\n".join(lines) + f"\n{indent}}}"
