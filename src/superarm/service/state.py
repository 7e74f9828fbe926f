"""All that a running server holds, and what the handlers may do with it."""

import asyncio
import gzip
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np

from superarm.arrays import Rows
from superarm.navigation import RoadNetwork
from superarm.service.database import Database, now_us
from superarm.service.fleet import Fleet
from superarm.service.gate import Refused, logger
from superarm.service.keys import Key, KeyRing
from superarm.service.learner import LearnerSettings
from superarm.service.learning import Current, Learning
from superarm.service.measurements import Reader
from superarm.service.metrics import Metrics
from superarm.service.navigator import Navigator
from superarm.service.rates import RateLimit
from superarm.service.shared import SharedPosteriors
from superarm.service.store import Sums, TripStore
from superarm.service.writing import Writer

_Result = TypeVar("_Result")
_CALIBRATION_S = 2.0
_LOOKUPS_PER_SECOND = 100.0


@dataclass(frozen=True)
class Settings:
    """How to serve.

    Attributes:
        network: the roads.
        database: URL or path.
        state: folder for snapshots; each worker needs its own.
        demo: whether there is a hidden truth to drive on, and no keys.
        snapshot_every: trips between snapshots.
        retain_days: after how many days trips are folded; zero for never.
        route_days: after how many days routes are forgotten that were issued.
        poll_s: how often the learner looks for trips stored by other workers.
        rate: requests per second and key; a batch of trips counts for its trips.
        most_waiting_routes: beyond, requests for routes are turned away.
        most_waiting_writes: beyond, reports are turned away.
        seed: of the random numbers of exploration, for tests.
    """

    network: RoadNetwork
    database: str
    state: Path
    demo: bool = False
    snapshot_every: int = 5_000
    retain_days: float = 0.0
    route_days: float = 30.0
    poll_s: float = 0.5
    rate: float = 500.0
    most_waiting_routes: int = 200
    most_waiting_writes: int = 2_000
    seed: int | None = None


class ServiceState:
    """The parts of a server, started together and ended in the right order."""

    def __init__(self, settings: Settings) -> None:
        """Open the database, and refuse one that belongs to something else."""
        self.settings = settings
        self.network = settings.network
        self.fleet = Fleet(self.network)
        self.fleet.n_features  # noqa: B018 - says at once if the network is too large
        self.database = Database(settings.database)
        self.database.migrate()
        self.database.claim(self.fleet.fingerprint(), demo=settings.demo)
        self.database.adopt_restored_trips()
        self.keys = KeyRing(self.database)
        self.metrics = Metrics()
        self.rates = RateLimit(settings.rate, 4 * settings.rate)
        self._strangers = RateLimit(_LOOKUPS_PER_SECOND, 4 * _LOOKUPS_PER_SECOND)
        self.navigator = Navigator(self.network, self.fleet, settings.seed)
        self.store = TripStore(self.database, self.network, Reader(self.fleet))
        self.current: Current | None = None
        self._router = ThreadPoolExecutor(1, "routing")
        self._waiting = 0
        self._network: bytes | None = None
        self._calibrated: tuple[float, tuple[Sums, Sums] | None] = (-1e9, None)
        self._counted: tuple[float, tuple[int, int]] = (-1e9, (0, 0))

    def start(self) -> None:
        """Start the learner and the writer."""
        settings = self.settings
        settings.state.mkdir(parents=True, exist_ok=True)
        file = settings.state / "network.npz"
        self.network.save(file)
        learner = LearnerSettings(
            network=str(file),
            database=self.database.url,
            snapshots=str(settings.state / "snapshots"),
            handle=-1,
            busy_slot=-1,
            snapshot_every=settings.snapshot_every,
            poll_s=settings.poll_s,
            retain_days=settings.retain_days,
            route_days=settings.route_days,
        )
        shared = SharedPosteriors(self.network.n_edges, self.fleet.n_features)
        self.learning = Learning(learner, shared, self.fleet.noise_std_wh, self._swap, self._note)
        self.writer = Writer(self.store, self.learning.wake, settings.most_waiting_writes)

    def stop(self) -> None:
        """Commit what waits, let the learner write a snapshot, close everything."""
        self.writer.close()
        self.learning.stop()
        self._router.shutdown(wait=True)
        self.database.close()

    def _swap(self, current: Current) -> None:
        # routes are found in one thread: when this has run there, nobody reads the old one
        def swap() -> None:
            self.current = current

        self._router.submit(swap).result()

    @staticmethod
    def _note(text: str) -> None:
        logger.warning(text)

    async def who(self, given: str | None) -> Key:
        """Return whose key this is, or refuse; a demo's visitors need none."""
        if self.settings.demo:
            return Key("demo", "demo", "admin")
        key = None
        if given is not None:
            if self.keys.remembered(given):
                key = self.keys.check(given)
            elif self._strangers.wait_s("all"):
                raise Refused(429, "too many unknown keys; wait", {"retry-after": "1"})
            else:  # looked up in the database
                key = await asyncio.to_thread(self.keys.check, given)
        if key is None:
            detail = "send an API key: Authorization: Bearer superarm.ID.SECRET"
            raise Refused(401, detail, {"www-authenticate": "Bearer"})
        return key

    async def on_router(self, question: Callable[[Current], _Result]) -> _Result:
        """Answer a question in the routing thread, or say that too many wait."""
        if self.current is None:
            raise Refused(503, "the belief is being loaded; try again", {"retry-after": "1"})
        if self._waiting >= self.settings.most_waiting_routes:
            raise Refused(503, "too many requests wait; try again", {"retry-after": "1"})
        self._waiting += 1
        try:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._router, self._asked, question)
        finally:
            self._waiting -= 1

    def _asked(self, question: Callable[[Current], _Result]) -> _Result:
        assert self.current is not None  # noqa: S101 - looked at before
        return question(self.current)

    def network_json(self, edges: Rows | None) -> bytes:
        """Return the roads as packed GeoJSON; the whole network is made once."""
        if edges is not None:
            return gzip.compress(self.navigator.geography.feature_collection(edges), 4)
        if self._network is None:
            everything = np.arange(self.network.n_edges)
            self._network = gzip.compress(self.navigator.geography.feature_collection(everything))
        return self._network

    def counts(self) -> tuple[int, int]:
        """Return how many trips are stored and quarantined, as of at most a second ago."""
        age, known = self._counted
        if time.monotonic() - age > 1.0:
            known = self.store.counts()
            self._counted = (time.monotonic(), known)
        return known

    def calibration(self) -> tuple[Sums, Sums]:
        """Return the sums of whole trips on routes, as of at most two seconds ago."""
        age, known = self._calibrated
        if known is None or time.monotonic() - age > _CALIBRATION_S:
            known = self.store.calibration()
            self._calibrated = (time.monotonic(), known)
        return known

    def lag_s(self) -> float:
        """Return the age of the oldest trip not learned; if there is none, of the last batch."""
        if self.current is None:
            return 0.0
        oldest = self.store.oldest_unlearned_us(self.current.mark)
        return self.current.lag_s if oldest is None else max((now_us() - oldest) / 1e6, 0.0)

    def gauges(self) -> dict[str, tuple[str, float]]:
        """Return what Prometheus shall know."""
        current, (stored, aside) = self.current, self.counts()
        learned = 0 if current is None else current.posterior.trips
        return {
            "trips_stored": ("Trips in the database, folded ones included.", stored),
            "trips_learned": ("Trips the current posterior has learned from.", learned),
            "trips_unlearned": ("Trips stored but not yet learned.", max(stored - learned, 0)),
            "learning_lag_seconds": (
                "Age of the oldest trip not learned; if none, of the last batch when it was.",
                self.lag_s(),
            ),
            "distinct_arms": (
                "Edges that were part of a measurement.",
                0 if current is None else current.distinct,
            ),
            "posterior_version": (
                "Counts the posteriors of the learner.",
                0 if current is None else current.posterior.version,
            ),
            "queue_writes": ("Routes and trips waiting to be committed.", self.writer.waiting),
            "queue_routes": ("Questions waiting for the router.", self._waiting),
            "quarantined_trips": ("Trips put aside as implausible.", aside),
            "learner_restarts_total": ("How often the learner died.", self.learning.restarts),
        }
