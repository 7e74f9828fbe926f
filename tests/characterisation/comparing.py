"""Recorded answers beside those of now: what differs by more than its tolerance, in words."""

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from characterisation.forms import Answer, plain

RECORDED = Path(__file__).resolve().parent / "recorded"
_ABSENT = "nothing"


@dataclass(frozen=True)
class Tolerance:
    """How far numbers may be off.

    Attributes:
        share: of a number; in a list, of the largest number of that list.
        units: absolute, by the innermost name of a field: answers over HTTP are rounded, and what
            lies between two roundings may go either way.
        unit: absolute, of all other fields.
    """

    share: float = 1e-9
    units: Mapping[str, float] = field(default_factory=dict)
    unit: float = 0.0

    def allowance(self, name: str, size: float) -> float:
        """Return how far a number of this size may be off."""
        return self.units.get(name, self.unit) + self.share * size


def read_recorded(file: str) -> dict[str, Answer]:
    """Return the answers of a file, none if there is no such file."""
    path = RECORDED / f"{file}.json"
    if not path.exists():
        return {}
    cases: dict[str, Answer] = json.loads(path.read_text(encoding="utf-8"))
    return cases


def differences(file: str, now: Mapping[str, Answer], tolerance: Tolerance) -> dict[str, list[str]]:
    """Return by case what differs: a line per field, or that only one side has the case."""
    before, lines_by_case = read_recorded(file), dict[str, list[str]]()
    for case in sorted(before.keys() | now.keys()):
        if case not in now:
            lines = [f"{file}/{case}: recorded, but not asked now"]
        elif case not in before:
            lines = [f"{file}/{case}: asked now, but not recorded"]
        else:
            lines = [
                f"{file}/{case}: {name}: recorded {old}, now {new}"
                for name, old, new in _fields(before[case], plain(now[case]), tolerance, "")
            ]
        if lines:
            lines_by_case[case] = lines
    return lines_by_case


def _fields(
    old: object, new: object, tolerance: Tolerance, name: str, size: float | None = None
) -> Iterator[tuple[str, object, object]]:
    """Yield the fields that differ, with both values."""
    if isinstance(old, dict) and isinstance(new, dict):
        for part in sorted(old.keys() | new.keys()):
            values = old.get(part, _ABSENT), new.get(part, _ABSENT)
            yield from _fields(*values, tolerance, f"{name}.{part}" if name else part)
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        # a number that is small by cancellation is no more exact than its neighbours
        sizes = [abs(part) for part in old if _is_number(part)]
        for place, parts in enumerate(zip(old, new, strict=True)):
            yield from _fields(*parts, tolerance, f"{name}[{place}]", max(sizes, default=0.0))
    elif not _is_same(old, new, tolerance, name, size):
        yield name, old, new


def _is_same(old: object, new: object, tolerance: Tolerance, name: str, size: float | None) -> bool:
    if not (_is_number(old) and _is_number(new)) or (isinstance(old, int) and isinstance(new, int)):
        return old == new
    assert isinstance(old, int | float)
    assert isinstance(new, int | float)
    innermost = name.partition("[")[0].rpartition(".")[2]
    allowed = tolerance.allowance(innermost, abs(old) if size is None else size)
    return math.isclose(old, new, rel_tol=0.0, abs_tol=allowed)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
