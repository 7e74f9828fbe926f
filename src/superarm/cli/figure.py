"""``superarm figure``: draw the figures of an experiment again."""

from pathlib import Path
from typing import Annotated

import typer

from superarm.experiments.figures import draw_figures
from superarm.experiments.study import Study

app = typer.Typer(help="Figures of stored experiments.", no_args_is_help=True)


@app.callback()
def figure() -> None:
    """Figures of stored experiments."""


@app.command()
def draw(
    folder: Annotated[Path, typer.Argument(help="The folder of an experiment's runs.")],
    output: Annotated[
        Path | None, typer.Option(help="Folder for the figures; FOLDER/figures if not given.")
    ] = None,
) -> None:
    """Draw the figures an experiment declares, PNG and PDF, from its stored runs alone."""
    target = output or folder / "figures"
    study = Study(folder)
    for note in study.notes:
        typer.echo(f"Note: {note}", err=True)
    for name in draw_figures(study, target):
        typer.echo(f"Figure: {target / name}.png and .pdf")
