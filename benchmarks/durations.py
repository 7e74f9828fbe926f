"""One device whose durations are wrong: by how much the minutes of all others move.

Two devices drive forty routes of a city, 270 trips, and say how long these took. Then a third one
reports thirty trips whose durations are so many times the truth, one by one or all at once. What
routes take is asked before and after, of the same forty routes and of forty others; and what it
would be if every duration was learned as it was reported.

Usage: python benchmarks/run.py durations
"""

import tempfile
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from common import report, say, table

from superarm.arrays import Rows
from superarm.oracles import Dijkstra, Paths
from superarm.roads.models.fleet import Fleet
from superarm.roads.models.likelihood import Reader
from superarm.roads.models.posterior import RoadPosterior
from superarm.roads.models.times import TimedDrive, TimePosterior, TravelTimes
from superarm.roads.network import generate_city
from superarm.service.database import Database
from superarm.service.learning.fold import Fold, Progress
from superarm.service.routes.tokens import RouteTokens
from superarm.service.trips.intake import Intake
from superarm.service.trips.schemas import TripIn
from superarm.service.trips.standings import Standing
from superarm.service.trips.store import TripStore

EDGES, ROUTES, HONEST, ODD, WORLDS = 500, 40, 270, 30, 3
TRIP_EFFECT = 0.1
FACTORS = (3.0, 1.6, 1.3, 0.5)
WHEN = datetime(2026, 3, 1, 12, tzinfo=UTC)


class Fleets:
    """A city, its true times, and a database of trips."""

    def __init__(self, folder: Path, seed: int) -> None:
        """Make them."""
        self._rng = np.random.default_rng(seed)
        self.network = generate_city(seed=3, n_edges=EDGES).largest_component()
        self.fleet = Fleet(self.network)
        self.database = Database(str(folder / "trips.db"))
        self.database.migrate()
        self.database.claim(self.fleet.fingerprint(), demo=False)
        self._store = TripStore(self.database, self.network, self.fleet.n_slots)
        self.reader: Reader[Any] = Reader.of(self.fleet)
        self._intake = Intake(self.network, self.reader, RouteTokens(self.network, b"secret"))
        self._fold = Fold(self.fleet, self.database, lambda _: None)
        self.progress: Progress = self._fold.beginning()
        usual = self.fleet.time_model.limit_s
        self._true_s = usual * np.exp(0.2 + 0.2 * self._rng.standard_normal(usual.size)) + 1
        turns = self.network.turns
        self._paths = Paths.on_turns(usual.size, turns, *(int(e) for e in turns[0]))
        self.routes = [self._route() for _ in range(2 * ROUTES)]
        self._raw: list[TimedDrive] = []

    def _route(self) -> Rows:
        ends = self._rng.choice(self.network.n_edges, 2, replace=False)
        paths = self._paths.between(*(int(end) for end in ends))
        return np.asarray(Dijkstra().select(paths, -self._true_s))

    def report(self, key: str, routes: list[Rows], factor: float = 1.0) -> None:
        """Drive routes, report them all, then let them be learned."""
        now = self.progress.now
        posterior = RoadPosterior.of(self.fleet, now.belief, now.visits, trips=now.trips)
        factors = self.progress.trust.durations.factors()
        posterior = replace(posterior, learned_times=now.times.posterior, time_factors=factors)
        energy = posterior.energy_wh(self.fleet.drivetrain(self.fleet.reference.vehicle))
        how = self.progress.standings.get(key, Standing(key))
        for route in routes:
            took = self._true_s[route].sum() * np.exp(TRIP_EFFECT * self._rng.standard_normal())
            trip = TripIn(
                trip_id=f"t{len(self._raw)}",
                edges=self.network.edge_ids[route].tolist(),
                driven_at=WHEN,
                total_energy_wh=float(energy[route].sum()),
                duration_s=float(factor * took),
            )
            self._raw += [one for one in [self._intake.measured(trip)[0].timed] if one]
            self._store.keep(self._intake.checked([trip], key, key, how, posterior))
        while True:  # without keys that are beyond chance
            self.progress, news = self._fold.further(self.progress)
            if not (news.more or self._fold.judge(self.progress) or news.restart):
                return

    def believed(self) -> TimePosterior:
        """Return what is believed of times."""
        return self.progress.now.times.posterior

    def unchecked(self) -> TimePosterior:
        """Return what would be believed if all durations were learned as they were reported."""
        model = self.fleet.time_model
        return TravelTimes.before(model).after(model.sums(self._raw)).posterior


def minutes(times: TimePosterior, routes: list[Rows]) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return what routes take."""
    seconds = times.seconds(1)
    return np.array([seconds[route].sum() / 60 for route in routes])


def moved(seed: int, factor: float, *, at_once: bool) -> tuple[list[float], bool]:
    """Return the shares by which minutes move, and whether the durations were set aside."""
    with tempfile.TemporaryDirectory() as folder:
        city = Fleets(Path(folder), seed)
        for number in range(HONEST):
            city.report(f"honest {number % 2}", [city.routes[number % ROUTES]])
        before, raw = (minutes(times, city.routes) for times in (city.believed(), city.unchecked()))
        odd = [city.routes[number % ROUTES] for number in range(ODD)]
        for some in [odd] if at_once else [[route] for route in odd]:
            city.report("odd", some, factor)
        change = np.abs(minutes(city.believed(), city.routes) / before - 1)
        other = np.abs(minutes(city.unchecked(), city.routes) / raw - 1)
        aside = city.progress.standings["odd"].durations_aside_at is not None
        city.database.close()
    shares = (change[:ROUTES].mean(), change[ROUTES:].mean(), change.max(), other.mean())
    return [float(share) for share in shares], aside


def main() -> None:
    """Measure and report."""
    rows = []
    for factor in FACTORS:
        for at_once in (False, True):
            say(f"durations times {factor:g}, {'at once' if at_once else 'one by one'}")
            worlds = [moved(seed, factor, at_once=at_once) for seed in range(WORLDS)]
            shares = 100 * np.array([shares for shares, _ in worlds])
            mean = shares.mean(axis=0)
            rows.append(
                {
                    "durations times": factor,
                    "reported": "at once" if at_once else "one by one",
                    "the forty routes (%)": round(float(mean[0]), 2),
                    "forty others (%)": round(float(mean[1]), 2),
                    "one route, at most (%)": round(float(shares[:, 2].max()), 2),
                    "unchecked, mean (%)": round(float(mean[3]), 2),
                    "durations set aside": f"{sum(aside for _, aside in worlds)} of {WORLDS}",
                }
            )
    notes = (
        "Mean absolute change of expected minutes; 30 trips of one device after 270 of two others."
    )
    report(table("Minutes, moved by one device in ten", rows, notes))


if __name__ == "__main__":
    main()
