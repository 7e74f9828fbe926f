"""What is made of a key's trips, in words: what is learned, what is not and why, what to do."""

from dataclasses import dataclass

from superarm.service.learning.common import FEWEST_KEYS, GAIN_LIMIT
from superarm.service.learning.gains import informed
from superarm.service.trips.standings import Standing

_TO_BE_LET_IN = "Look at unit, sign and vehicle, then ask an administrator to let it in again"
_TELLING = 2.0  # deviations of a gain that are worth a word
_WORTH_A_WORD = 0.05  # of a factor of durations
_FEW = 10  # trips, before which none are


@dataclass(frozen=True)
class KeyFacts:
    """What is known of a key.

    Attributes:
        standing: of the key.
        trips: how many were accepted.
        waiting: how many of these the posterior in use does not know yet.
        devices: how many keys have trips that are learned, this one included.
        gain: how far its logger is believed to be off, as a share, if that is known.
        gain_std: how sure that is.
        ratio: measured over predicted energy of its trips, when they were reported.
        time_factor: how much longer its durations are than others'.
    """

    standing: Standing
    trips: int
    waiting: int
    devices: int
    gain: float | None = None
    gain_std: float | None = None
    ratio: float | None = None
    time_factor: float = 1.0

    @property
    def learned(self) -> int:
        """How many of its trips are learned."""
        return 0 if self.standing.is_aside else max(self.trips - self.waiting, 0)

    @property
    def advice(self) -> str | None:
        """What its owner should look at, if anything."""
        if self.standing.is_aside:
            return f"none of its trips is learned: {self.standing.reason}. {_TO_BE_LET_IN}"
        if self.gain is None or self.gain_std is None:
            return None
        if self.devices < FEWEST_KEYS:
            return self._beside_physics
        if self.trips < _FEW or abs(self.gain) < _TELLING * self.gain_std:
            return None
        way = "more" if self.gain > 0 else "less"
        return (
            f"its logger reads about {abs(self.gain):.0%} {way} than those of others; its trips "
            "are corrected for that, and teach the less"
        )

    @property
    def _beside_physics(self) -> str | None:
        """What to say of a key that hardly any other can be compared with."""
        prior = self.standing.source(0.0).deviation
        off = informed(self.gain or 0.0, (self.gain_std or 0.0) ** 2, prior**2)
        if off is None or abs(off) <= GAIN_LIMIT:
            return None
        others = "only one other device" if self.devices == FEWEST_KEYS - 1 else "no other device"
        times = "" if self.ratio is None else f"{self.ratio:.2g} times what was predicted, "
        return (
            f"its trips take {times}{abs(off):.1f} deviations {'more' if off > 0 else 'less'} than "
            f"physics expect, and there is {others} to compare it with. Look at unit (Wh), sign, "
            "vehicle and heights; if these are right, nothing needs to be done"
        )

    @property
    def verdict(self) -> str:
        """What is learned of its trips, and what is not and why, with the advice."""
        advice = self.advice
        if self.standing.is_aside:
            reason = f"None of its {self.trips:,} trips is learned: {self.standing.reason}."
            return f"{reason} {_TO_BE_LET_IN}."
        if not self.trips:
            return "It has reported no trip that could be learned."
        told = f"{self.learned:,} of its {self.trips:,} trips are learned"
        if self.waiting:
            told += f", {self.waiting:,} wait"
        advice = " ".join(f"{one[0].upper()}{one[1:]}." for one in (advice, self._of_times) if one)
        return f"{told}. {advice}".strip()

    @property
    def _of_times(self) -> str | None:
        """What to say of its durations, if anything."""
        if self.standing.durations_aside_at is not None:
            return (
                f"its durations are not learned, its energies are: {self.standing.durations_reason}"
                ". Look at how its logger times trips (seconds, without stops), then ask an "
                "administrator to let it in again"
            )
        if abs(self.time_factor - 1) < _WORTH_A_WORD:
            return None
        way = "longer" if self.time_factor > 1 else "shorter"
        return (
            f"its durations are about {abs(self.time_factor - 1):.0%} {way} than those of others, "
            "and are corrected for that"
        )
