"""All that a running server holds, and what the handlers may do with it."""

import asyncio
import gc
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar, get_args
from zoneinfo import ZoneInfo

import numpy as np

from superarm.errors import InfeasibleError
from superarm.oracles.reach import Tree
from superarm.roads.charging import Station, StationPlaces
from superarm.roads.models.fleet import KNOWN, Fleet, fingerprint_of, require_size
from superarm.roads.models.likelihood import Reader
from superarm.roads.network.network import RoadNetwork
from superarm.roads.routing.query import Mode, RouteQuery
from superarm.roads.vehicle import CLASSES, Vehicle
from superarm.service.database import Database, now_us
from superarm.service.http.alarms import Alarms
from superarm.service.http.answers import packed
from superarm.service.http.connections import Limits
from superarm.service.http.keys import Key, KeyRing
from superarm.service.http.metrics import Gauges, Metrics
from superarm.service.http.prices import REQUEST_S, is_long, most_steps
from superarm.service.http.rates import BURST_S, RateLimit
from superarm.service.http.refused import Refused
from superarm.service.http.surprises import Surprises
from superarm.service.http.turns import FullError, Turns, Work
from superarm.service.http.watching import Watch
from superarm.service.learning.learner import LearnerSettings
from superarm.service.learning.process import Current, Learning, Posteriors
from superarm.service.learning.shared import SharedPosteriors
from superarm.service.routes.navigator import Navigator, Question
from superarm.service.routes.tokens import RouteTokens
from superarm.service.trips.intake import MOST_SUGGESTIONS, Checked, Intake
from superarm.service.trips.schemas import TripIn, TripOutcome
from superarm.service.trips.standings import Standing, set_aside
from superarm.service.trips.store import Sums, TripStore
from superarm.service.trips.traces import TraceIn, TraceOutcome, TraceReader, prepare
from superarm.service.trips.writing import Writer

logger = logging.getLogger("superarm.service")

_Result = TypeVar("_Result")
_FRESH_S = 2.0
_STRANGERS_PER_SECOND = 50.0
_LOOKS_PER_SECOND = 4.0
_WARM_UPS = 20
_NEAR_S = 180.0  # how far apart the ends of warm-up routes are on large networks
_WORK_OF_TRIP, _WORK_OF_SLICE = 100, 5_000
_MOST_TRACES, _TRACES_OF_KEY = 64, 8  # that wait to be matched, in all and of one key


def slices(trips: Sequence[TripIn]) -> Iterator[list[TripIn]]:
    """Yield trips in pieces that take about as long to look at."""
    some: list[TripIn] = []
    work = 0
    for trip in trips:
        some.append(trip)
        work += _WORK_OF_TRIP + len(trip.edges or ())
        if work >= _WORK_OF_SLICE:
            yield some
            some, work = [], 0
    if some:
        yield some


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
        poll_s: how often the learner looks for trips stored by other workers.
        rate: requests per second and key; a batch of trips counts for its trips.
        most_waiting_routes: beyond, requests for routes are turned away; half of them of one key.
        most_waiting_writes: beyond, reports are turned away.
        limits: of connections.
        seed: of the random numbers of exploration, for tests.
        keep_traces: folder in which GPS traces are kept as they were sent; by default none is.
        timezone: in which the roads are, like ``Europe/Luxembourg``; by default times of day are
            as requests and reports write them.
        stations: where one can charge.
        tiles: where the page's background comes from, a template with {z}, {x} and {y}; none is
            needed.
        tiles_attribution: whose it is, shown on the map.
    """

    network: RoadNetwork
    database: str
    state: Path
    demo: bool = False
    snapshot_every: int = 5_000
    retain_days: float = 0.0
    poll_s: float = 0.5
    rate: float = 500.0
    most_waiting_routes: int = 200
    most_waiting_writes: int = 2_000
    limits: Limits = field(default_factory=Limits)
    seed: int | None = None
    keep_traces: Path | None = None
    timezone: ZoneInfo | None = None
    stations: tuple[Station, ...] = ()
    tiles: str | None = None
    tiles_attribution: str = ""


class ServiceState:
    """The parts of a server, started together and ended in the right order."""

    def __init__(self, settings: Settings) -> None:
        """Open the database, and refuse one that belongs to something else."""
        self.settings = settings
        self.network = settings.network
        require_size(self.network)
        self.database = Database(settings.database)
        self.database.migrate()
        self.database.claim(fingerprint_of(self.network), demo=settings.demo)
        # only now: what another network left beside this database is not to be written over
        self.fleet = Fleet(self.network, settings.state / KNOWN)
        self.database.adopt_restored_trips()
        self.keys = KeyRing(self.database)
        self.metrics = Metrics()
        self.metrics.show(self.gauges)
        self.alarms = Alarms()
        self.surprises = Surprises()
        self.rates = RateLimit(settings.rate, BURST_S * settings.rate)
        self._strangers = RateLimit(_STRANGERS_PER_SECOND, 5 * _STRANGERS_PER_SECOND)
        self._looks = RateLimit(_LOOKS_PER_SECOND, _LOOKS_PER_SECOND)
        tokens = RouteTokens(self.network, self.database.route_secret())
        zone = settings.timezone
        self.navigator = Navigator(self.network, self.fleet, tokens, settings.seed, zone)
        self.stations = StationPlaces.on(self.navigator.geography, settings.stations)
        self.intake = Intake(self.network, Reader.of(self.fleet), tokens, zone)
        self.store = TripStore(self.database, self.network, self.fleet.n_slots)
        self.posteriors = Posteriors()
        self.ready = False
        self._router = Turns("routing", settings.most_waiting_routes)
        self._checker = ThreadPoolExecutor(1, "checking")
        # routes and reports do not wait for it
        self._matcher = Turns("matching", _MOST_TRACES, _TRACES_OF_KEY / _MOST_TRACES)
        self._traces = TraceReader(self.network)
        self._network: bytes | None = None
        self._remembered: dict[str, tuple[float, Any]] = {}

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
        )
        # compiled while the learner starts; the first start on a machine takes ten seconds for it
        self._compiling = self._checker.submit(prepare)
        self.watch = Watch(self.database, self.keys)
        fleet = self.fleet
        shared = SharedPosteriors(fleet.n_arms, fleet.n_draws, fleet.time_model)
        self.learning = Learning(learner, shared, self.fleet, self._swap, self._told)
        self.writer = Writer(
            self.store, self._stored, self.watch.failed, settings.most_waiting_writes
        )

    def stop(self) -> None:
        """Commit what waits, let the learner write a snapshot, close everything."""
        self._checker.shutdown(wait=True)
        self.writer.close()
        self.learning.stop()
        self._router.close()
        self._matcher.close()
        self.watch.close()
        self.database.close()

    # ---- what is believed

    @property
    def current(self) -> Current | None:
        """What is believed now, once something is."""
        return self.posteriors.current

    def _swap(self, current: Current) -> None:
        self.posteriors.swap(current)
        self.alarms.say("drift", current.drift)
        self.alarms.say("contradiction", current.contradiction)
        if not self.ready:
            if error := self._compiling.exception():
                logger.error("traces cannot be matched", exc_info=error)
            self._router.now(self._warm_up)
            # what is there now stays: looking through all of it again takes tenths of a second
            gc.collect()
            gc.freeze()
            self.ready = True

    def _warm_up(self) -> None:
        """Answer some questions before anybody asks: what is compiled and cached on first use."""
        rng, modes = np.random.default_rng(0), get_args(Mode)
        with self.posteriors.reading() as current:
            for number in range(_WARM_UPS):
                start, goal = self._somewhere(rng)
                mode = modes[number % len(modes)]
                query = RouteQuery(start=start, goal=goal, mode=mode, alternatives=number % 3)
                vehicle = list(CLASSES.values())[number % len(CLASSES)]
                try:
                    issued, _ = self.navigator.route(
                        Question(query, vehicle, datetime.now(UTC), None, None),
                        current.posterior,
                    )
                except InfeasibleError:  # a network may have places nothing leads to
                    continue
                trip = TripIn(
                    trip_id="warm-up",
                    route_id=self.navigator.tokens.written(issued),
                    driven_at="2026-01-01T00:00:00Z",  # type: ignore[arg-type]
                    total_energy_wh=issued.mean_wh,
                    duration_s=600.0,
                )
                self.intake.checked([trip], "", "", Standing(""), current.posterior)

    def _somewhere(self, rng: np.random.Generator) -> tuple[int, int]:
        """Return two edges by chance; on a large network a few minutes apart."""
        start, goal = (int(place) for place in rng.integers(self.network.n_edges, size=2))
        if self.fleet.n_draws:
            paths = self.navigator.router.permits.of(Vehicle()).paths
            near = Tree.away(paths, self.fleet.time_model.limit_s, start, _NEAR_S)
            goal = int(np.argmax(np.where(np.isfinite(near.costs), near.costs, -1.0)))
        return start, goal

    def _told(self, kind: str, text: Any) -> None:  # noqa: ANN401 - JSON
        if kind == "alarm":
            self.alarms.say(text.get("kind", "set aside"), text["reason"], text["key"])
            self.watch.look_now()
        else:
            logger.warning(text)
        if kind == "away":
            self.watch.doubt()

    # ---- who asks

    async def who(self, given: str | None, address: str) -> Key:
        """Return whose key this is, or refuse; a demo's visitors need none."""
        if self.settings.demo:
            return Key("demo", "demo", "admin")
        key = None if given is None else self.keys.check(given)
        if key is None and given is not None and self.keys.is_new(given):
            # it may have been made elsewhere a moment ago
            if not self._looks.wait_s("all") and self.watch.problem is None:
                await asyncio.to_thread(self.watch.look_now)
            key = self.keys.check(given)
        if key is None:
            self.stranger(address)
            detail = "send an API key: Authorization: Bearer superarm.ID.SECRET"
            raise Refused(401, detail, {"www-authenticate": "Bearer"})
        return key

    def stranger(self, address: str) -> None:
        """Count a request without a key against its address, or turn it away."""
        if wait := self._strangers.wait_s(address):
            detail = "too many requests without a valid key; wait"
            raise Refused(429, detail, {"retry-after": str(wait)})

    def charge(self, key: Key, cost: float) -> None:
        """Count requests against a key's rate, or turn it away."""
        wait = self.rates.wait_s(key.id, cost)
        if wait:
            detail = f"more than {self.settings.rate:g} requests per second; wait {wait} s"
            raise Refused(429, detail, {"retry-after": str(wait)})

    def spend(self, key: Key, cost: float) -> None:
        """Count requests against a key's rate for what was answered already."""
        self.rates.spend(key.id, cost)

    # ---- questions and reports

    async def on_router(
        self, question: Callable[[Current], _Result], key: Key, price: float
    ) -> _Result:
        """Answer a question where questions take turns, or say that too many wait.

        Args:
            question: what is asked of the posterior.
            key: who asks; what the question takes beyond its price is charged afterwards.
            price: in plain requests; it has been charged, and the request itself counts for one.
        """
        if not self.ready:
            raise Refused(503, "the belief is being loaded; try again", {"retry-after": "1"})
        n_edges = self.network.n_edges
        work = Work(most_steps(n_edges), is_long=is_long(price, n_edges))
        try:
            return await self._router.run(key.id, lambda: self._asked(question), work)
        except FullError:
            what, wait = ("long questions", "5") if work.is_long else ("requests", "1")
            raise Refused(503, f"too many {what} wait; try again", {"retry-after": wait}) from None
        finally:
            self.rates.spend(key.id, max(work.cpu_s / REQUEST_S - 1.0 - price, 0.0))

    def _asked(self, question: Callable[[Current], _Result]) -> _Result:
        with self.posteriors.reading() as current:
            return question(current)

    async def on_matcher(self, trace: TraceIn, key: Key) -> tuple[TraceOutcome, list[TripIn]]:
        """Match a trace in the matching thread, where keys take turns, or say it is full."""
        try:
            return await self._matcher.run(key.id, lambda: self._traces.read(trace))
        except FullError:
            detail = "too many traces are being matched; try again"
            raise Refused(503, detail, {"retry-after": "2"}) from None

    async def keep(self, trips: Sequence[TripIn], key: Key) -> list[TripOutcome]:
        """Look at trips, store them, and say what became of each."""
        if not self.ready:
            raise Refused(503, "the belief is being loaded; try again", {"retry-after": "1"})
        loop = asyncio.get_running_loop()
        checked: list[Checked] = []
        for number, some in enumerate(slices(trips)):  # requests take turns
            most = 0 if number else MOST_SUGGESTIONS
            checked += await loop.run_in_executor(self._checker, self.checked, some, key, most)
        return await self.writer.keep(checked)

    def checked(
        self, trips: Sequence[TripIn], key: Key, suggestions: int = MOST_SUGGESTIONS
    ) -> list[Checked]:
        """Look at trips."""
        standing = self.watch.standings.get(key.id, Standing(key.id))
        with self.posteriors.reading() as current:
            return self.intake.checked(
                trips,
                key.id,
                key.name,
                standing,
                current.posterior,
                self.widened(),
                suggestions,
            )

    def widened(self) -> float:
        """Return what the deviations of the gate are multiplied by, and raise an alarm if so."""
        factor = self.surprises.widened()
        reason = None
        if factor > 1:
            reason = (
                f"most keys surprise beyond the model, {factor:.1f} times; the gate is that wide"
            )
        self.alarms.say("widened", reason)
        return factor

    def _stored(self, done: Sequence[tuple[Checked, TripOutcome]]) -> None:
        """Wake the learner; take note of what surprised; set keys aside that do too often."""
        self.learning.wake()
        counted = {"accepted", "quarantined"}
        new = [item for item, said in done if said.status in counted and not said.again]
        new = [item for item in new if item.problem is None and not self.is_aside(item.key_id)]
        suspects = self.surprises.after(new)
        if suspects:
            for key_id in set_aside(self.database, suspects):
                self.alarms.say("set aside", suspects[key_id], key_id)
            self.watch.look_now()

    def is_aside(self, key_id: str) -> bool:
        """Say whether a key's trips are not learned."""
        standing = self.watch.standings.get(key_id)
        return standing is not None and standing.is_aside

    # ---- numbers

    def whole_map(self) -> bytes:
        """Return all roads as packed GeoJSON, which is made once."""
        if self._network is None:
            everything = np.arange(self.network.n_edges)
            pieces = self.navigator.geography.feature_pieces(everything, 0)
            self._network = b"".join(packed(pieces))
        return self._network

    def _fresh(self, name: str, ask: Callable[[], _Result]) -> _Result:
        """Return what was asked at most two seconds ago, or ask again."""
        age, known = self._remembered.get(name, (-1e9, None))
        if time.monotonic() - age > _FRESH_S:
            known = ask()
            self._remembered[name] = (time.monotonic(), known)
        result: _Result = known
        return result

    def counts(self) -> tuple[int, int]:
        """Return how many trips are stored and quarantined, as of a moment ago."""
        return self._fresh("counts", self.store.counts)

    def calibration(self) -> Mapping[tuple[str, str], Sums]:
        """Return the sums of every key and class, as of a moment ago."""
        return self._fresh("calibration", self.store.calibration)

    def waiting(self) -> Mapping[str, int]:
        """Return how many trips of each key are not learned yet, as of a moment ago."""
        mark = 0 if self.current is None else self.current.mark
        return self._fresh("waiting", lambda: self.store.waiting(mark))

    def recent(self) -> Sums:
        """Return the sums of the last trips, as of a moment ago."""
        return self._fresh("recent", self.store.recent)

    def gain(self, key_id: str) -> tuple[float, float]:
        """Return how far a key's logger is believed to be off, and how sure that is."""
        standing = self.watch.standings.get(key_id, Standing(key_id))
        with self.posteriors.reading() as current:
            return current.posterior.gain(standing.source(0.0))

    def lag_s(self) -> float:
        """Return the age of the oldest trip not learned; if there is none, of the last batch."""
        if self.current is None:
            return 0.0
        oldest = self.store.oldest_unlearned_us(self.current.mark)
        return self.current.lag_s if oldest is None else max((now_us() - oldest) / 1e6, 0.0)

    def gauges(self) -> Gauges:
        """Return what Prometheus shall know."""
        current, (stored, aside) = self.current, self.counts()
        learned = 0 if current is None else current.posterior.trips
        sums = self.calibration()
        trust = {(key,): float(not self.is_aside(key)) for key in {name for name, _ in sums}}
        plain: dict[str, tuple[str, float]] = {
            "trips_stored": ("Trips in the database, folded ones included.", stored),
            "trips_learned": ("Trips the current posterior has learned from.", learned),
            "trips_unlearned": ("Trips stored but not learned.", max(stored - learned, 0)),
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
            "trip_spread": (
                "What all of one trip has in common, as a share of its energy.",
                0.0 if current is None else current.posterior.spread,
            ),
            "queue_writes": ("Trips waiting to be committed.", self.writer.waiting),
            "queue_routes": ("Questions waiting for the router.", self._router.waiting),
            "queue_traces": ("Traces waiting to be matched.", self._matcher.waiting),
            "quarantined_trips": ("Trips that are kept, but not learned.", aside),
            "database_away": ("Whether the database fails.", self.watch.problem is not None),
            "alarms": ("Alarms that stand.", len(self.alarms.standing())),
            "alarms_total": ("Alarms raised since the start.", self.alarms.raised),
            "learner_restarts_total": ("How often the learner died.", self.learning.restarts),
        }
        gauges: dict[str, Any] = {name: (*value, ()) for name, value in plain.items()}
        gauges["key_trusted"] = ("Whether a key's trips are learned.", trust, ("key",))
        if current is not None:
            gains = {(key,): self.gain(key)[0] for (key,) in trust}
            gauges["key_gain"] = ("How far a key's logger is off, as a share.", gains, ("key",))
            spreads = {(key,): value for key, value in current.posterior.spreads.items()}
            gauges["key_spread"] = ("How noisy a key's trips are, as a share.", spreads, ("key",))
        both = ("key", "vehicle")
        gauges["key_trips"] = (
            "Trips of a key and vehicle class.",
            {place: total.trips for place, total in sums.items()},
            both,
        )
        gauges["key_coverage_90"] = (
            "Share of trips inside the 90 % interval predicted before they were learned.",
            {place: t.inside / t.trips for place, t in sums.items() if t.trips > 0},
            both,
        )
        return gauges
