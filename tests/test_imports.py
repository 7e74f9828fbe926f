"""What is imported when: commands start fast because they read only what they need."""

import importlib
import subprocess

import pytest


def imported(python: str, statement: str) -> set[str]:
    program = f"{statement}\nimport sys\nprint(*sys.modules)"
    done = subprocess.run([python, "-c", program], capture_output=True, text=True, check=True)
    return set(done.stdout.splitlines()[-1].split())


VERSION = """
import sys
sys.argv = ["superarm", "--version"]
from superarm.cli import main
try:
    main()
except SystemExit:
    pass
"""


@pytest.mark.parametrize(
    ("statement", "unwanted"),
    [
        (VERSION, ("scipy", "numba", "matplotlib", "pydantic", "superarm.roads")),
        ("import superarm", ("scipy", "numba", "matplotlib", "superarm.beliefs")),
        ("import superarm.policies", ("numba", "matplotlib", "superarm.theory")),
        ("import superarm.beliefs", ("matplotlib", "superarm.theory", "superarm.roads")),
        ("import superarm.saving", ("scipy", "numba", "superarm.beliefs")),
    ],
)
def test_nothing_is_imported_that_is_not_needed(
    python: str, statement: str, unwanted: tuple[str, ...]
) -> None:
    assert not imported(python, statement) & set(unwanted)


@pytest.mark.parametrize(
    ("module", "new"),
    [
        ("superarm.navigation", "superarm.roads.network"),
        ("superarm.navigation.vehicle", "superarm.roads.vehicle"),
        ("superarm.matching", "superarm.roads.matching"),
        ("superarm.matching.trips", "superarm.roads.imports"),
    ],
)
def test_an_old_package_says_where_its_names_are(module: str, new: str) -> None:
    with pytest.raises(ImportError, match=new):
        importlib.import_module(module)
