"""Columns of a table as features, and how they were scaled, so that others can be scaled alike."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from superarm.arrays import Matrix

_FEW_LEVELS = 50


@dataclass(frozen=True)
class NumberColumn:
    """A column of numbers: standardised.

    Attributes:
        name: of the column.
        mean: of its values.
        scale: their standard deviation; one for a column that does not vary.
    """

    name: str
    mean: float
    scale: float

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the features made of it."""
        return (self.name,)

    def encoded(self, values: Any) -> Matrix:  # noqa: ANN401 - a series
        """Return one feature."""
        numbers = np.asarray(values.to_numpy(), dtype=np.float64)
        scaled: Matrix = ((numbers - self.mean) / self.scale)[:, None]
        return scaled


@dataclass(frozen=True)
class LevelColumn:
    """A column of categories: one feature per level, zero or one.

    Attributes:
        name: of the column.
        levels: known ones, as text.
    """

    name: str
    levels: tuple[str, ...]

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the features made of it."""
        return tuple(f"{self.name}={level}" for level in self.levels)

    def encoded(self, values: Any) -> Matrix:  # noqa: ANN401 - a series
        """Return one feature per level; a level that was not known has none."""
        texts = np.array([str(value) for value in values.to_list()])
        same: Matrix = (texts[:, None] == np.array(self.levels)).astype(np.float64)
        return same


@dataclass(frozen=True)
class Encoder:
    """How columns become features.

    Attributes:
        columns: in their order.
    """

    columns: tuple[NumberColumn | LevelColumn, ...]

    @classmethod
    def of(cls, frame: Any, names: Sequence[str]) -> "Encoder":  # noqa: ANN401 - a frame
        """Learn from a table how to scale its columns.

        Args:
            frame: a narwhals frame.
            names: which columns.
        """
        if not names:
            msg = "give one feature at least: there is no column beside the ids"
            raise ValueError(msg)
        require_complete(frame, names)
        columns: list[NumberColumn | LevelColumn] = []
        for name in names:
            series = frame[name]
            if series.dtype.is_numeric():
                numbers = np.asarray(series.to_numpy(), dtype=np.float64)
                spread = float(numbers.std())
                columns.append(NumberColumn(name, float(numbers.mean()), spread or 1.0))
            else:
                levels = sorted({str(value) for value in series.to_list()})
                if len(levels) > _FEW_LEVELS:
                    msg = (
                        f"column {name!r} has {len(levels)} different texts; as categories up to "
                        f"{_FEW_LEVELS} make sense. Leave it out, or group them"
                    )
                    raise ValueError(msg)
                columns.append(LevelColumn(name, tuple(levels)))
        return cls(tuple(columns))

    @property
    def features(self) -> tuple[str, ...]:
        """Names of all features, in the order of the contexts."""
        return tuple(name for column in self.columns for name in column.features)

    def encoded(self, frame: Any) -> Matrix:  # noqa: ANN401 - a frame
        """Return the features of every row, shape (n, d)."""
        names = [column.name for column in self.columns]
        require_columns(frame, names)
        require_complete(frame, names)
        return np.concatenate([column.encoded(frame[column.name]) for column in self.columns], 1)


def require_columns(frame: Any, names: Sequence[str]) -> None:  # noqa: ANN401 - a frame
    """Refuse a table without some columns."""
    missing = [name for name in names if name not in frame.columns]
    if missing:
        msg = f"there is no column {missing[0]!r}; there are {', '.join(map(str, frame.columns))}"
        raise ValueError(msg)


def require_complete(frame: Any, names: Sequence[str]) -> None:  # noqa: ANN401 - a frame
    """Refuse missing values, and say where the first one is."""
    for name in names:
        values = frame[name].to_list()
        for row, value in enumerate(values):
            bad = value is None or value != value  # noqa: PLR0124 - only NaN differs from itself
            if bad or (isinstance(value, float) and not np.isfinite(value)):
                msg = (
                    f"column {name!r} has no number or text in row {row} (it is {value}); fill it "
                    "in, or leave the row out"
                )
                raise ValueError(msg)
