"""What is remembered of the trips of one key: sums and means of how they surprised."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

DEVIATIONS = (0.02, 0.04, 0.07, 0.11, 0.15, 0.2, 0.27, 0.36, 0.5, 0.7, 1.0)
"""What trips of one key may have in common, as a share: one of these."""

SUM_ALLOWANCE, SUM_LIMIT = 0.75, 12.0
"""Surprises count beyond the first; a sum beyond the second is not chance (once in e^18 trips)."""

SQUARE_ALLOWANCE, SQUARE_LIMIT = 2.5, 40.0
"""Likewise of squared surprises, whose mean is one."""

SCATTER_ALLOWANCE, SCATTER_LIMIT = 2.0, 12.0
"""Parts of trips may vary so many times as much as those of most keys; a sum of more is no
chance. One trip counts for five at most, so that it takes three."""

ENOUGH = 5
"""Fewer trips do not tell how a key surprises."""

MOST_Z = 5.0
"""No trip counts for more deviations."""

_RECENT = 10.0
_MEMORY = 100.0
_MOST_OF_ONE = 5.0


def grow_sum(total: float, surprise: float) -> float:
    """Return a cumulative sum that rises while surprises go on to be beyond the allowance."""
    return max(0.0, total + surprise - SUM_ALLOWANCE)


@dataclass(frozen=True)
class Comparison:
    """One trip against its prediction.

    Attributes:
        key_id: who measured.
        z: the surprise that is its own.
        off_wh: measured minus predicted, given the trips before it.
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
    """What is remembered of a key's surprises.

    Attributes:
        trips: how many there were.
        mean: of the last ten or so surprises.
        up: a sum that rises while the key goes on to be above what is predicted.
        down: likewise below.
        wild: a sum that rises while squared surprises are more than those of most keys.
        heard: how many trips the likelihood is of, older ones counting less.
        likelihood: logarithm of that of every one of `DEVIATIONS`, up to a constant.
        parted: how many trips had parts.
        scatter: mean squared surprise of the parts of the last ten or so.
        rough: a sum that rises while parts scatter more than those of most keys.
        square: mean squared surprise of the last ten trips or so.
    """

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
    square: float = 0.0

    def after(
        self,
        seen: Comparison,
        common: float,
        usual: float,
        rough: float = 0.0,
        wild: float = 1.0,
    ) -> "Track":
        """Return the track with one more trip.

        Args:
            seen: the trip.
            common: how all keys surprise now.
            usual: what trips of all keys have in common.
            rough: how much the parts of trips of all keys scatter; zero if that is not known.
            wild: the squared surprise of trips of all keys, one if the model is right.
        """
        beside = seen.variance + (usual * seen.magnitude_wh) ** 2
        square = min(seen.off_wh**2 / beside, MOST_Z**2)
        z = float(np.clip(seen.z, -MOST_Z, MOST_Z))
        beyond = (z - common) / wild**0.5
        share = max(1 / _RECENT, 1 / (self.trips + 1))
        return Track(
            trips=self.trips + 1,
            mean=(1 - share) * self.mean + share * z,
            up=grow_sum(self.up, beyond),
            down=grow_sum(self.down, -beyond),
            wild=max(0.0, self.wild + square / wild - SQUARE_ALLOWANCE - common**2),
            square=(1 - share) * self.square + share * square,
            **self._noisy(seen),
            **self._scattered(seen, rough),
        )

    @property
    def begun_again(self) -> "Track":
        """The track with nothing held against the key."""
        return replace(self, up=0.0, down=0.0, wild=0.0, rough=0.0)

    def _noisy(self, seen: Comparison) -> dict[str, Any]:
        """Return what is remembered of what trips have in common."""
        variance = seen.variance + (np.array(DEVIATIONS) * seen.magnitude_wh) ** 2
        off = min(seen.off_wh**2, MOST_Z**2 * float(variance.max()))
        density = -0.5 * (np.log(variance) + off / variance)
        keep = 1 - 1 / _MEMORY
        total = keep * np.array(self.likelihood) + density - density.max()
        return {"heard": keep * self.heard + 1, "likelihood": tuple(total.tolist())}

    def _scattered(self, seen: Comparison, rough: float) -> dict[str, Any]:
        """Return what is remembered of how parts of trips scatter."""
        if not seen.spans:
            return {"parted": self.parted, "scatter": self.scatter, "rough": self.rough}
        each = min(seen.scatter / seen.spans, MOST_Z**2 * max(rough, 1.0))
        share = max(1 / _RECENT, 1 / (self.parted + 1))
        more = 0.0
        if rough > 0:
            more = (each / rough - SCATTER_ALLOWANCE) * (seen.spans / 8) ** 0.5
        return {
            "parted": self.parted + 1,
            "scatter": (1 - share) * self.scatter + share * each,
            "rough": max(0.0, self.rough + min(more, _MOST_OF_ONE)),
        }

    @classmethod
    def restored(cls, parts: Mapping[str, Any]) -> "Track":
        """Return a track from plain values; what another version has noted besides is left."""
        names = {field.name for field in fields(cls)} & set(parts)
        known = {name: parts[name] for name in names}
        return cls(**(known | {"likelihood": tuple(parts["likelihood"])}))
