r"""Can this have been measured? A report against the joint posterior predictive of what it says.

The total of a report is expected to be :math:`\mu \pm \sigma`: roads, the gain of the key, noise
and what one trip has in common, jointly. What a vehicle dissipates is never negative and varies in
proportion, so that the lower limit is taken on a logarithmic scale, of the energy or of what was
dissipated, whichever is more lenient; the upper one is :math:`\mu + 5.5\,\sigma`. Besides, a report
is compared with what common mistakes would have made of the same trip: kWh for Wh lands within a
few Wh of zero, where hardly any honest trip does, however little is known about the roads.
"""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from superarm.arrays import Rows
from superarm.roads.models.likelihood import MeasuredTrip, Reader, Source
from superarm.roads.models.posterior import RoadPosterior
from superarm.roads.vehicle import CLASSES

LIMIT = 5.5
"""Standard deviations beyond which a total is not believed."""

SPAN_LIMIT = 6.0
"""Likewise of one span of several, which is left out alone."""

LEAST_SPREAD = 0.1
"""The gate allows trips to deviate by this share at least, however alike they have been."""

MOST_LEFT_OUT = 0.5
"""If more than this share of the spans is implausible, so is the trip."""

MISTAKES = {
    "looks like kWh where Wh are meant": (1e-3, 10.0),
    "looks like kJ where Wh are meant": (3.6, 10.0),
    "has the wrong sign (energy taken from the battery is positive)": (-1.0, 100.0),
}
"""What was reported over what was used, and how much likelier that must be than an honest report:
more for the sign, which honest trips downhill may have."""

_ODDS_OF_ZERO = 100.0
_ODDS_OF_CLASS = 10_000.0
_ODD_ENOUGH = 3.0  # of the logarithm of a density: two standard deviations off
_FITTING = 2.5
_TELLING = 0.3
_OTHER_SIZE = 2.5
_ZERO_WH = 0.5
_LONG = 100.0
_HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)


@dataclass(frozen=True, eq=False)
class Verdict:
    """What is made of a report.

    Attributes:
        trip: what is left of it.
        left_out: spans that were not plausible, by their positions in the report.
        expected_wh: of what is left.
        std_wh: its standard deviation.
        reason: why none of it is believed, if so.
        worst: how many deviations its worst span, or all of it, is off.
    """

    trip: MeasuredTrip
    left_out: Rows
    expected_wh: float
    std_wh: float
    reason: str | None
    worst: float = 0.0

    @property
    def z(self) -> float:
        """How many standard deviations the total is off; of nothing that was measured none."""
        if self.std_wh == 0:
            return 0.0
        return (self.trip.measured_wh - self.expected_wh) / self.std_wh


def judged(
    trip: MeasuredTrip,
    source: Source,
    posterior: RoadPosterior,
    reader: Reader[Any],
    widened: float = 1.0,
) -> Verdict:
    """Compare a report with what is expected.

    Args:
        trip: what was measured.
        source: by whom.
        posterior: what is believed now.
        reader: knows the vehicles.
        widened: multiplies deviations, where the model is known to be off.
    """
    if not trip.first.size:  # it says how long it took, and no more
        return Verdict(trip, _NONE, 0.0, 0.0, None)
    allowed = replace(source, spread=max(source.spread, LEAST_SPREAD))
    spans = reader.spans(trip)
    mean, std, total = posterior.spans_of(spans, allowed)
    if not (np.isfinite(mean).all() and np.isfinite(std).all() and 0 < total < math.inf):
        return Verdict(trip, _NONE, 0.0, 1.0, "nothing can be expected of this vehicle here")
    worst = float((np.abs(trip.energies_wh - mean) / std).max())
    worst = max(worst, abs(trip.measured_wh - float(mean.sum())) / total)
    odd = ~(np.abs(trip.energies_wh - mean) <= SPAN_LIMIT * widened * std)
    left = np.flatnonzero(odd) if trip.first.size > 1 else _NONE
    if left.size > MOST_LEFT_OUT * trip.first.size:
        one = int(left[0])
        many = (
            f"{left.size} of {trip.first.size} measurements are not plausible; the first one is "
            f"{_wh(trip.energies_wh[one])}, where {_wh(mean[one])} are expected"
        )
        return Verdict(trip, left, float(mean.sum()), total, many, worst)
    kept = trip
    if left.size:
        kept = trip.only(np.flatnonzero(~odd))
        spans = reader.spans(kept)
        mean, std, total = posterior.spans_of(spans, allowed)
    expected, potential = float(mean.sum()), float((spans.energy_wh - spans.cost_wh).sum())
    reason = why_not(kept.measured_wh, expected, widened * total, potential)
    reason = reason or _other_class(kept, expected, widened * total, posterior, reader)
    # what is compared with what was said is what was said, not what the gate allows
    spread = total if allowed == source else posterior.spans_of(spans, source)[2]
    return Verdict(kept, left, expected, spread, reason, worst)


def why_not(measured: float, expected: float, std: float, potential: float) -> str | None:
    """Say why a total cannot be believed, if so.

    Args:
        measured: what was reported, in Wh.
        expected: of the same spans.
        std: its standard deviation.
        potential: what of the expectation is height, which no road changes.
    """
    honest = _log_density_of_honest(measured, expected, std)
    for words, (factor, odds) in MISTAKES.items():
        meant = measured / factor
        if abs(meant - expected) > _FITTING * std or abs(expected) < _TELLING * std:
            continue  # it would not fit either, or hardly differ
        if meant * expected < 0:
            continue  # a wrong unit does not turn what the battery gives into what it takes
        mistaken = _log_density(meant, expected, std) - math.log(abs(factor))
        if mistaken - honest > math.log(odds):
            return f"{_wh(measured)} {words}; {_wh(expected)} are expected"
    if abs(measured) < _ZERO_WH and -honest > math.log(_ODDS_OF_ZERO):
        return f"{_wh(measured)} is no measurement; {_wh(expected)} are expected"
    low, high = limits(expected, std, potential)
    if low <= measured <= high:
        return None
    return (
        f"{_wh(measured)} is not plausible: between {_wh(low)} and {_wh(high)} are expected of "
        "this vehicle on these edges; check unit (Wh), sign and vehicle"
    )


def _other_class(
    trip: MeasuredTrip, expected: float, std: float, posterior: RoadPosterior, reader: Reader[Any]
) -> str | None:
    """Say which class of vehicle a report fits far better than its own, if there is one."""
    honest = _log_density(trip.measured_wh, expected, std)
    if honest + math.log(std) > -_ODD_ENOUGH:
        return None
    for name, vehicle in CLASSES.items():
        spans = reader.spans(replace(trip, vehicle=vehicle))
        energy = float(posterior.expected_wh(spans).sum())
        ratio = abs(energy) / max(abs(expected), 1e-9)
        if 1 / _OTHER_SIZE < ratio < _OTHER_SIZE or ratio == 0:
            continue  # too much alike to be told apart
        fits = _log_density(trip.measured_wh, energy, std * ratio)
        if fits - honest > math.log(_ODDS_OF_CLASS):
            return (
                f"{_wh(trip.measured_wh)} fits a {name} ({_wh(energy)} expected), not this vehicle "
                f"({_wh(expected)} expected)"
            )
    return None


def limits(expected: float, std: float, potential: float) -> tuple[float, float]:
    """Return between which totals a report is believed."""
    dissipated = expected - potential
    low = min(_shrunk(expected, std), potential + _shrunk(dissipated, std))
    return low, expected + LIMIT * std


def _shrunk(value: float, std: float) -> float:
    return value * math.exp(-LIMIT * std / value) if value > 0 else value - LIMIT * std


def _log_density(value: float, mean: float, std: float) -> float:
    z = (value - mean) / std
    return -0.5 * z * z - math.log(std) - _HALF_LOG_2PI


def _log_density_of_honest(value: float, mean: float, std: float) -> float:
    """Return a log density with the upper tail of what varies in proportion."""
    plain = _log_density(value, mean, std)
    if not 0 < mean < value:
        return plain
    width = std / mean
    z = math.log(value / mean) / width
    return max(plain, -0.5 * z * z - math.log(value * width) - _HALF_LOG_2PI)


def _wh(value: float) -> str:
    return f"{value:.3g} Wh" if abs(value) < _LONG else f"{value:,.0f} Wh"


_NONE: Rows = np.empty(0, dtype=np.intp)
