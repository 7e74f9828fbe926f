"""``superarm demo``: watch the algorithms learn, in a minute or two."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from superarm.demos.navigation import run_congestion, run_demo
from superarm.demos.page import write_page
from superarm.demos.subsets import METHODS as SUBSET_METHODS
from superarm.demos.subsets import run_subset_demo
from superarm.evaluation import Results
from superarm.evaluation.figures import draw_regret
from superarm.roads.bandit.agents import METHODS

app = typer.Typer(help="Watch the algorithms learn.", invoke_without_command=True)

_FOLDER = Path("superarm-demo")
_Output = Annotated[Path, typer.Option(help="Folder for the figure.")]
_Rounds = Annotated[int, typer.Option(min=1, help="Rounds T per run.")]
_Repeats = Annotated[int, typer.Option(min=2, help="Worlds drawn.")]
_Seed = Annotated[int, typer.Option(min=0, help="Seed of all randomness.")]


@app.callback()
def demo(context: typer.Context) -> None:
    """Watch a navigator learn (the default), or one of the demonstrations named below."""
    if context.invoked_subcommand is None:
        navigation()


@app.command()
def navigation(
    output: _Output = _FOLDER,
    rounds: _Rounds = 80,
    repeats: _Repeats = 3,
    edges: Annotated[int, typer.Option(min=500, max=20_000, help="Edges of the city.")] = 4000,
    seed: _Seed = 0,
) -> None:
    """Learn two routes of a generated city while driving them; leaves an HTML page."""
    with _progress(METHODS, 2 * repeats) as advance:
        found = run_demo(n_edges=edges, horizon=rounds, repeats=repeats, seed=seed, on_run=advance)
    for route in found.routes:
        _print_table(
            route.results, f"Route {route.name}: regret (Wh) after {rounds} trips, {repeats} worlds"
        )
    page, picture = write_page(found, output)
    typer.echo(f"Page: {page}")
    typer.echo(f"Picture: {picture}")


@app.command()
def congestion(
    output: _Output = _FOLDER,
    rounds: _Rounds = 48,
    repeats: _Repeats = 10,
    edges: Annotated[int, typer.Option(min=500, max=20_000, help="Edges of the city.")] = 2000,
    seed: _Seed = 0,
) -> None:
    """Drive through rush hours: contexts are new every round (a day of half hours)."""
    output.mkdir(parents=True, exist_ok=True)
    methods = ("GP-TS", "BI-TS")
    with _progress(methods, repeats) as advance:
        results = run_congestion(
            n_edges=edges, horizon=rounds, repeats=repeats, seed=seed, on_run=advance
        )
    _print_table(results, f"Regret (Wh) after {rounds} trips, {repeats} worlds")
    figure = output / "congestion-regret.png"
    title = "Congestion enters the contexts: a streaming GP against independent segments"
    draw_regret(results, figure, title=title, label="cumulative regret (Wh)")
    typer.echo(f"Figure: {figure}")


@app.command()
def subsets(
    output: _Output = _FOLDER, rounds: _Rounds = 300, repeats: _Repeats = 10, seed: _Seed = 0
) -> None:
    """Choose 5 of about 100 points on offer, out of 600 in three dimensions."""
    output.mkdir(parents=True, exist_ok=True)
    with _progress(SUBSET_METHODS, repeats) as advance:
        results = run_subset_demo(horizon=rounds, repeats=repeats, seed=seed, on_run=advance)
    _print_table(results, f"Cumulative regret after {rounds} rounds, {repeats} worlds")
    figure = output / "subsets-regret.png"
    draw_regret(results, figure, title="Choose 5 of about 100 volatile arms (600 in all)")
    typer.echo(f"Figure: {figure}")


@contextmanager
def _progress(methods: Sequence[str], total: int) -> Iterator[Callable[[str, int], None]]:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as progress:
        tasks = {name: progress.add_task(name, total=total) for name in methods}
        yield lambda name, _: progress.advance(tasks[name])


def _print_table(results: Results, title: str) -> None:
    table = Table(title=title, min_width=64)
    table.add_column("method")
    for heading in ("regret", "s.e.", "ms per round"):
        table.add_column(heading, justify="right")
    for name, result in sorted(results.items(), key=lambda item: item[1].regret.mean[-1]):
        regret = result.regret
        table.add_row(
            name,
            f"{regret.mean[-1]:,.1f}",
            f"{regret.standard_error[-1]:.1f}",
            f"{result.milliseconds:.2f}",
        )
    Console().print(table)
