"""The ``superarm`` command: puts the nouns together and turns errors into exit codes."""

import importlib
import sys
from typing import Annotated

import typer

from superarm import SuperarmError, __version__

NOUNS = {
    "demo": "Watch the algorithms learn.",
    "network": "Road networks: generate, import, show, update, list, fetch.",
    "trips": "Trips from logs of vehicles: import, report.",
    "experiment": "Studies: run, status, list, report, summarise, paired.",
    "figure": "Figures of stored experiments.",
    "bound": "Regret bounds.",
    "serve": "Routes that learn, over HTTP.",
    "simulate": "A fleet in SUMO that asks a running service.",
}
"""Each is a module beside this one, with an `app`; it is imported only when it is asked for."""


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


def make_app(asked: str = "") -> typer.Typer:
    """Return the command line; of all nouns but the one asked for only the names are known."""
    app = typer.Typer(
        help="Combinatorial decisions with Gaussian-process rewards.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
    )
    app.callback()(superarm)
    for noun, text in NOUNS.items():
        part = importlib.import_module(f"superarm.cli.{noun}").app if noun == asked else _named()
        app.add_typer(part, name=noun, help=text)
    return app


def _named() -> typer.Typer:
    """Return a noun that is only listed."""
    part = typer.Typer()
    part.command(name="-", hidden=True)(lambda: None)
    part.callback()(lambda: None)
    return part


def main() -> None:
    """Run the command line: exit 0 done, 1 failed, 2 misuse."""
    asked = next((word for word in sys.argv[1:] if not word.startswith("-")), "")
    try:
        make_app(asked)()
    except (SuperarmError, ImportError, OSError, ValueError) as error:
        _say(str(error))
        sys.exit(1)


def _say(text: str) -> None:
    from rich.console import Console  # noqa: PLC0415 - only where something went wrong
    from rich.markup import escape  # noqa: PLC0415

    told = f"[bold red]superarm:[/] {escape(text)}"
    Console(stderr=True).print(told, highlight=False, soft_wrap=True)
