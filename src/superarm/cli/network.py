"""``superarm network``: generate, import, show, list and fetch road networks."""

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from superarm.errors import DataError
from superarm.roads.maps import draw_maps, height_panel
from superarm.roads.matching.map_updates import EdgeMap
from superarm.roads.network.city import generate_city
from superarm.roads.network.formats import fetch, open_network, read_sumo
from superarm.roads.network.network import RoadNetwork
from superarm.roads.network.statistics import describe

app = typer.Typer(
    help="Road networks: generate, import, show, update, list, fetch.", no_args_is_help=True
)

_Output = Annotated[Path, typer.Option(help="The network file to write (.npz).")]
_Json = Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")]


@app.command()
def generate(
    output: _Output = Path("city.npz"),
    edges: Annotated[int, typer.Option(min=500, max=1_000_000, help="Directed edges.")] = 4000,
    seed: Annotated[int, typer.Option(min=0, help="Which city.")] = 0,
) -> None:
    """Make a city and write it to a file."""
    _require_ending(output)
    _write(generate_city(seed, edges), output)


@app.command(name="import")
def import_(
    source: Annotated[Path, typer.Argument(help=".net.xml(.gz), .osm(.gz), .osm.pbf or .npz")],
    output: _Output = Path("network.npz"),
    heightmap: Annotated[
        list[Path] | None,
        typer.Option(
            help="Heights for OpenStreetMap files: SRTM tiles (.hgt, .hgt.zip) or GeoTIFFs; "
            "give it once for each."
        ),
    ] = None,
    *,
    whole: Annotated[
        bool, typer.Option("--whole", help="Keep edges outside the largest component.")
    ] = False,
) -> None:
    """Read a network of another format and write it to a file of our own."""
    _require_ending(output)
    network = open_network(source, heightmap or ())
    _write(network if whole else network.largest_component(), output)


@app.command()
def show(
    source: Annotated[Path, typer.Argument(help="A network file of any format.")],
    picture: Annotated[Path | None, typer.Option(help="Where to draw it (PNG or PDF).")] = None,
    *,
    as_json: _Json = False,
) -> None:
    """Print statistics and draw a picture."""
    network = open_network(source)
    facts = describe(network)
    if as_json:
        typer.echo(json.dumps({"name": network.name, "notes": network.notes, **facts}))
    else:
        _print_facts(network, facts)
    if as_json and picture is None:
        return
    target = picture or Path(f"{source.name.split('.')[0]}.png")
    draw_maps(network, [height_panel(network, {})], target, columns=1)
    if not as_json:
        typer.echo(f"Picture: {target}")


@app.command()
def update(
    old: Annotated[Path, typer.Argument(help="The network that trips were learned on.")],
    new: Annotated[Path, typer.Argument(help="The network to go on with.")],
    database: Annotated[
        str | None,
        typer.Option(help="A service's database of the old network: a file, or PostgreSQL's URL."),
    ] = None,
    output: Annotated[
        Path | None, typer.Option(help="Where to write the database of the new network.")
    ] = None,
    *,
    in_place: Annotated[
        bool,
        typer.Option(
            "--in-place",
            help="Change the PostgreSQL database itself; make a copy first (createdb -T OLD NEW).",
        ),
    ] = False,
) -> None:
    """Say which edges are still there, and move what was learned to the new map."""
    remote = database is not None and "://" in database
    if remote and (output is not None or not in_place):
        msg = "a PostgreSQL database is changed --in-place, without --output; copy it before"
        raise typer.BadParameter(msg)
    if not remote and (in_place or (database is None) != (output is None)):
        raise typer.BadParameter("--database and --output go together")  # noqa: EM101, TRY003
    before, now = (open_network(path).largest_component() for path in (old, new))  # as served
    edges = EdgeMap.between(before, now)
    for line in edges.lines():
        typer.echo(line)
    if database is None:
        return
    from superarm.service.database import Database  # noqa: PLC0415 - an optional part
    from superarm.service.trips.moving import copy_sqlite, move_trips  # noqa: PLC0415

    if output is None:  # one transaction: all of it or nothing
        place = Database(database)
        try:
            place.migrate()
            moved, name = move_trips(place, edges), place.name
        finally:
            place.close()
    else:
        copy_sqlite(Path(database), output)
        copy = Database(str(output))
        try:
            copy.migrate()
            moved, name = move_trips(copy, edges), str(output)
        except BaseException:
            copy.close()
            for half in (output, *(Path(f"{output}{end}") for end in ("-wal", "-shm"))):
                half.unlink(missing_ok=True)  # half moved is worse than nothing
            raise
        copy.close()
    for line in moved.lines():
        typer.echo(line)
    typer.echo(f"Database: {name}")


@app.command(name="list")
def list_(
    folder: Annotated[Path, typer.Argument(help="Where to look for .npz files.")] = Path(),
    *,
    as_json: _Json = False,
) -> None:
    """List the network files of a folder."""
    if not folder.is_dir():
        msg = f"there is no folder {folder}"
        raise DataError(msg)
    rows = []
    for path in sorted(folder.glob("*.npz")):
        try:
            network = RoadNetwork.load(path)
        except DataError as error:
            typer.echo(f"Note: {error}", err=True)
            continue
        rows.append((path.name, network))
    if as_json:
        facts = [
            {"file": name, "name": net.name, "edges": net.n_edges, "turns": net.n_turns}
            for name, net in rows
        ]
        typer.echo(json.dumps(facts))
        return
    table = Table(
        "file", "name", "edges", "turns", "km", title=f"Networks in {folder.resolve().name}"
    )
    for name, network in rows:
        km = network.length_m.sum() / 1000
        table.add_row(
            name, network.name, f"{network.n_edges:,}", f"{network.n_turns:,}", f"{km:,.0f}"
        )
    Console().print(table)


@app.command(name="fetch")
def fetch_(
    name: Annotated[str, typer.Argument(help="luxembourg or monaco")],
    url: Annotated[str | None, typer.Option(help="Another place to get the file from.")] = None,
) -> None:
    """Download the network of a published scenario, once, and verify it."""
    path = fetch(name, url=url)
    typer.echo(f"File: {path}")
    network = read_sumo(path)
    for note in network.notes:
        typer.echo(f"Note: {note}", err=True)


def _require_ending(output: Path) -> None:
    if output.suffix != ".npz":
        msg = f"--output {output}: network files end in .npz, by which other commands know them"
        raise typer.BadParameter(msg)


def _write(network: RoadNetwork, output: Path) -> None:
    network.save(output)
    _print_facts(network, describe(network))
    typer.echo(f"Network: {output}")


def _print_facts(network: RoadNetwork, facts: dict[str, str]) -> None:
    table = Table(title=network.name, show_header=False)
    for label, value in facts.items():
        table.add_row(label, value)
    Console().print(table)
    for note in network.notes:
        typer.echo(f"Note: {note}", err=True)
