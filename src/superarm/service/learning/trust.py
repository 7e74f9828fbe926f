r"""Whom to believe: how surprising the trips of every key have been, and what follows from that.

Every trip is compared with what was predicted before it was learned. What is left of it after the
roads, the key's gain, noise and the trips before it in the same batch is, if the model is right, a
standard normal number z, independent of all others (an innovation of the Kalman filter). Per key
these are kept as

- a mean that forgets (the last ten or so): how the key surprises *now*;
- sums that rise while it goes on to surprise one way, or either (Page's CUSUM of z and of its
  square): a logger that breaks later, numbers that are made up;
- the likelihood of several deviations of what one trip has in common: how noisy the key is;
- a sum that rises while the parts of its trips scatter more than those of others (the squared
  surprises of k spans, jointly, are chi-squared with k degrees of freedom): energy that is shifted
  from some edges to others, whatever the totals.

A key that is off from the first trip shows in its gain, which is learned together with the roads:
before anything is known about it, the estimate over its own deviation is a standard normal number
too. What all keys have in common is not held against any of them: medians over keys are subtracted,
and scatter is counted in that of most keys. Where the median itself is beyond chance the roads have
changed, or the model is wrong; nobody is suspected then.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from superarm.adapting import Health
from superarm.adapting.watching import CERTAIN, Scatter
from superarm.arrays import Vector
from superarm.beliefs import Surprise
from superarm.roads.models.fleet import TRIP_DEVIATION
from superarm.service.learning.common import FEWEST_KEYS, MISFIT, in_common, limit_of
from superarm.service.learning.durations import Durations
from superarm.service.learning.timing import TimeSurprise
from superarm.service.learning.tracks import (
    DEVIATIONS,
    ENOUGH,
    MOST_Z,
    SCATTER_ALLOWANCE,
    SCATTER_LIMIT,
    SQUARE_LIMIT,
    SUM_LIMIT,
    Comparison,
    Track,
)
from superarm.service.trips.device_state import DURATIONS, ENERGIES

DRIFT = 0.5
"""A median over six or more keys of their recent mean surprise beyond this is not chance."""

_AT_ONCE = 8  # trips, after which what all keys have in common is looked at again
_MANY = 6
_COUNTED = 20.0
_TIGHT, _LOOSE = 0.3, 0.5  # of the logarithms of deviations: of a key's around all, of all


@dataclass(frozen=True, eq=False)
class Trust:
    """The tracks of all keys."""

    tracks: Mapping[str, Track] = field(default_factory=dict)
    health: Health = field(default_factory=Health)
    durations: Durations = field(default_factory=Durations)

    def after(self, seen: Sequence[Comparison], timed: Sequence[TimeSurprise] = ()) -> "Trust":
        """Return what is remembered after more trips, in their order.

        Args:
            seen: their energies.
            timed: their durations, as far as they have any.
        """
        trust, durations = self, self.durations
        for begin in range(0, len(seen), _AT_ONCE):
            trust = trust._after_few(seen[begin : begin + _AT_ONCE])
        for begin in range(0, len(timed), _AT_ONCE):
            durations = durations.after(timed[begin : begin + _AT_ONCE])
        return replace(trust, durations=durations)

    def _after_few(self, seen: Sequence[Comparison]) -> "Trust":
        tracks = dict(self.tracks)
        known = self.common, self.spread, self.roughness, self.wildness
        for one in seen:
            tracks[one.key_id] = tracks.get(one.key_id, Track()).after(one, *known)
        after = Trust(tracks, self.health.after(_surprise(seen)))
        if after.wildness > MISFIT:  # what was counted by a wrong model says nothing against a key
            calm = {name: track.begun_again for name, track in tracks.items()}
            return replace(after, tracks=calm)
        return after

    def without(self, key_ids: Sequence[str]) -> "Trust":
        """Forget some keys."""
        kept = {name: track for name, track in self.tracks.items() if name not in key_ids}
        return Trust(kept, durations=self.durations.without(key_ids))

    @property
    def common(self) -> float:
        """What keys have in common of how they surprise now; zero where nothing tells."""
        return in_common([track.mean for track in self._heard])

    @property
    def _heard(self) -> list[Track]:
        return [track for track in self.tracks.values() if track.trips >= ENOUGH]

    @property
    def roughness(self) -> float:
        """How parts of trips of most keys scatter; zero where nothing tells."""
        scatters = [track.scatter for track in self.tracks.values() if track.parted >= ENOUGH]
        return max(1.0, in_common(scatters)) if len(scatters) >= FEWEST_KEYS else 0.0

    @property
    def wildness(self) -> float:
        """The squared surprise of trips of most keys; one if the model is right."""
        return max(1.0, in_common([track.square for track in self._heard]))

    @property
    def is_misfit(self) -> bool:
        """Whether most keys surprise beyond the model, be it with their first trips."""
        return in_common([track.square for track in self.tracks.values()]) > MISFIT

    @property
    def spread(self) -> float:
        """What trips have in common, as a share: every key counts, none for more than twenty."""
        total = _around(TRIP_DEVIATION, _LOOSE)
        for track in self.tracks.values():
            total = total + np.array(track.likelihood) * min(1.0, _COUNTED / max(track.heard, 1.0))
        return _mean_of(total)

    def spreads(self) -> dict[str, float]:
        """Return the deviation of every key, as a share."""
        usual = _around(self.spread, _TIGHT)
        return {
            name: _mean_of(usual + np.array(track.likelihood))
            for name, track in self.tracks.items()
        }

    def drift(self) -> str | None:
        """Say that most keys are surprised the same way, if so."""
        fewer = max(_MANY / max(len(self._heard), 1), 1.0)
        if abs(self.common) <= DRIFT * fewer**0.5:
            return None
        way = "more" if self.common > 0 else "less"
        return (
            f"most keys report {way} energy than predicted (by {abs(self.common):.1f} deviations): "
            "the roads have changed, or the model does not fit; predictions have been widened"
        )

    def contradiction(self) -> str | None:
        """Say that trips of all keys together scatter more than the model allows, if so.

        Less is no alarm: what trips have in common is never taken for less than usual.
        """
        more = self.health.more
        if more.level < CERTAIN:
            return None
        return (
            f"the last {more.noise + more.unknown:,.0f} trips scatter {more.times:.2g} times as "
            "much as predicted: the roads, the vehicles or what keys measure are not as the model "
            "has them"
        )

    def suspects(self, gains: Mapping[str, float]) -> dict[str, str]:
        """Return keys whose trips surprise beyond chance, and beyond what all have in common.

        Nobody, as long as most keys surprise beyond the model: then it is the model that is wrong.
        A gain alone makes nobody suspect where fewer than three are known: two devices that differ
        do not tell which of them is off, and the only one has nothing to be compared with.

        Args:
            gains: estimated gains over their own deviations, of keys with some information.
        """
        if self.is_misfit:
            return {}
        reasons = {}
        for name, track in self.tracks.items():
            if (reason := self._surprising(track)) is not None:
                reasons[name] = reason
        if len(gains) < FEWEST_KEYS:
            return reasons
        values = np.array(list(gains.values()))
        centre, limit = float(np.median(values)), limit_of(values.tolist())
        for name, value in gains.items():
            if (off := abs(value - centre)) > limit:
                way = "more" if value > centre else "less"
                reasons[name] = (
                    f"its logger reads {way} than those of most others, {off:.1f} deviations off "
                    f"(limit {limit:.1f})"
                )
        return reasons

    def _surprising(self, track: Track) -> str | None:
        """Say what of a key's surprises is beyond chance, if anything."""
        if (worst := max(track.up, track.down)) > SUM_LIMIT:
            way = "above" if track.up > track.down else "below"
            return (
                f"its trips go on to be {way} what was predicted (sum of surprises {worst:.0f}, "
                f"limit {SUM_LIMIT:g})"
            )
        if track.wild > SQUARE_LIMIT:
            return (
                f"its trips scatter more than chance allows (sum of squared surprises "
                f"{track.wild:.0f}, limit {SQUARE_LIMIT:g})"
            )
        if track.rough > SCATTER_LIMIT or self._was_rough(track):
            times = track.scatter / max(self.roughness, 1.0)
            return (
                "the parts of its trips do not fit the roads: they scatter "
                f"{times:.1f} times as much as those of most keys"
            )
        return None

    def _was_rough(self, track: Track) -> bool:
        """Say whether a key scattered before it was known what is common."""
        limit = 2 * SCATTER_ALLOWANCE * self.roughness
        return track.parted >= ENOUGH and 0 < limit < track.scatter

    def stored(self) -> dict[str, object]:
        """Return plain values."""
        devices = {name: asdict(track) for name, track in self.tracks.items()}
        parts = {ENERGIES: devices, DURATIONS: self.durations.stored()}
        return parts | {"health": asdict(self.health)}

    @classmethod
    def restored(cls, parts: Mapping[str, Any]) -> "Trust":
        """Return trust from plain values; nothing is known where there are none."""
        tracks = {name: Track.restored(one) for name, one in parts.get(ENERGIES, {}).items()}
        durations = Durations.restored(parts.get(DURATIONS, {}))
        if not (told := dict(parts.get("health", {}))):
            return cls(tracks, durations=durations)
        more, less = (Scatter(**told.pop(name)) for name in ("more", "less"))
        return cls(tracks, Health(**told, more=more, less=less), durations)


def _surprise(seen: Sequence[Comparison]) -> Surprise:
    """Return the surprises of a batch, as all agents of the library are watched by."""
    z = np.clip([one.z for one in seen], -MOST_Z, MOST_Z)
    unknown = np.array([one.unknown for one in seen])
    density = -0.5 * float((z**2 + np.log(2 * np.pi)).sum())
    return Surprise(density, z, unknown)


def _around(centre: float, width: float) -> Vector:
    """Return the logarithm of a prior of deviations."""
    logs: Vector = np.log(np.array(DEVIATIONS) / centre)
    return -0.5 * (logs / width) ** 2


def _mean_of(log_weights: Vector) -> float:
    weights = np.exp(log_weights - log_weights.max())
    return float(np.exp((weights @ np.log(DEVIATIONS)) / weights.sum()))
