"""``superarm experiment``: run, watch, list, summarise and report studies."""

import json
import math
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table

from superarm.errors import DataError
from superarm.experiments.config import STUDIES, find_study, read_experiment
from superarm.experiments.drives import STUDIES as DRIVE_STUDIES
from superarm.experiments.drives import run_drive_study
from superarm.experiments.drives.models import MODELS
from superarm.experiments.engines import Engine, Processes, Ray, ThisProcess
from superarm.experiments.fleets import (
    FleetResults,
    FleetSpec,
    finished_worlds,
    is_fleet_study,
    read_fleet_study,
    run_fleet_study,
    write_fleet_report,
)
from superarm.experiments.fleets.config import FLEETS
from superarm.experiments.fleets.pooled import pooled_regret
from superarm.experiments.plan import RunSpec
from superarm.experiments.report import write_report
from superarm.experiments.runner import RunPlan, methods_of, prepare, progress_of, run_plan
from superarm.experiments.store import RunStore
from superarm.experiments.study import REGRET, Study, write_finals, write_summary

app = typer.Typer(
    help="Studies: run, status, list, report, summarise, paired.", no_args_is_help=True
)

_File = Annotated[
    str, typer.Argument(help="A TOML file, or the name of a study of the package (see list).")
]
_Folder = Annotated[
    Path | None, typer.Option("--output", help="Folder of the runs; runs/NAME if not given.")
]
_Data = Annotated[
    Path | None,
    typer.Option(envvar="SUPERARM_DATA", help="Folder of road networks and routes.toml."),
]
_Json = Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")]
INTERRUPTED = 130


@app.command()
def run(  # noqa: PLR0913, PLR0917 - the options of a run
    file: _File,
    output: _Folder = None,
    jobs: Annotated[int, typer.Option(min=1, help="Runs at a time.")] = os.cpu_count() or 1,
    engine: Annotated[Literal["local", "ray"], typer.Option(help="Where to run.")] = "local",
    address: Annotated[
        str | None, typer.Option(help="Of a Ray cluster; without it Ray is started here.")
    ] = None,
    data: _Data = None,
    reuse: Annotated[
        list[Path] | None,
        typer.Option(help="Folder of another experiment to copy identical runs from."),
    ] = None,
    *,
    replace: Annotated[
        bool, typer.Option("--replace", help="Set runs of other settings aside.")
    ] = False,
    figures: Annotated[bool, typer.Option(help="Draw figures and report in the end.")] = True,
) -> None:
    """Run an experiment, or what is left of it; finished runs are skipped."""
    if address is not None and engine != "ray":
        raise typer.BadParameter("--address goes with --engine ray")  # noqa: EM101, TRY003
    if is_fleet_study(file):
        _run_fleets(file, output, _engine(engine, jobs, address), data)
        return
    if file in DRIVE_STUDIES:
        _run_drives(file, output, data)
        return
    experiment = read_experiment(file)
    folder = output or Path("runs") / experiment.name
    plan = prepare(
        experiment,
        folder,
        beside=find_study(file).parent,
        data=data,
        replace=replace,
        reuse=reuse or (),
    )
    for note in plan.notes:
        typer.echo(f"Note: {note}", err=True)
    try:
        with _progress(plan) as advance:
            tally = run_plan(plan, _engine(engine, jobs, address), advance)
    except KeyboardInterrupt as error:
        typer.echo("Stopped; finished runs are kept, the same command goes on.", err=True)
        raise typer.Exit(INTERRUPTED) from error
    typer.echo(
        f"{tally.finished} runs finished, {tally.skipped} were there, "
        f"{len(tally.failures)} failed: {folder}"
    )
    for failure in tally.failures:
        typer.echo(f"Failed: {failure}", err=True)
    if figures and (tally.finished + tally.skipped or not plan.runs):
        typer.echo(f"Report: {write_report(Study(folder), folder)}")
    if tally.failures:
        raise typer.Exit(1)


def _run_fleets(file: str, output: Path | None, engine: Engine, data: Path | None) -> None:
    """Run what is left of a fleet study, and write its report."""
    study = read_fleet_study(file)
    folder = output or Path("runs") / study.name
    done = [0]

    def advance(spec: FleetSpec, outcome: str) -> None:
        done[0] += 1
        typer.echo(f"{spec.method} in world {spec.world}: {outcome} ({done[0]} runs)", err=True)

    try:
        failures = run_fleet_study(study, folder, engine=engine, data=data, advance=advance)
    except KeyboardInterrupt as error:
        typer.echo("Stopped; finished runs are kept, the same command goes on.", err=True)
        raise typer.Exit(INTERRUPTED) from error
    for failure in failures:
        typer.echo(f"Failed: {failure}", err=True)
    if done[0] > len(failures) or (folder / "runs").is_dir():
        results = FleetResults.read(folder)
        results.write(folder / "trips.parquet")
        regret = pooled_regret(study, folder, data)
        typer.echo(f"Report: {write_fleet_report(study, results, folder, regret)}")
    if failures:
        raise typer.Exit(1)


def _run_drives(name: str, output: Path | None, data: Path | None) -> None:
    """Predict and learn measured drives; there is nothing to resume, it takes minutes."""
    if data is None:
        msg = f"{name} needs measured drives: name the folder that holds them by --data"
        raise DataError(msg)
    folder = output or Path("runs") / name
    page = run_drive_study(
        name, data, folder, lambda done: typer.echo(f"{done}: finished", err=True)
    )
    typer.echo(f"Report: {page}")


@app.command()
def status(
    file: _File,
    output: _Folder = None,
    data: _Data = None,
    *,
    as_json: _Json = False,
) -> None:
    """Show how much of an experiment is finished, and about how much CPU time is left."""
    if is_fleet_study(file):
        study = read_fleet_study(file)
        where = output or Path("runs") / study.name
        worlds = {name: finished_worlds(where, name) for name in study.methods}
        if as_json:
            typer.echo(json.dumps(worlds))
            return
        for name, count in worlds.items():
            typer.echo(f"{name}: {count} of {study.worlds} worlds")
        return
    experiment = read_experiment(file)
    folder = output or Path("runs") / experiment.name
    found = progress_of(experiment, folder, beside=find_study(file).parent, data=data)
    if as_json:
        typer.echo(json.dumps([asdict(part) for part in found]))
        return
    table = Table(title=f"{experiment.name} in {folder}")
    table.add_column("method")
    for heading in ("finished", "missing", "failed", "damaged", "different", "CPU s left"):
        table.add_column(heading, justify="right")
    for part in found:
        left = "?" if part.cpu_s_left is None else f"{part.cpu_s_left:,.0f}"
        counts = (part.finished, part.missing, part.failed, part.damaged, part.different)
        table.add_row(part.method, *map(str, counts), left)
    Console().print(table)


@app.command(name="list")
def list_(
    folder: Annotated[
        Path | None, typer.Argument(help="Where experiment files lie; the package's if not given.")
    ] = None,
    runs: Annotated[Path, typer.Option(help="Where their runs lie.")] = Path("runs"),
    *,
    as_json: _Json = False,
) -> None:
    """List the package's studies, or those of a folder, and how many of their runs are stored."""
    where = folder or STUDIES
    if not where.is_dir():
        msg = f"there is no folder {where}; name the one that holds experiments (*.toml)"
        raise DataError(msg)
    rows = []
    for file in sorted(where.glob("*.toml")):
        if folder is None and file.name == "routes.toml":
            continue
        try:
            experiment = read_experiment(file)
        except DataError as error:
            typer.echo(f"Note: {error}", err=True)
            continue
        stored = len(RunStore(runs / experiment.name).stored_folders())
        rows.append(
            {"run": file.stem if folder is None else file.name, "name": experiment.name,
             "title": experiment.title,
             "methods": len(experiment.methods), "stored_runs": stored}
        )  # fmt: skip
    for file in sorted(FLEETS.glob("*.toml")) if folder is None else ():
        study = read_fleet_study(file.stem)
        stored = sum(finished_worlds(runs / study.name, name) for name in study.methods)
        rows.append(
            {"run": file.stem, "name": study.name, "title": study.title,
             "methods": len(study.methods), "stored_runs": stored}
        )  # fmt: skip
    rows += [
        {"run": drives.name, "name": drives.name, "title": drives.title,
         "methods": len(MODELS), "stored_runs": 0}
        for drives in DRIVE_STUDIES.values() if folder is None
    ]  # fmt: skip
    if as_json:
        typer.echo(json.dumps(rows))
        return
    title = "superarm experiment run NAME" if folder is None else f"Experiments in {folder}"
    table = Table(title=title)
    table.add_column("name", no_wrap=True, overflow="fold")  # never cut: it is typed
    table.add_column("what it shows", overflow="fold")
    for heading in ("methods", "stored"):
        table.add_column(heading, justify="right")
    for row in rows:
        table.add_row(*(str(row[key]) for key in ("run", "title", "methods", "stored_runs")))
    Console().print(table)


@app.command()
def report(folder: Annotated[Path, typer.Argument(help="The folder of the runs.")]) -> None:
    """Write one HTML page of an experiment, figures included, from its stored runs."""
    typer.echo(f"Report: {write_report(_opened(folder), folder)}")


def _opened(folder: Path) -> Study:
    """Read a study, and say what could not be read of it."""
    study = Study(folder)
    for note in study.notes:
        typer.echo(f"Note: {note}", err=True)
    return study


@app.command()
def summarise(
    folder: Annotated[Path, typer.Argument(help="The folder of the runs.")],
    output: Annotated[Path | None, typer.Option(help="The Parquet file to write.")] = None,
) -> None:
    """Write means per round, and where every run ended, to small Parquet files."""
    study = _opened(folder)
    target = output or folder / "summary.parquet"
    finals = target.with_name(f"{target.stem}-finals.parquet")
    write_finals(study, finals)
    typer.echo(f"Where every run ended: {finals}")
    write_summary(study, target)
    typer.echo(f"Summary: {target}")


def _engine(name: str, jobs: int, address: str | None) -> Engine:
    if name == "ray":
        return Ray(address, jobs)
    return ThisProcess() if jobs == 1 else Processes(jobs)


@contextmanager
def _progress(plan: RunPlan) -> Iterator[Callable[[RunSpec, bool], None]]:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    left, total = methods_of(plan.todo), methods_of(plan.runs)
    with Progress(*columns, console=Console(stderr=True), speed_estimate_period=3600) as progress:
        tasks = {
            method: progress.add_task(method, total=count, completed=count - left.get(method, 0))
            for method, count in total.items()
        }
        yield lambda spec, _: progress.advance(tasks[spec.method])


@app.command()
def paired(  # noqa: PLR0913 - what to compare
    folder: Annotated[Path, typer.Argument(help="The folder of the runs.")],
    first: Annotated[str, typer.Argument(help="A method.")],
    second: Annotated[str, typer.Argument(help="Another method.")],
    column: Annotated[
        str, typer.Option(help="Of steps.parquet; cumulative regret if not given.")
    ] = REGRET,
    at: Annotated[
        Literal["end", "mean"], typer.Option(help="The last round, or the mean over rounds.")
    ] = "end",
    *,
    as_json: _Json = False,
) -> None:
    """Compare two methods over the worlds both have met: first minus second."""
    found = _opened(folder).paired_by_cell(first, second, name=column, average=at == "mean")
    if as_json:
        rows = {where: asdict(part) for where, part in found.items()}
        for row in rows.values():  # one world has no error, and JSON no NaN
            row["standard_error"] = (
                None if math.isnan(row["standard_error"]) else row["standard_error"]
            )
        typer.echo(json.dumps(rows))
        return
    table = Table(title=f"{first} - {second}: {column} ({at})")
    table.add_column("where")
    for heading in ("mean", "s.e.", "worlds", f"{first} lower"):
        table.add_column(heading, justify="right")
    for where, part in found.items():
        share = f"{part.wins} of {part.pairs}"
        table.add_row(
            where,
            f"{part.mean:,.5g}",
            "–" if math.isnan(part.standard_error) else f"{part.standard_error:,.3g}",
            str(part.pairs),
            share,
        )
    Console().print(table)
