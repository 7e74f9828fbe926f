"""``superarm data``: data of other people, fetched and written as logs."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from superarm.matching.ved import URL, fetch_archives, write_electric_logs
from superarm.navigation.formats.fetch import cache_folder

app = typer.Typer(help="Data of other people: fetch.", no_args_is_help=True)


@app.callback()
def data() -> None:
    """Data of other people: fetch."""


@app.command()
def fetch(
    name: Annotated[
        Literal["ved"], typer.Argument(help="ved: the Vehicle Energy Dataset's electric cars")
    ],
    output: Annotated[Path, typer.Option(help="Where to write the logs (.parquet).")] = Path(
        "ved.parquet"
    ),
    url: Annotated[str, typer.Option(help="Another folder to get the archives from.")] = URL,
) -> None:
    """Download a published dataset, once, and write its electric vehicles as logs."""
    archives = fetch_archives(cache_folder() / name, url, _told)
    count = write_electric_logs(archives, output, _told)
    typer.echo(f"Logs: {output}, {count:,} points")
    typer.echo(f"Next: superarm trips import {output} --unit time=s --network FILE")


def _told(text: str) -> None:
    typer.echo(text, err=True)
