"""``superarm demo``: watch the algorithms learn, in under a minute."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from superarm.problems import Result
from superarm.problems.figures import draw_regret
from superarm.problems.subset_demo import METHODS, run_subset_demo

app = typer.Typer(help="Watch the algorithms learn.", invoke_without_command=True)

_FOLDER = Path("superarm-demo")
_Output = Annotated[Path, typer.Option(help="Folder for the figure.")]
_Rounds = Annotated[int, typer.Option(min=1, help="Rounds T per run.")]
_Repeats = Annotated[int, typer.Option(min=2, help="Worlds drawn.")]
_Seed = Annotated[int, typer.Option(min=0, help="Seed of all randomness.")]


@app.callback()
def demo(context: typer.Context) -> None:
    """Run the main demonstration, or the one named."""
    if context.invoked_subcommand is None:
        subsets()


@app.command()
def subsets(
    output: _Output = _FOLDER, rounds: _Rounds = 300, repeats: _Repeats = 10, seed: _Seed = 0
) -> None:
    """Choose 5 of about 100 points on offer, out of 600 in three dimensions."""
    output.mkdir(parents=True, exist_ok=True)
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console) as progress:
        tasks = {name: progress.add_task(name, total=repeats) for name in METHODS}
        results = run_subset_demo(
            horizon=rounds,
            repeats=repeats,
            seed=seed,
            on_run=lambda name, _: progress.advance(tasks[name]),
        )
    _print_table(results, rounds, repeats)
    figure = output / "subsets-regret.png"
    draw_regret(results, figure, title="Choose 5 of about 100 volatile arms (600 in all)")
    typer.echo(f"Figure: {figure}")


def _print_table(results: dict[str, Result], rounds: int, repeats: int) -> None:
    table = Table(title=f"Cumulative regret after {rounds} rounds, {repeats} worlds")
    table.add_column("method")
    for heading in ("regret", "s.e.", "ms per round"):
        table.add_column(heading, justify="right")
    for name, result in sorted(results.items(), key=lambda item: item[1].regret.mean[-1]):
        regret = result.regret
        table.add_row(
            name,
            f"{regret.mean[-1]:.1f}",
            f"{regret.standard_error[-1]:.1f}",
            f"{result.milliseconds:.2f}",
        )
    Console().print(table)
