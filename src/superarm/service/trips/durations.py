"""How long trips took: what was reported beside what is believed.

Durations teach times alone, so that none of them puts a trip aside: one that nobody can have driven
is left out, and the outcome says so. Those of a key that are known to be longer or shorter than
others' are compared, and learned, as the others would have measured them.
"""

import math
from dataclasses import dataclass, replace

import numpy as np

from superarm.arrays import Rows, Vector
from superarm.roads.models.intervals import interval_s
from superarm.roads.models.times import TimedDrive, TimePosterior

LIMIT = 5.0
"""Standard deviations, on a logarithmic scale, beyond which a duration is not believed."""

MOST_SPEED_MS = 70.0
_STOOD_S, _STOOD = 120.0, 2.0  # beyond what is expected of a stretch: longer than a red light


@dataclass(frozen=True, eq=False)
class TimeVerdict:
    """What is made of durations.

    Attributes:
        drive: what is left of them, if anything, as they were measured.
        expected_s: of what is left, of this key.
        std_s: its standard deviation.
        note: what was left out, and why, if so.
        fastest_s: the least that it can take.
        factor: how much longer its durations are than others'.
        is_learned: whether durations of this key are.
    """

    drive: TimedDrive | None
    expected_s: float
    std_s: float
    note: str | None
    fastest_s: float = 0.0
    factor: float = 1.0
    is_learned: bool = True

    def of_key(self, reason: str | None) -> "TimeVerdict":
        """Return the verdict of a key whose durations are set aside, if there is a reason."""
        if reason is None or self.drive is None:
            return self
        note = f"durations of this key are set aside, and kept, not learned: {reason}"
        notes = [note] if self.note is None else [note, self.note]
        return replace(self, note="; ".join(notes), is_learned=False)

    def row(self) -> dict[str, object]:
        """Return the columns to store; what is not learned is not counted."""
        if self.drive is None or not self.is_learned:
            return {"measured_s": None}
        measured = float(self.drive.seconds.sum())
        low, high = interval_s(self.expected_s, self.std_s, self.fastest_s)
        return {
            "time_factor": self.factor,
            "measured_s": measured,
            "predicted_s": self.expected_s,
            "predicted_std_s": self.std_s,
            "time_inside": bool(low <= measured <= high),
        }


def judged_times(
    drive: TimedDrive,
    times: TimePosterior,
    before: TimePosterior,
    length_m: Vector,
    factor: float = 1.0,
) -> TimeVerdict:
    """Compare durations with what is expected.

    What can be believed now, or could before anything was learned, is taken: whoever came first
    with wrong durations must not keep the right ones out.

    Args:
        drive: what was timed.
        times: what is believed now.
        before: what was believed before the first trip.
        length_m: of all edges.
        factor: how much longer durations of this key are than others'.
    """
    usual = np.add.reduceat(times.of(drive.places, drive.part, heavy=drive.heavy)[0], drive.starts)
    usual *= factor
    stood = drive.seconds > usual + np.maximum(_STOOD_S, _STOOD * usual)
    notes = []
    if stood.any() and not stood.all():
        drive = drive.only(np.flatnonzero(~stood))
        notes.append(f"{int(stood.sum())} durations look like parking and were left out")
    places: Rows = drive.places
    measured, length = float(drive.seconds.sum()), float(length_m[places].sum())
    seconds, std = times.of(places, drive.part, heavy=drive.heavy)
    expected, std = factor * float(seconds.sum()), factor * std
    reason = _why_not(measured, expected, std, length)
    if reason is not None:
        seconds, wide = before.of(places, drive.part, heavy=drive.heavy)
        first = factor * float(seconds.sum())
        if _why_not(measured, first, factor * wide, length) is not None:
            return TimeVerdict(None, expected, std, f"durations were left out: {reason}")
    least = factor * float(times.model.fastest_s(heavy=drive.heavy)[places].sum())
    return TimeVerdict(drive, expected, std, "; ".join(notes) or None, least, factor)


def _why_not(measured: float, expected: float, std: float, length_m: float) -> str | None:
    if measured <= 0 or length_m / measured > MOST_SPEED_MS:
        return f"nobody drives {length_m:,.0f} m in {measured:.3g} s; durations are in seconds"
    spread = math.sqrt(math.log1p((std / expected) ** 2))
    off = math.log(measured / expected) + spread**2 / 2
    if abs(off) > LIMIT * spread:
        return f"{measured:,.0f} s where {expected:,.0f} s are expected; durations are in seconds"
    return None
