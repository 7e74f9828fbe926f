"""The command line: ``superarm <noun> <verb>``."""

from superarm.cli.app import main

__all__ = ["main"]
