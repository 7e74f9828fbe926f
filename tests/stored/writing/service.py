"""What a service keeps: its database with everything in it, route ids, digests, snapshots."""

import json
import re
import sqlite3
import subprocess
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from sqlalchemy import Boolean, insert, text

from services import Cluster, fresh_database
from stored.asking.service import ask_belief, ask_database, ask_folded, ask_route
from stored.files import compress, write_json
from stored.writing.reports import PARAMETERS, PLAUSIBLE, Reports
from stored.writing.roads import ROADS, dressed
from superarm import InfeasibleError
from superarm.roads.models.fleet import MODEL_VERSION, Fleet
from superarm.roads.models.likelihood import Reader
from superarm.roads.models.posterior import RoadPosterior
from superarm.roads.routing.query import RouteQuery
from superarm.roads.routing.router import Router
from superarm.roads.vehicle import CLASSES
from superarm.service import tables
from superarm.service.database import Database, now_us
from superarm.service.http.keys import Key, KeyRing
from superarm.service.routes.tokens import IssuedRoute, RouteTokens
from superarm.service.trips.history import History
from superarm.service.trips.intake import Checked, Intake
from superarm.service.trips.packing import content_digest
from superarm.service.trips.quarantine import move_aside, quarantined
from superarm.service.trips.schemas import TripIn
from superarm.service.trips.standings import Standing, let_in, set_aside
from superarm.service.trips.store import TripStore
from superarm.service.vehicles import Parameters

_FAR_US = 4_102_444_800_000_000  # the year 2100


class Writing:
    """A service without a server: writes a database as requests would.

    Args:
        folder: where the database is made.
    """

    def __init__(self, folder: Path) -> None:
        """Make the database."""
        self.fleet = Fleet(dressed(ROADS))
        self.reader: Reader[Any] = Reader.of(self.fleet)
        self.path = folder / "trips.db"
        self.database = Database(str(self.path))
        self.database.migrate()
        self.database.claim(self.fleet.fingerprint(), demo=False)
        self.secret = self.database.route_secret()
        self.tokens = RouteTokens(self.fleet.network, self.secret)
        self.intake = Intake(self.fleet.network, self.reader, self.tokens)
        self.store = TripStore(self.database, self.fleet.network, self.fleet.n_slots)
        empty = np.zeros(self.fleet.network.n_edges)
        self.prior = RoadPosterior.of(self.fleet, self.fleet.prior(), empty, trips=0)
        self.reports = list(Reports(self.fleet, self.tokens).everything())
        self.texts: dict[str, str] = {}

    def fill(self) -> None:
        """Let keys report: some trips are folded, some put aside, one key is no longer believed."""
        keys = self._keys()
        self._report(keys["van fleet"], range(40))
        self._report(keys["cars"], range(40, 60))
        folded_before = now_us()
        self._report(keys["van fleet"], range(60, 90))
        self._report(keys["cars"], range(90, 120))
        self._report(keys["sold"], range(120, 135))
        set_aside(self.database, {keys["sold"].id: "its logger reads more than all others"})
        self._report(keys["sold"], range(135, 140))
        self._report(keys["vouched"], range(140, PLAUSIBLE))
        set_aside(self.database, {keys["vouched"].id: "its trips go on to be above"})
        let_in(self.database, keys["vouched"].id)
        self._implausible(keys["cars"])
        History(self.database, self.reader).fold(folded_before)
        KeyRing(self.database).revoke(keys["gone"].id)

    def _keys(self) -> dict[str, Key]:
        ring, made = KeyRing(self.database), {}
        for name, role, until in (
            ("van fleet", "report", None),
            ("cars", "report", None),
            ("sold", "report", None),
            ("vouched", "report", _FAR_US),
            ("page", "read", None),
            ("operator", "admin", None),
            ("gone", "report", None),
            ("late", "report", 1_700_000_000_000_000),
        ):
            made[name], self.texts[name] = ring.add(name, role, until)  # type: ignore[arg-type] # roles
        return made

    def _checked(self, key: Key, trips: Sequence[TripIn]) -> list[Checked]:
        standing = Standing(key.id)
        return self.intake.checked(trips, key.id, key.name, standing, self.prior)

    def _report(self, key: Key, numbers: Sequence[int]) -> None:
        trips = [TripIn.model_validate_json(self.reports[number]) for number in numbers]
        self.store.keep(self._checked(key, trips))

    def _implausible(self, key: Key) -> None:
        """Report what cannot be: one trip is released, one cannot be learned, one edge left out."""
        body = json.loads(self.reports[46])
        edges = body["edges"]
        usual = {"edges": edges, "driven_at": body["driven_at"]}
        far = {"trip_id": "far-off", "total_energy_wh": 90_000.0} | usual
        vouched = {"trip_id": "released", "total_energy_wh": 70_000.0} | usual
        each = self.prior.energy_wh(self.fleet.drivetrain(CLASSES["car"]))
        places = [self.fleet.network.position(name) for name in edges]
        usual_wh = [float(round(value, 3)) for value in each[places]]
        partly = {"trip_id": "partly", "edge_energy_wh": [9_000.0, *usual_wh[1:]]} | usual
        strange = {"trip_id": "strange", "edge_energy_wh": usual_wh} | usual
        items = self._checked(
            key, [TripIn.model_validate(body) for body in (far, vouched, partly, strange)]
        )
        self.store.keep(items)
        for row in quarantined(self.database, 0, 100):
            if row["trip_id"] == "released":
                self.store.release(items[1], row["sequence"])
        (number,) = [s["sequence"] for s in self._stored() if s["trip_id"] == "strange"]
        move_aside(self.database, [number], "the learner cannot make sense of this trip")

    def _stored(self) -> list[dict[str, Any]]:
        return self.store.stored_trips(0, 1000, 10**9)

    def routes(self) -> list[dict[str, Any]]:
        """Return route ids as they were issued: every mode and vehicle, roads closed and open."""
        rng, router, shown = np.random.default_rng(9), Router(self.fleet.network), []
        vehicles = [*CLASSES.values(), *(Parameters(**given).made() for given in PARAMETERS)]
        vehicles.append(CLASSES["van"].loaded(250.0).at_temperature(-8.0))
        for number, (start, goal) in enumerate(Reports(self.fleet, self.tokens).ends(rng, 120)):
            vehicle = vehicles[number % len(vehicles)]
            mode = ("explore", "optimistic", "best")[number % 3]
            query = RouteQuery(start=start, goal=goal, mode=mode)  # type: ignore[arg-type] # one of three
            drivetrain = self.fleet.drivetrain(vehicle)
            try:
                answer = router.answer(query, self.prior, drivetrain, rng)
                if number % 4 == 0 and answer.route.edges.size > 4:  # the way round
                    query = replace(query, closed=(int(answer.route.edges[2]),))
                    answer = router.answer(query, self.prior, drivetrain, rng)
            except InfeasibleError:
                continue
            route = answer.route
            issued = IssuedRoute(
                route.edges, vehicle, route.mean_wh, route.std_wh, answer.best.mean_wh, now_us()
            )
            shown.append({"route_id": self.tokens.written(issued), "says": ask_route(issued)})
        return shown

    def truth(self) -> dict[str, Any]:
        """Return all that is in the database, as it is understood now."""
        return {
            "model": MODEL_VERSION,
            "texts": self.texts,
            "says": ask_database(self.database, self.fleet),
            "folded": ask_folded(self.database, self.fleet),
            "belief": ask_belief(self.database, self.fleet),
        }

    def digests(self) -> list[str]:
        """Return the digests of all reports."""
        return [content_digest(TripIn.model_validate_json(report)) for report in self.reports]


def write_database(writing: Writing, folder: Path) -> None:
    """Write a database as a file, as PostgreSQL dumps it, and what it says; then close it."""
    with writing.database.reading() as connection:
        revision = connection.execute(text("SELECT version_num FROM alembic_version")).scalar_one()
    write_json(folder / f"{revision}.json.gz", {"revision": revision} | writing.truth())
    routes = {"secret": writing.secret.hex(), "routes": writing.routes()}
    write_json(folder / "routes.json.gz", routes)
    pairs = zip(writing.reports, writing.digests(), strict=True)
    reports = [{"sent": sent, "digest": digest} for sent, digest in pairs]
    write_json(folder / "reports.json.gz", reports)
    writing.database.close()
    with closing(sqlite3.connect(writing.path)) as file:  # one file, without its log
        file.execute("PRAGMA journal_mode=DELETE")
    compress(folder / f"{revision}.db.gz", writing.path.read_bytes())
    dump = dumped(writing.path, writing.path.parent / "cluster")
    compress(folder / f"{revision}.postgresql.sql.gz", dump.encode())


def dumped(path: Path, folder: Path) -> str:
    """Return a database as PostgreSQL would dump it, from a cluster that has seen much more."""
    folder.mkdir()
    cluster = Cluster(folder)
    try:
        url = fresh_database(cluster.url, "stored")
        database = Database(url)
        database.migrate()
        copy_rows(path, database)
        database.close()
        done = subprocess.run(
            ["pg_dump", "--inserts", "--no-owner", "--no-privileges", url],  # noqa: S607
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        )
    finally:
        cluster.stop()
    lines = done.stdout.splitlines()
    # settings and comments depend on the version of pg_dump, and on where it ran
    version = re.compile(r"--|SET |SELECT pg_catalog.set_config|\\")
    kept = [line for line in lines if line and not version.match(line)]
    return "\n".join(kept) + "\n"


def copy_rows(path: Path, database: Database) -> None:
    """Copy all rows of an SQLite file; trips are marked with transactions of another cluster."""
    with closing(sqlite3.connect(path)) as source, database.engine.begin() as target:
        source.row_factory = sqlite3.Row
        for table in tables.metadata.sorted_tables:
            rows = [dict(row) for row in source.execute(f"SELECT * FROM {table.name}")]  # noqa: S608
            for row in rows:
                for column in table.columns:
                    if isinstance(column.type, Boolean) and row[column.name] is not None:
                        row[column.name] = bool(row[column.name])
                if "xact" in row:
                    row["xact"] = 5_000_000 + row["sequence"]
            if rows:
                target.execute(insert(table), rows)
        for name in ("trips", "quarantine"):
            last = f"SELECT setval('{name}_sequence_seq', (SELECT max(sequence) FROM {name}))"  # noqa: S608
            target.execute(text(last))
