"""Beliefs in one line: what they are about, what they have seen, what they weigh."""

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

_UNITS = ("B", "kB", "MB", "GB", "TB")


def told(belief: Any, n_arms: int | None, seen: int, **more: object) -> str:  # noqa: ANN401 - any
    """Return class, number of arms, distinct arms seen and size of a belief."""
    parts = [] if n_arms is None else [f"{n_arms:,} arms"]
    parts += [f"{seen:,} seen", *(f"{name}={value}" for name, value in more.items())]
    return f"{type(belief).__name__}({', '.join(parts)}, {_size(_bytes(belief))})"


def _bytes(value: object) -> int:
    """Return the bytes of all arrays in a value, each counted once."""
    return sum(dict(_arrays(value)).values())


def _arrays(value: object) -> Iterator[tuple[int, int]]:
    """Yield identity and size of every array in a value."""
    if isinstance(value, np.ndarray):
        yield id(value), value.nbytes
    elif hasattr(value, "held_bytes"):
        yield id(value), value.held_bytes
    elif isinstance(value, (tuple, list)):
        for part in value:
            yield from _arrays(part)
    elif is_dataclass(value) and not isinstance(value, type):
        for field in fields(value):
            yield from _arrays(getattr(value, field.name))
    elif hasattr(value, "indptr"):  # a sparse matrix
        yield from _arrays([value.data, value.indices, value.indptr])  # type: ignore[attr-defined] # it has these


def _size(n_bytes: int) -> str:
    number, unit = float(n_bytes), 0
    while number >= 1000 and unit < len(_UNITS) - 1:  # noqa: PLR2004 - a thousand
        number, unit = number / 1000, unit + 1
    return f"{number:.3g} {_UNITS[unit]}"
