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
and where the median itself is beyond chance the roads have changed, or the model is wrong.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from superarm.adapting import Health
from superarm.adapting.watching import CERTAIN
from superarm.arrays import Vector
from superarm.beliefs import Surprise
from superarm.service.model.fleet import TRIP_DEVIATION

DEVIATIONS = (0.02, 0.04, 0.07, 0.11, 0.15, 0.2, 0.27, 0.36, 0.5, 0.7, 1.0)
"""What trips of one key may have in common, as a share: one of these."""

GAIN_LIMIT = 4.0
"""A gain so many standard deviations off is not chance."""

SUM_ALLOWANCE, SUM_LIMIT = 0.75, 12.0
"""Surprises count beyond the first; a sum beyond the second is not chance (once in e^18 trips)."""

SQUARE_ALLOWANCE, SQUARE_LIMIT = 2.5, 40.0
"""Likewise of squared surprises, whose mean is one."""

SCATTER_ALLOWANCE, SCATTER_LIMIT = 2.0, 12.0
"""Parts of trips may vary so many times as much as those of most keys; a sum of more is no
chance. One trip counts for five at most, so that it takes three."""

DRIFT = 0.5
"""A median over six or more keys of their recent mean surprise beyond this is not chance."""

FEWEST_KEYS = 3
"""Fewer keys do not tell what is common."""

_RECENT = 10.0
_MANY = 6
_MEMORY = 100.0
_COUNTED = 20.0
_ENOUGH = 5
_MOST_Z = 5.0
_MOST_OF_ONE = 5.0
_TIGHT, _LOOSE = 0.3, 0.5  # of the logarithms of deviations: of a key's around all, of all
_INFORMED = 0.02


@dataclass(frozen=True)
class Comparison:
    """One trip against its prediction.

    Attributes:
        key_id: who measured.
        z: the surprise that is its own.
        off_wh: measured minus predicted.
        variance: of that, without what the trip has in common.
        magnitude_wh: what the trip has in common is a share of this.
        scatter: the sum of squared surprises of its spans, jointly.
        spans: how many these are; none if the trip has but one.
        unknown: which share of the predicted variance is of roads that are not known yet.
    """

    key_id: str
    z: float
    off_wh: float
    variance: float
    magnitude_wh: float
    scatter: float = 0.0
    spans: int = 0
    unknown: float = 0.0


@dataclass(frozen=True)
class Track:
    """What is remembered of a key's surprises."""

    trips: int = 0
    mean: float = 0.0
    up: float = 0.0
    down: float = 0.0
    wild: float = 0.0
    heard: float = 0.0
    likelihood: tuple[float, ...] = (0.0,) * len(DEVIATIONS)
    parted: int = 0
    scatter: float = 0.0
    rough: float = 0.0

    def after(self, seen: Comparison, common: float, usual: float, rough: float = 0.0) -> "Track":
        """Return the track with one more trip.

        Args:
            seen: the trip.
            common: how all keys surprise now.
            usual: what trips of all keys have in common; a wild key is wild beside the others.
            rough: how much the parts of trips of all keys scatter; zero if that is not known.
        """
        beside = seen.variance + (usual * seen.magnitude_wh) ** 2
        square = min(seen.off_wh**2 / beside, _MOST_Z**2)
        z = float(np.clip(seen.z, -_MOST_Z, _MOST_Z))
        share = max(1 / _RECENT, 1 / (self.trips + 1))
        variance = seen.variance + (np.array(DEVIATIONS) * seen.magnitude_wh) ** 2
        off = min(seen.off_wh**2, _MOST_Z**2 * float(variance.max()))
        one = -0.5 * (np.log(variance) + off / variance)
        keep = 1 - 1 / _MEMORY
        return Track(
            trips=self.trips + 1,
            mean=(1 - share) * self.mean + share * z,
            up=max(0.0, self.up + (z - common) - SUM_ALLOWANCE),
            down=max(0.0, self.down - (z - common) - SUM_ALLOWANCE),
            wild=max(0.0, self.wild + square - SQUARE_ALLOWANCE - common**2),
            heard=keep * self.heard + 1,
            likelihood=tuple((keep * np.array(self.likelihood) + one - one.max()).tolist()),
            **self._scattered(seen, rough),
        )

    def _scattered(self, seen: Comparison, rough: float) -> dict[str, Any]:
        """Return what is remembered of how parts of trips scatter."""
        if not seen.spans:
            return {"parted": self.parted, "scatter": self.scatter, "rough": self.rough}
        each = min(seen.scatter / seen.spans, _MOST_Z**2 * max(rough, 1.0))
        share = max(1 / _RECENT, 1 / (self.parted + 1))
        more = 0.0
        if rough > 0:
            more = (each / rough - SCATTER_ALLOWANCE) * (seen.spans / 8) ** 0.5
        return {
            "parted": self.parted + 1,
            "scatter": (1 - share) * self.scatter + share * each,
            "rough": max(0.0, self.rough + min(more, _MOST_OF_ONE)),
        }


@dataclass(frozen=True, eq=False)
class Trust:
    """The tracks of all keys."""

    tracks: Mapping[str, Track] = field(default_factory=dict)
    health: Health = field(default_factory=Health)

    def after(self, seen: Sequence[Comparison]) -> "Trust":
        """Return what is remembered after more trips, in their order."""
        tracks = dict(self.tracks)
        common, usual, rough = self.common, self.spread, self.roughness
        for one in seen:
            track = tracks.get(one.key_id, Track())
            tracks[one.key_id] = track.after(one, common, usual, rough)
        return Trust(tracks, self.health.after(_surprise(seen)))

    def without(self, key_ids: Sequence[str]) -> "Trust":
        """Forget some keys."""
        return Trust({name: track for name, track in self.tracks.items() if name not in key_ids})

    @property
    def common(self) -> float:
        """The median over keys of how they surprise now; zero as long as few have been heard."""
        means = self._means()
        return float(np.median(means)) if len(means) >= FEWEST_KEYS else 0.0

    def _means(self) -> list[float]:
        return [track.mean for track in self.tracks.values() if track.trips >= _ENOUGH]

    @property
    def roughness(self) -> float:
        """The median over keys of how parts of trips scatter; zero as long as few were heard."""
        found = [track.scatter for track in self.tracks.values() if track.parted >= _ENOUGH]
        return max(1.0, float(np.median(found))) if len(found) >= FEWEST_KEYS else 0.0

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
        fewer = max(_MANY / max(len(self._means()), 1), 1.0)
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
            f"trips scatter {more.times:.2g} times as much as predicted, since batch "
            f"{more.batch + 1} of this process: the roads, the vehicles or what keys measure are "
            "not as the model has them"
        )

    def suspects(self, gains: Mapping[str, float]) -> dict[str, str]:
        """Return keys whose trips surprise beyond chance, and beyond what all have in common.

        Args:
            gains: estimated gains over their own deviations, of keys with some information.
        """
        found = {}
        for name, track in self.tracks.items():
            worst = max(track.up, track.down)
            if worst > SUM_LIMIT:
                way = "above" if track.up > track.down else "below"
                found[name] = (
                    f"its trips go on to be {way} what was predicted (sum of surprises "
                    f"{worst:.0f}, limit {SUM_LIMIT:g})"
                )
            elif track.wild > SQUARE_LIMIT:
                found[name] = (
                    f"its trips scatter more than chance allows (sum of squared surprises "
                    f"{track.wild:.0f}, limit {SQUARE_LIMIT:g})"
                )
            elif track.rough > SCATTER_LIMIT or self._was_rough(track):
                found[name] = (
                    "the parts of its trips do not fit the roads: they scatter "
                    f"{track.scatter / max(self.roughness, 1.0):.1f} times as much as those of "
                    "most keys"
                )
        values = np.array(list(gains.values()))
        centre, scale = 0.0, 1.0
        if values.size >= FEWEST_KEYS:
            centre = float(np.median(values))
            scale = max(1.0, 1.4826 * float(np.median(np.abs(values - centre))))
        for name, value in gains.items():
            if abs(value - centre) > GAIN_LIMIT * scale:
                found[name] = (
                    f"its logger reads {'more' if value > centre else 'less'} than all others, "
                    f"{abs(value - centre):.1f} deviations off (limit {GAIN_LIMIT * scale:.1f})"
                )
        return found

    def _was_rough(self, track: Track) -> bool:
        """Say whether a key scattered before it was known what is common."""
        limit = 2 * SCATTER_ALLOWANCE * self.roughness
        return track.parted >= _ENOUGH and 0 < limit < track.scatter

    def stored(self) -> dict[str, object]:
        """Return plain values."""
        return {name: asdict(track) for name, track in self.tracks.items()}

    @classmethod
    def restored(cls, parts: Mapping[str, Any]) -> "Trust":
        """Return trust from plain values."""
        return cls(
            {
                name: replace(Track(**track), likelihood=tuple(track["likelihood"]))
                for name, track in parts.items()
            }
        )


def _surprise(seen: Sequence[Comparison]) -> Surprise:
    """Return the surprises of a batch, as all agents of the library are watched by."""
    z = np.clip([one.z for one in seen], -_MOST_Z, _MOST_Z)
    unknown = np.array([one.unknown for one in seen])
    density = -0.5 * float((z**2 + np.log(2 * np.pi)).sum())
    return Surprise(density, z, unknown)


def informed(mean: float, variance: float, prior: float) -> float | None:
    """Return an estimate over its own deviation before the data, or nothing if it says little."""
    learned = prior - variance
    return mean / float(np.sqrt(learned)) if learned > _INFORMED * prior else None


def _around(centre: float, width: float) -> Vector:
    """Return the logarithm of a prior of deviations."""
    logs: Vector = np.log(np.array(DEVIATIONS) / centre)
    return -0.5 * (logs / width) ** 2


def _mean_of(log_weights: Vector) -> float:
    weights = np.exp(log_weights - log_weights.max())
    return float(np.exp((weights @ np.log(DEVIATIONS)) / weights.sum()))
