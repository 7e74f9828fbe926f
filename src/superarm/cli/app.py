"""The ``superarm`` command: puts the nouns together and turns errors into exit codes."""

import sys
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from superarm import SuperarmError, __version__
from superarm.cli import bound, demo, experiment, figure, network, serve

app = typer.Typer(
    help="Combinatorial decisions with Gaussian-process rewards.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(demo.app, name="demo")
app.add_typer(network.app, name="network")
app.add_typer(experiment.app, name="experiment")
app.add_typer(figure.app, name="figure")
app.add_typer(bound.app, name="bound")
app.add_typer(serve.app, name="serve")


def _print_version(wanted: bool) -> None:  # noqa: FBT001 - typer passes the flag's value
    if wanted:
        typer.echo(f"superarm {__version__}")
        raise typer.Exit


@app.callback()
def superarm(
    *,
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version.", callback=_print_version, is_eager=True
        ),
    ] = False,
) -> None:
    """Combinatorial decisions with Gaussian-process rewards."""
    del version


def main() -> None:
    """Run the command line: exit 0 done, 1 failed, 2 misuse."""
    try:
        app()
    except (SuperarmError, ImportError, OSError, ValueError) as error:
        text = f"[bold red]superarm:[/] {escape(str(error))}"
        Console(stderr=True).print(text, highlight=False, soft_wrap=True)
        sys.exit(1)
