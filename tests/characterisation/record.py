"""Records answers anew: only those named, and of these only those that differ.

Usage: python tests/characterisation/record.py --only NAME...

A name is a source (``city``), a file (``city-after-minutes``) or a case (``towns/before, mean 0``),
with ``*`` for any text.
"""

import argparse
import sys
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from characterisation.comparing import RECORDED, differences, read_recorded
from characterisation.forms import write
from characterisation.sources import SOURCES, Source


def main() -> None:
    """Record what is named on the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", required=True, metavar="NAME")
    names: list[str] = parser.parse_args().only
    RECORDED.mkdir(exist_ok=True)
    for name, source in SOURCES.items():
        whole = [*names, "*"] if _is_named(name, names) else names
        if any(_may_hold(file, whole) for file in source.files):
            _record(name, source, names)


def _record(name: str, source: Source, names: Sequence[str]) -> None:
    try:
        files = source.answers()
    except pytest.skip.Exception as skipped:
        sys.stdout.write(f"{name}: not asked: {skipped}\n")
        return
    for file, answers in files.items():
        before = read_recorded(file)
        cases = dict(before)
        for case, lines in differences(file, answers, source.tolerance).items():
            if not any(_is_named(what, names) for what in (name, file, f"{file}/{case}")):
                continue
            sys.stdout.write("\n".join([*lines, ""]))
            cases.pop(case, None)
            if case in answers:
                cases[case] = answers[case]
        if cases != before:
            (RECORDED / f"{file}.json").write_text(write(cases), encoding="utf-8")


def _is_named(what: str, names: Sequence[str]) -> bool:
    return any(fnmatchcase(what, name) for name in names)


def _may_hold(file: str, names: Sequence[str]) -> bool:
    """Say whether a file may hold a case that is named."""
    return any(fnmatchcase(file, name.partition("/")[0]) for name in names)


if __name__ == "__main__":
    main()
