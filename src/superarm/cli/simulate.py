"""``superarm simulate``: a fleet in SUMO that drives by a running service."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from superarm.cli.serve import DEMO_EDGES
from superarm.client import Client
from superarm.demos.fleet import (
    RIVALS,
    FleetDay,
    Report,
    ServicePlanner,
    describe_difference,
    drive_fleet,
    saved_against,
)
from superarm.roads.network.city import generate_city
from superarm.roads.network.network import RoadNetwork
from superarm.simulation import Settings, SumoWorld, Traffic
from superarm.simulation.process import require_extra

app = typer.Typer(help="A fleet in SUMO that asks a running service.", invoke_without_command=True)


@app.callback()
def simulate(  # noqa: PLR0913, PLR0917 - the options of a fleet
    service: Annotated[str, typer.Option(help="Address of the service, http://host:port.")],
    key: Annotated[
        str | None, typer.Option(envvar="SUPERARM_KEY", help="Key that may ask and report.")
    ] = None,
    network: Annotated[
        Path | None,
        typer.Option(help="Its roads: a SUMO network or .npz; the demo's city if not given."),
    ] = None,
    vehicles: Annotated[int, typer.Option(min=1, help="Trips a day.")] = 50,
    days: Annotated[int, typer.Option(min=1, help="Days.")] = 5,
    seconds: Annotated[float, typer.Option(min=1, help="Of a day in which trips depart.")] = 1800,
    cars: Annotated[float, typer.Option(min=0, help="Other cars per second.")] = 0.0,
    report: Annotated[Report, typer.Option(help="What is reported.")] = "totals",
    mode: Annotated[str, typer.Option(help="explore, optimistic or best.")] = "explore",
    seed: Annotated[int, typer.Option(help="Of trips, traffic and chance.")] = 0,
    rivals: Annotated[  # noqa: FBT002 - an option of the command line
        bool,
        typer.Option(
            help="Drive the same trips by physics and by the fastest routes too, and say how much "
            "less or more those of the service took; three times the work."
        ),
    ] = False,
) -> None:
    """Let a fleet in SUMO ask a running service for routes, drive them and report."""
    require_extra()
    client = Client(service, key, notify=lambda text: typer.echo(text, err=True))
    with SumoWorld(_roads(network), settings=Settings(seed=seed)) as world:
        if cars:
            world.traffic = Traffic.random(world.file, [(0.0, seconds, cars)], seed=seed)
        planner = ServicePlanner(world, client, report, mode=mode)
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
        with Progress(*columns, TimeElapsedColumn(), console=Console(stderr=True)) as bar:
            task = bar.add_task("days", total=days)

            def done(day: FleetDay) -> None:
                bar.advance(task)
                typer.echo(_told(day))

            driven = drive_fleet(
                planner,
                days=days,
                vehicles=vehicles,
                seconds=seconds,
                seed=seed,
                rivals=RIVALS if rivals else (),
                done=done,
            )
    for rival in RIVALS if rivals else ():
        typer.echo(describe_difference(rival, saved_against(rival, driven)))
    if planner.refused:
        typer.echo(f"{len(planner.refused)} reports were refused: {planner.refused[0]}", err=True)


def _roads(path: Path | None) -> RoadNetwork | Path:
    if path is None:
        return generate_city(1, DEMO_EDGES).largest_component()  # as of superarm serve --demo
    return RoadNetwork.load(path) if path.suffix == ".npz" else path


def _told(day: FleetDay) -> str:
    return (
        f"day {day.number}: {day.arrived} trips, {day.energy_wh:.0f} Wh each "
        f"({day.expected_wh:.0f} expected, {day.covered:.0%} within 90 %), {day.time_s:.0f} s, "
        f"{day.failed} failed{f' ({day.problem})' if day.problem else ''}, "
        f"{day.refused} reports refused"
    )
