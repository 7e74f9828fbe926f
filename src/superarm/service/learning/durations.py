"""How durations of keys compare: whose are longer by a factor, and whose are not to be believed.

Times have no gain per key that is learned with the roads, so that a factor is estimated beside
them, relative to what most keys have in common, and every trip is corrected by the one that was
known when it was reported. What goes on to surprise nevertheless is beyond chance.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

import numpy as np

from superarm.service.learning.common import FEWEST_KEYS, MISFIT, in_common, limit_of
from superarm.service.learning.timing import TimeSurprise
from superarm.service.learning.tracks import ENOUGH, MOST_Z, SUM_LIMIT, grow_sum

FACTOR_DEVIATION = 0.1
"""How far durations of keys are apart, on a logarithmic scale, before anything is known."""

MOST_FACTOR = 4.0
"""No durations are corrected by more."""

_RECENT, _MEMORY = 10.0, 100.0
_WORTH = 0.01  # of the logarithm of a factor: smaller ones are left at one


@dataclass(frozen=True)
class TimeTrack:
    """What is remembered of a key's durations.

    Attributes:
        trips: how many there were.
        mean: of the last ten or so surprises.
        square: likewise of their squares.
        up: a sum that rises while they go on to be longer than expected.
        down: likewise shorter.
        information: how much they say about its factor; older ones count less.
        score: the same times the logarithms of the factors they speak for.
    """

    trips: int = 0
    mean: float = 0.0
    square: float = 0.0
    up: float = 0.0
    down: float = 0.0
    information: float = 0.0
    score: float = 0.0

    @property
    def log_factor(self) -> float:
        """How long its durations are beside those expected, as they say themselves."""
        return self.score / self.information if self.information > 0 else 0.0

    def after(self, seen: TimeSurprise, common: float, wild: float) -> "TimeTrack":
        """Return the track with one more trip.

        Args:
            seen: the trip.
            common: how all keys surprise now.
            wild: the squared surprise of trips of all keys, one if the model is right.
        """
        z = float(np.clip(seen.z, -MOST_Z, MOST_Z))
        beyond = (z - common) / wild**0.5
        share = max(1 / _RECENT, 1 / (self.trips + 1))
        keep = 1 - 1 / _MEMORY
        return TimeTrack(
            trips=self.trips + 1,
            mean=(1 - share) * self.mean + share * z,
            square=(1 - share) * self.square + share * z**2,
            up=grow_sum(self.up, beyond),
            down=grow_sum(self.down, -beyond),
            information=keep * self.information + seen.information,
            score=keep * self.score + seen.score,
        )


@dataclass(frozen=True, eq=False)
class Durations:
    """The tracks of all keys."""

    tracks: Mapping[str, TimeTrack] = field(default_factory=dict)

    def after(self, seen: Sequence[TimeSurprise]) -> "Durations":
        """Return what is remembered after more trips, few of them, in their order."""
        tracks = dict(self.tracks)
        known = self.common, self.wildness
        for one in seen:
            tracks[one.key_id] = tracks.get(one.key_id, TimeTrack()).after(one, *known)
        after = Durations(tracks)
        if after.wildness > MISFIT:  # what was counted by a wrong model says nothing against a key
            calm = {name: replace(track, up=0.0, down=0.0) for name, track in tracks.items()}
            return Durations(calm)
        return after

    def without(self, key_ids: Sequence[str]) -> "Durations":
        """Forget some keys."""
        return Durations({name: t for name, t in self.tracks.items() if name not in key_ids})

    @property
    def _heard(self) -> dict[str, TimeTrack]:
        return {name: track for name, track in self.tracks.items() if track.trips >= ENOUGH}

    @property
    def common(self) -> float:
        """What keys have in common of how they surprise now; zero where nothing tells."""
        return in_common([track.mean for track in self._heard.values()])

    @property
    def wildness(self) -> float:
        """The squared surprise of trips of most keys; one if the model is right."""
        return max(1.0, in_common([track.square for track in self._heard.values()]))

    def _comparable(self) -> dict[str, TimeTrack]:
        """Return the keys that can be compared with two others at least."""
        heard = self._heard
        others = FEWEST_KEYS - 1
        return {
            name: track for name, track in self.tracks.items() if len({*heard} - {name}) >= others
        }

    def factors(self) -> dict[str, float]:
        """Return how much longer durations of keys are than those of most; of others nothing."""
        common = in_common([track.log_factor for track in self._heard.values()])
        found = {}
        for name, track in self._comparable().items():
            off = track.score - track.information * common
            log_factor = off / (track.information + FACTOR_DEVIATION**-2)
            if abs(log_factor) > _WORTH:
                most = float(np.log(MOST_FACTOR))
                found[name] = float(np.exp(np.clip(log_factor, -most, most)))
        return found

    def suspects(self) -> dict[str, str]:
        """Return keys whose durations are beyond chance, and beyond what all have in common."""
        if in_common([track.square for track in self.tracks.values()]) > MISFIT:
            return {}
        comparable = self._comparable()
        common = in_common([track.log_factor for track in self._heard.values()])
        reasons = {}
        offs = {name: _deviations(track, common) for name, track in comparable.items()}
        limit = limit_of(list(offs.values()))
        for name, track in comparable.items():
            longer = track.up > track.down
            if (worst := max(track.up, track.down)) > SUM_LIMIT:
                way = "longer" if longer else "shorter"
                reasons[name] = (
                    f"they go on to be {way} than expected (sum of surprises {worst:.0f}, limit "
                    f"{SUM_LIMIT:g})"
                )
            elif abs(offs[name]) > limit:
                times = float(np.exp(track.log_factor - common))
                reasons[name] = (
                    f"they are {times:.2g} times those of most others, {abs(offs[name]):.1f} "
                    f"deviations off (limit {limit:.1f})"
                )
        return reasons

    def stored(self) -> dict[str, object]:
        """Return plain values."""
        return {name: asdict(track) for name, track in self.tracks.items()}

    @classmethod
    def restored(cls, parts: Mapping[str, Mapping[str, Any]]) -> "Durations":
        """Return what was stored; what another version has noted besides is left."""
        names = {part.name for part in fields(TimeTrack)}
        return cls(
            {
                key: TimeTrack(**{name: track[name] for name in names & set(track)})
                for key, track in parts.items()
            }
        )


def _deviations(track: TimeTrack, common: float) -> float:
    """Return how far a factor is off, in deviations of what would be estimated by chance."""
    off = track.score - track.information * common
    variance = track.information + (track.information * FACTOR_DEVIATION) ** 2
    return off / float(np.sqrt(variance)) if variance > 0 else 0.0
