"""Databases with trips, and what folds them, without a server."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from services import trip_between
from superarm.roads.models.fleet import Fleet
from superarm.roads.models.likelihood import Reader
from superarm.roads.models.posterior import RoadPosterior
from superarm.roads.network import RoadNetwork
from superarm.service.database import Database
from superarm.service.learning.fold import Fold, Progress
from superarm.service.learning.snapshots import Snapshots
from superarm.service.routes.tokens import RouteTokens
from superarm.service.trips.intake import Intake
from superarm.service.trips.schemas import TripIn
from superarm.service.trips.standings import Standing, all_standings
from superarm.service.trips.store import TripStore

WHEN = datetime(2026, 3, 1, 12, tzinfo=UTC)


class Stored:
    """A database that takes trips as the service does, before anything was learned.

    Trip n is always the same: a walk over the city, of the key n modulo the number of keys, whose
    trips deviate by shares of their own.
    """

    def __init__(self, city: RoadNetwork, url: str, keys: int = 6) -> None:
        self.city, self.url, self.keys = city, url, keys
        self.fleet = Fleet(city)
        self.database = Database(url)
        self.database.migrate()
        self.database.claim(self.fleet.fingerprint(), demo=False)
        self.store = TripStore(self.database, city, self.fleet.n_slots)
        self.intake = Intake(city, Reader.of(self.fleet), RouteTokens(city, b"secret"))
        nothing = np.zeros(city.n_edges)
        self.prior = RoadPosterior.of(self.fleet, self.fleet.prior(), nothing, trips=0)

    def trip(self, number: int, factor: float | None = None) -> tuple[str, TripIn]:
        """Return trip n and its key; with a factor its energy is so many times what it was."""
        rng = np.random.default_rng(number)
        key = number % self.keys
        edges, energies = trip_between(self.city, rng, 12)
        share = float(np.exp((0.02 + 0.02 * key) * rng.standard_normal()))
        energies = [(share if factor is None else factor) * energy for energy in energies]
        said: dict[str, Any] = {"total_energy_wh": sum(energies)}
        if number % 3 == 1:
            said = {"edge_energy_wh": energies}
        name = f"t{number}" if factor is None else f"t{number}x{factor}"
        return f"k{key}", TripIn(trip_id=name, edges=edges, driven_at=WHEN, **said)

    def keep(self, numbers: Iterable[int], factor: float | None = None) -> None:
        """Store trips, be they plausible or not; keys that are set aside are turned away."""
        with self.database.reading() as connection:
            standings = all_standings(connection)
        for number in numbers:
            key, trip = self.trip(number, factor)
            how = standings.get(key, Standing(key))
            (item,) = self.intake.checked([trip], key, key, how, self.prior, widened=100.0)
            outcome = self.store.keep([replace(item, implausible=None)])[0]
            assert outcome.status in {"accepted", "duplicate", "quarantined"}, outcome

    def fold(self) -> "Worker":
        """Return another worker that has read nothing yet."""
        return Worker(self)

    def close(self) -> None:
        self.database.close()


class Worker:
    """What one process knows."""

    def __init__(self, stored: Stored, progress: Progress | None = None) -> None:
        self.told: list[dict[str, object]] = []
        self._stored = stored
        self.fold = Fold(stored.fleet, stored.database, self.told.append)
        self.progress = progress or self.fold.beginning()

    def read(self) -> "Worker":
        """Read all there is."""
        for _ in range(10_000):
            self.progress, news = self.fold.further(self.progress)
            if not news.more and self.progress.now.cursor.epoch >= 0:
                return self
        raise AssertionError

    def restarted(self, folder: Path) -> "Worker":
        """Return a worker that begins with a snapshot of this one."""
        snapshots = self._snapshots(folder)
        snapshots.write(self.progress.base)
        learned, problems = snapshots.newest()
        assert learned is not None
        assert problems == []
        return Worker(self._stored, Progress(learned, learned))

    def _snapshots(self, folder: Path) -> Snapshots:
        fleet, identity = self._stored.fleet, self._stored.database.identity()
        return Snapshots(folder, fleet.fingerprint(), identity, fleet.time_model, fleet.resumed)

    @property
    def posterior(self) -> RoadPosterior:
        """What routes are predicted from."""
        now, trust = self.progress.now, self.progress.trust
        found = RoadPosterior.of(self._stored.fleet, now.belief, now.visits, trips=now.trips)
        return RoadPosterior(
            found.fleet,
            found.belief,
            0,
            now.trips,
            found.std,
            found.counts,
            trust.spread,
            trust.spreads(),
            now.times.posterior,
            trust.durations.factors(),
        )
