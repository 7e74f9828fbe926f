"""When a station is open: the part of OpenStreetMap's opening hours that stations use."""

import re
from dataclasses import dataclass

import numpy as np

from superarm.arrays import Vector

_DAYS = ("Mo", "Tu", "We", "Th", "Fr", "Sa", "Su")
_DAY_S, _WEEK_S = 86_400, 7 * 86_400
_LATEST_H, _LAST_MIN = 24, 59
_RULE = re.compile(r"(?:([A-Z][a-z](?:\s*[-,]\s*[A-Z][a-z])*)\s+)?(.+)")
_SPAN = re.compile(r"(\d{1,2}):(\d{2})\s*-\s*(\d{1,2}):(\d{2})")


@dataclass(frozen=True)
class OpeningHours:
    """Spans of a week, in seconds from Monday at midnight, none overlapping; nothing for always.

    >>> shop = OpeningHours.of("Mo-Fr 08:00-18:00; Sa 09:00-12:00")
    >>> (shop.wait_s(3600 * np.array([0.0, 10.0, 24 * 6.0])) / 3600).tolist()
    [8.0, 0.0, 32.0]
    """

    spans: tuple[tuple[int, int], ...] | None = None

    @property
    def always(self) -> bool:
        """Whether it never closes."""
        return self.spans is None

    @classmethod
    def of(cls, text: str) -> "OpeningHours":
        """Read a text like ``24/7``, ``06:00-22:00`` or ``Mo-Fr 08:00-18:00; Sa 09:00-12:00``.

        Raises:
            ValueError: for anything else: holidays, months, conditions in words.
        """
        open_: dict[int, list[tuple[int, int]]] = {}
        rules = [rule.strip() for rule in text.split(";") if rule.strip()]
        for rule in rules or ["24/7"]:
            days, spans = _rule("00:00-24:00" if rule == "24/7" else rule, text)
            for day in days:  # a later rule for the same day replaces what was said before
                open_[day] = spans
        found = sorted(
            (day * _DAY_S + begin, day * _DAY_S + end)
            for day, spans in open_.items()
            for begin, end in spans
        )
        merged = _merged(found)
        return cls() if merged == ((0, _WEEK_S),) else cls(merged)

    def wait_s(self, week_s: Vector) -> Vector:
        """Return how long one waits at the gate who comes at times of the week; for ever, if so."""
        now = np.asarray(week_s, dtype=np.float64) % _WEEK_S
        if not self.spans:
            return np.full_like(now, 0.0 if self.always else np.inf)
        begin, end = np.array(self.spans, dtype=np.float64).T
        ahead = (begin - now[..., None]) % _WEEK_S  # a span over Sunday's midnight ends next week
        open_ = (now[..., None] - begin) % _WEEK_S < end - begin
        return np.where(open_.any(axis=-1), 0.0, ahead.min(axis=-1))


def _rule(rule: str, text: str) -> tuple[list[int], list[tuple[int, int]]]:
    found = _RULE.fullmatch(rule)
    if found is None:
        raise _unknown(text)
    days = list(range(7)) if found[1] is None else _days(found[1], text)
    if found[2].strip() in {"off", "closed"}:
        return days, []
    spans = []
    for part in found[2].split(","):
        span = _SPAN.fullmatch(part.strip())
        if span is None:
            raise _unknown(text)
        if (
            max(int(span[1]), int(span[3])) > _LATEST_H
            or max(int(span[2]), int(span[4])) > _LAST_MIN
        ):
            raise _unknown(text)
        begin, end = (3600 * int(span[i]) + 60 * int(span[i + 1]) for i in (1, 3))
        if end <= begin:  # over midnight
            end += _DAY_S
        spans.append((begin, end))
    return days, spans


def _days(words: str, text: str) -> list[int]:
    found: list[int] = []
    for part in words.split(","):
        names = [name.strip() for name in part.split("-")]
        if any(name not in _DAYS for name in names) or len(names) > 2:  # noqa: PLR2004 - from, to
            raise _unknown(text)
        first, last = _DAYS.index(names[0]), _DAYS.index(names[-1])
        found += [day % 7 for day in range(first, last + 1 if last >= first else last + 8)]
    return found


def _merged(spans: list[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    merged: list[tuple[int, int]] = []
    for begin, end in spans:
        if merged and begin <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((begin, end))
    return tuple(merged)


def _unknown(text: str) -> ValueError:
    return ValueError(
        f"opening hours {text!r} are not understood; write 24/7, or days and times like "
        "Mo-Fr 08:00-18:00; Sa 09:00-12:00"
    )
