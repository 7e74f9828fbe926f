"""The ``superarm`` command: puts the nouns together and turns errors into exit codes."""

import importlib
import sys
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from superarm import SuperarmError, __version__

NOUNS = ("demo", "network", "experiment", "figure", "bound", "serve")
"""Each is a module beside this one, with an `app`."""


def _print_version(wanted: bool) -> None:  # noqa: FBT001 - typer passes the flag's value
    if wanted:
        typer.echo(f"superarm {__version__}")
        raise typer.Exit


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


def make_app(*nouns: str) -> typer.Typer:
    """Return the command line with these nouns."""
    app = typer.Typer(
        help="Combinatorial decisions with Gaussian-process rewards.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
    )
    app.callback()(superarm)
    for noun in nouns:
        app.add_typer(importlib.import_module(f"superarm.cli.{noun}").app, name=noun)
    return app


def main() -> None:
    """Run the command line: exit 0 done, 1 failed, 2 misuse."""
    asked = sys.argv[1] if len(sys.argv) > 1 else ""
    try:
        # a noun is read without the others: they take longer to import than most commands run
        make_app(*((asked,) if asked in NOUNS else NOUNS))()
    except (SuperarmError, ImportError, OSError, ValueError) as error:
        text = f"[bold red]superarm:[/] {escape(str(error))}"
        Console(stderr=True).print(text, highlight=False, soft_wrap=True)
        sys.exit(1)
