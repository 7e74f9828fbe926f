"""``superarm serve``: the navigator as a service, and its API keys."""

import hashlib
import json
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import typer
from rich.console import Console
from rich.table import Table

from superarm.errors import DataError
from superarm.roads.charging import Station, read_stations
from superarm.roads.network.city import generate_city
from superarm.roads.network.formats.reading import open_network
from superarm.roads.network.network import RoadNetwork

if TYPE_CHECKING:
    from superarm.service.http.keys import KeyRing

app = typer.Typer(help="Serve routes that learn.", invoke_without_command=True)
keys = typer.Typer(help="API keys: add, list, revoke, trust.", no_args_is_help=True)
app.add_typer(keys, name="keys")

DEMO_EDGES = 1000
_MOST_NOTES = 10
_NetworkFile = Annotated[
    Path | None, typer.Option(help="Roads: .npz, .net.xml(.gz), .osm(.gz, .pbf).")
]
_DatabaseUrl = Annotated[
    str,
    typer.Option(envvar="SUPERARM_DATABASE", help="SQLite file, or a postgresql:// URL."),
]
_Json = Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")]


@app.callback()
def serve(  # noqa: PLR0913, PLR0917 - a server has these options
    context: typer.Context,
    network: _NetworkFile = None,
    database: _DatabaseUrl = "superarm.db",
    state: Annotated[
        Path | None,
        typer.Option(help="Folder for snapshots; its own for every worker. Beside the database."),
    ] = None,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Zero: any free one.")] = 8000,
    snapshot_every: Annotated[int, typer.Option(min=1, help="Trips between snapshots.")] = 5000,
    retain_days: Annotated[
        float, typer.Option(min=0, help="Fold trips older than this; 0 keeps them.")
    ] = 0.0,
    rate: Annotated[float, typer.Option(min=1, help="Requests per second and key.")] = 500.0,
    connections: Annotated[
        int, typer.Option(min=10, help="Connections from one address; raise it behind a proxy.")
    ] = 256,
    log_level: Annotated[Literal["info", "warning"], typer.Option()] = "info",
    keep_traces: Annotated[
        Path | None,
        typer.Option(help="Keep GPS traces as they are sent in this folder; else they are not."),
    ] = None,
    timezone: Annotated[
        str | None,
        typer.Option(
            help="Where the roads are, like Europe/Luxembourg: says which part of the day it is. "
            "Without it, times of day are as requests and reports write them."
        ),
    ] = None,
    stations: Annotated[
        Path | None,
        typer.Option(help="Charging stations: GeoJSON points, or an OpenStreetMap extract."),
    ] = None,
    tiles: Annotated[
        str | None,
        typer.Option(help="Background of the page: an https:// template with {z}, {x} and {y}."),
    ] = None,
    tiles_attribution: Annotated[str, typer.Option(help="Whose background that is.")] = "",
    *,
    demo: Annotated[
        bool,
        typer.Option("--demo", help="A generated city with a hidden truth to drive on; no keys."),
    ] = False,
) -> None:
    """Serve routes, learn from trips, show the map."""
    if context.invoked_subcommand is not None:
        return
    if demo == (network is not None):
        msg = "name your roads with --network FILE, or try --demo"
        raise typer.BadParameter(msg)
    _require_parts()
    from superarm.service.http.connections import Limits  # noqa: PLC0415 - an optional part
    from superarm.service.http.state import Settings  # noqa: PLC0415
    from superarm.service.server import serve as run  # noqa: PLC0415

    chosen = context.get_parameter_source("database")
    if demo and (chosen is None or chosen.name != "COMMANDLINE"):
        database = "superarm-demo.db"  # never the database of the environment
    roads = _roads(network)
    settings = Settings(
        network=roads,
        database=database,
        state=state or _beside(database),
        demo=demo,
        snapshot_every=snapshot_every,
        retain_days=retain_days,
        rate=rate,
        keep_traces=keep_traces,
        timezone=_zone(timezone),
        stations=_stations(stations, roads, demo=demo),
        tiles=_template(tiles),
        tiles_attribution=tiles_attribution,
        limits=Limits(in_all=max(1_000, connections), per_address=connections),
    )
    console = Console(stderr=True)

    def listening(url: str) -> None:
        text = f"{roads.name}: open {url} in a browser. Stop with Ctrl-C."
        console.print(text, highlight=False, soft_wrap=True)

    run(settings, host=host, port=port, log_level=log_level, listening=listening)


def _stations(path: Path | None, roads: RoadNetwork, *, demo: bool) -> tuple[Station, ...]:
    if path is None:
        from superarm.service.demo import stations_of  # noqa: PLC0415 - an optional part

        return stations_of(roads) if demo else ()
    found, notes = read_stations(path)
    for note in notes[:_MOST_NOTES]:
        typer.echo(f"Note: {note}", err=True)
    if len(notes) > _MOST_NOTES:
        typer.echo(f"Note: {len(notes) - _MOST_NOTES} more like these", err=True)
    return tuple(found)


def _template(tiles: str | None) -> str | None:
    whole = tiles is None or (
        tiles.startswith(("https://", "http://"))
        and all(part in tiles for part in ("{z}", "{x}", "{y}"))
        and not any(sign in tiles for sign in " ;,'\"")
    )
    if not whole:
        msg = f"{tiles!r} is no template like https://tiles.example/{{z}}/{{x}}/{{y}}.png"
        raise typer.BadParameter(msg)
    return tiles


def _zone(name: str | None) -> ZoneInfo | None:
    if name is None:
        return None
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        msg = f"there is no time zone {name!r}; give one like Europe/Luxembourg, or install tzdata"
        raise typer.BadParameter(msg) from error


@keys.command()
def add(
    name: Annotated[str, typer.Argument(help="Whose key it is.")],
    role: Annotated[
        Literal["read", "report", "admin"],
        typer.Option(help="read: ask; report: also report trips; admin: also keys and all trips."),
    ] = "report",
    days: Annotated[
        float | None, typer.Option(min=0, help="After how many days it expires; left out: never.")
    ] = None,
    database: _DatabaseUrl = "superarm.db",
) -> None:
    """Make a key and print it, once."""
    expires = None if days is None else int((time.time() + days * 86_400) * 1e6)
    typer.echo(_ring(database, new=True).add(name, role, expires)[1])


@keys.command(name="list")
def list_(database: _DatabaseUrl = "superarm.db", *, as_json: _Json = False) -> None:
    """List all keys (not their secrets)."""
    found = _ring(database).all()
    if as_json:
        typer.echo(json.dumps([vars(key) for key in found]))
        return
    table = Table("id", "name", "role", "made", "expires", "revoked")
    for key in found:
        times = (key.created_at, key.expires_at, key.revoked_at)
        table.add_row(key.id, key.name, key.role, *("" if t is None else _shown(t) for t in times))
    Console().print(table)


@keys.command()
def revoke(
    identity: Annotated[str, typer.Argument(metavar="id", help="Of the key, see list.")],
    database: _DatabaseUrl = "superarm.db",
    *,
    purge: Annotated[
        bool, typer.Option("--purge", help="Also forget its trips; beliefs are made again.")
    ] = False,
) -> None:
    """Let a key stop working."""
    ring = _ring(database)
    ring.revoke(identity)
    typer.echo(f"revoked {identity}")
    if purge:
        from superarm.service.trips.store import purge as forget  # noqa: PLC0415 - an optional part

        typer.echo(f"forgot {forget(ring.database, identity)} trips; running servers learn anew")


@keys.command()
def trust(
    identity: Annotated[str, typer.Argument(metavar="id", help="Of the key, see list.")],
    database: _DatabaseUrl = "superarm.db",
) -> None:
    """Let a key in again that was set aside; its bias is learned from then on."""
    ring = _ring(database)
    from superarm.service.trips.standings import let_in  # noqa: PLC0415 - an optional part

    if not let_in(ring.database, identity):
        msg = f"no key {identity!r} is set aside"
        raise DataError(msg)
    typer.echo(f"{identity} is believed again; running servers learn anew")


def _ring(database: str, *, new: bool = False) -> "KeyRing":
    _require_parts()
    if not new and "://" not in database and not Path(database).exists():
        msg = f"there is no database {database}; name it with --database"
        raise FileNotFoundError(msg)
    from superarm.service.database import Database  # noqa: PLC0415 - an optional part
    from superarm.service.http.keys import KeyRing  # noqa: PLC0415

    opened = Database(database)
    opened.migrate()
    return KeyRing(opened)


def _require_parts() -> None:
    try:
        import alembic  # noqa: F401, PLC0415
        import fastapi  # noqa: F401, PLC0415
        import prometheus_client  # noqa: F401, PLC0415
        import pyproj  # noqa: F401, PLC0415
        import sqlalchemy  # noqa: F401, PLC0415
        import uvicorn  # noqa: F401, PLC0415
    except ImportError as error:
        msg = f"the service needs more parts ({error}); pip install 'superarm[service]'"
        raise ImportError(msg) from error


def _roads(network: Path | None) -> RoadNetwork:
    if network is None:
        return generate_city(seed=1, n_edges=DEMO_EDGES).largest_component()
    return open_network(network).largest_component()


def _beside(database: str) -> Path:
    if "://" in database:  # one folder per database, without its password in the name
        name = hashlib.sha256(database.encode()).hexdigest()[:12]
        return Path(f"superarm-state-{name}")
    return Path(f"{database}-state")


def _shown(microseconds: int) -> str:
    return datetime.fromtimestamp(microseconds / 1e6, UTC).isoformat(timespec="seconds")
