"""``superarm trips``: logs of vehicles to trips, and trips to a service."""

import time
from http import HTTPStatus
from pathlib import Path
from typing import Annotated, Any

import typer

from superarm.client import Client, ServiceError
from superarm.roads.imports.importer import Importer, read_trips, reports_of, write_trips
from superarm.roads.imports.logs import Columns, read_logs
from superarm.roads.maps import draw_maps, exploration_panel
from superarm.roads.network.formats import open_network
from superarm.roads.vehicle import Vehicle
from superarm.saving.compressed import MOST_TABLE_BYTES

app = typer.Typer(help="Trips from logs: import, report.", no_args_is_help=True)

_AT_ONCE = 100
_PATIENCE_S, _PAUSE_S = 20.0, 0.5
_Network = Annotated[Path, typer.Option(help="The road network (.npz, .net.xml, .osm.pbf, ...).")]


@app.command(name="import")
def import_(  # noqa: PLR0913, PLR0917 - how logs are written
    files: Annotated[list[Path], typer.Argument(help="Logs: .csv(.gz), .parquet, .gpx(.gz)")],
    network: _Network,
    output: Annotated[Path, typer.Option(help="Where to write trips (.parquet).")] = Path(
        "trips.parquet"
    ),
    column: Annotated[
        list[str] | None,
        typer.Option(help="Which column is what, as time=stamp; once for each."),
    ] = None,
    unit: Annotated[
        list[str] | None, typer.Option(help="Units that names do not say, as power=kW.")
    ] = None,
    timezone: Annotated[
        str | None, typer.Option(help="Of times without a zone, as Europe/Berlin.")
    ] = None,
    capacity_kwh: Annotated[
        float | None, typer.Option(help="Of the battery, for a state of charge.")
    ] = None,
    vehicle: Annotated[
        str, typer.Option(help="car, van, truck, or a JSON file with what differs from a car.")
    ] = "car",
    accuracy_m: Annotated[
        float, typer.Option(min=0.5, max=200, help="Standard deviation of GPS errors.")
    ] = 10.0,
    stop_s: Annotated[
        float, typer.Option(min=30, help="Who stands for longer has arrived.")
    ] = 300.0,
    most_mb: Annotated[
        int, typer.Option(min=1, help="MiB that one log may unpack to; larger ones are refused.")
    ] = MOST_TABLE_BYTES // 2**20,
    *,
    discharge_is_negative: Annotated[
        bool,
        typer.Option("--discharge-is-negative", help="Power or current is negative while driving."),
    ] = False,
) -> None:
    """Match logs to roads, cut them into trips, and write these with a map beside them."""
    columns = Columns(
        _pairs("--column", column),
        _pairs("--unit", unit),
        timezone,
        None if capacity_kwh is None else 1000 * capacity_kwh,
        discharge_is_negative,
    )
    roads = open_network(network)
    importer = Importer(roads, accuracy_m, stop_s, vehicle=_vehicle(vehicle))
    trips = [
        trip
        for file in files
        for log in read_logs(file, columns, most_bytes=most_mb * 2**20)
        for trip in importer.trips(log)
    ]
    for line in importer.report.lines():
        typer.echo(line)
    if not trips:
        typer.echo("No trips were found; nothing is written.", err=True)
        raise typer.Exit(1)
    write_trips(output, roads, trips)
    picture = output.with_suffix(".png")
    panel = exploration_panel(importer.report.visits, f"{len(trips):,} trips")
    draw_maps(roads, [panel], picture, columns=1)
    typer.echo(f"Trips: {output}")
    typer.echo(f"Map: {picture}")


def _vehicle(given: str) -> Vehicle:
    """Return the vehicle of a class name or a file."""
    file = Path(given)
    try:
        return Vehicle.from_json(file.read_text("utf-8") if file.is_file() else given)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--vehicle") from error


@app.command()
def report(
    file: Annotated[Path, typer.Argument(help="Trips, as written by import.")],
    service: Annotated[str, typer.Option(help="Address of the service.")],
    network: _Network,
    key: Annotated[
        str | None, typer.Option(envvar="SUPERARM_KEY", help="Key that may report.")
    ] = None,
) -> None:
    """Send trips to a service; sending them again is harmless."""
    roads = open_network(network)
    bodies = list(reports_of(read_trips(file, roads), roads))
    client = Client(service, key, notify=_say)
    counts: dict[str, int] = {}
    if bodies:
        _say(f"sending {len(bodies):,} trips to {service}")
    for begin in range(0, len(bodies), _AT_ONCE):
        for outcome in _reported(client, bodies[begin : begin + _AT_ONCE]):
            status = str(outcome["status"])
            counts[status] = counts.get(status, 0) + 1
            if outcome.get("detail"):
                _say(f"{outcome['trip_id']}: {outcome['detail']}")
    told = ", ".join(f"{count:,} {status}" for status, count in sorted(counts.items()))
    typer.echo(told or "no trip has times or readings of its battery; nothing was sent")
    if counts:
        accepted = counts.get("accepted", 0) + counts.get("duplicate", 0)
        try:
            typer.echo(f"This key: {_verdict(client, accepted)}")
        except ServiceError as error:  # the trips have been taken, whatever is said of them
            _say(f"the service does not say what it has learned of them: {error}")


def _verdict(client: Client, accepted: int) -> str:
    """Return what is made of a key's trips, once so many are learned, or after a while."""
    until = time.monotonic() + _PATIENCE_S
    while True:
        known = client.key()
        learned = known["trips_learned"] >= accepted and not known["trips_waiting"]
        if learned or not known["trusted"] or time.monotonic() > until:
            return str(known["verdict"])
        time.sleep(_PAUSE_S)


def _reported(client: Client, bodies: list[dict[str, Any]]) -> list[dict[str, Any]]:
    try:
        return client.report_many(bodies)
    except ServiceError as error:
        if error.status != HTTPStatus.UNAUTHORIZED:
            raise
        how = "name your key with --key, or in SUPERARM_KEY; superarm serve keys add makes one"
        raise ServiceError(error.status, f"{error.detail}; {how}") from error


def _say(text: str) -> None:
    typer.echo(text, err=True)


def _pairs(option: str, given: list[str] | None) -> dict[str, str]:
    pairs = {}
    for text in given or ():
        name, sign, value = text.partition("=")
        if not sign or not value:
            msg = f"{option} {text}: write it as NAME=VALUE"
            raise typer.BadParameter(msg)
        pairs[name] = value
    return pairs
