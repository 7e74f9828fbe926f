"""Import budgets: how much of the package an entry point loads, and how long that takes.

The limits are ratchets: today's values, to be lowered and never raised. Processor time is a
multiple of that of importing NumPy in the same test, so that a slow machine changes nothing.
"""

import json
import subprocess
from dataclasses import dataclass

import pytest

_REPEATS = 3
_PROGRAM = """
import json, sys, time
{statement}
names = [name for name in sys.modules if name.partition(".")[0] == "superarm"]
print(json.dumps([time.process_time(), len(names), sorted(sys.modules)]))
"""


HEAVY = {"numba", "scipy", "sqlalchemy", "alembic", "matplotlib"}


@dataclass(frozen=True)
class Cost:
    """What a statement costs in a fresh process.

    Attributes:
        cpu_s: processor seconds from the start of Python to the end of the statement, at best.
        modules: how many modules of the package are loaded.
        names: of all modules that are loaded.
    """

    cpu_s: float
    modules: int
    names: frozenset[str]


def cost_of(python: str, statement: str) -> Cost:
    program, runs = _PROGRAM.format(statement=statement), []
    for _ in range(_REPEATS):
        done = subprocess.run([python, "-c", program], capture_output=True, text=True, check=True)
        runs.append(json.loads(done.stdout.splitlines()[-1]))
    return Cost(min(run[0] for run in runs), runs[0][1], frozenset(runs[0][2]))


@pytest.mark.parametrize(
    ("statement", "most_modules", "most_numpy", "forbidden"),
    [
        ("import superarm", 20, 4.0, HEAVY | {"pydantic"}),
        ("import superarm.client", 21, 4.0, HEAVY | {"pydantic"}),
        ("import superarm.roads.vehicle", 22, 4.0, HEAVY | {"pydantic"}),
        ("import superarm.roads.routing.query", 24, 4.0, HEAVY | {"pydantic"}),
        ("import superarm.service.http.schemas", 27, 8.0, HEAVY | {"fastapi", "typer"}),
        ("import superarm.service.routes.schemas", 29, 8.0, HEAVY | {"fastapi", "typer"}),
        ("import superarm.service.trips.schemas", 31, 8.0, HEAVY | {"fastapi", "typer"}),
        ("import superarm.experiments.config", 25, 8.0, HEAVY | {"fastapi", "typer"}),
    ],
)
def test_an_import_stays_within_its_budget(
    python: str, statement: str, most_modules: int, most_numpy: float, forbidden: set[str]
) -> None:
    nothing, numpy, cost = (cost_of(python, one) for one in ("", "import numpy", statement))
    assert cost.modules <= most_modules
    assert not cost.names & forbidden
    assert cost.cpu_s - nothing.cpu_s <= most_numpy * (numpy.cpu_s - nothing.cpu_s)
