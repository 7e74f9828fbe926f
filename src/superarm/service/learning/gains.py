"""How far loggers are believed to be off, counted in what chance makes of that."""

from collections.abc import Mapping

import numpy as np

from superarm.beliefs import DenseGP, EnsembleGP
from superarm.roads.models.fleet import GAIN_VARIANCE, Fleet
from superarm.service.trips.standings import Standing

_INFORMED = 0.02


def gains_of(
    fleet: Fleet, belief: DenseGP | EnsembleGP, standings: Mapping[str, Standing]
) -> dict[str, float]:
    """Return the gains of keys over their own deviations, of those that are not vouched for."""
    n_edges = fleet.network.n_edges
    gains = {}
    for name, how in standings.items():
        if how.slot is None or how.is_aside or how.vouched_at is not None:
            continue
        place = n_edges + how.slot
        z = informed(float(belief.mean[place]), float(belief.variance[place]), GAIN_VARIANCE)
        if z is not None:
            gains[name] = z
    return gains


def informed(mean: float, variance: float, prior: float) -> float | None:
    """Return an estimate over its own deviation before the data, or nothing if it says little."""
    learned = prior - variance
    return mean / float(np.sqrt(learned)) if learned > _INFORMED * prior else None
