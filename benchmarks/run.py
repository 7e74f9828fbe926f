"""Run all benchmarks, each in a process of its own with one BLAS thread, and write the tables.

Usage: make bench, or python benchmarks/run.py [NAME[:PART] ...] [-- OPTION ...]
"""

import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results"
NAMES = (
    "rounds",
    "scaling",
    "ensemble",
    "peers",
    "navigation",
    "methods",
    "theory",
    "fitting",
    "clicks",
    "shop",
    "simulation",
    "matching",
    "exploring",
    "planning",
    "charges",
    "durations",
    "readers",
    "hierarchies",
    "tenants",
)
ONE_THREAD = dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1"
)


def main() -> None:
    """Run the benchmarks named, or all."""
    RESULTS.mkdir(exist_ok=True)
    given = sys.argv[1:]
    cut = given.index("--") if "--" in given else len(given)
    for asked in given[:cut] or NAMES:
        script, _, part = asked.partition(":")
        name = f"{script}-{part}" if part else script
        print(f"== {name}", flush=True)
        options = [*([part] if part else []), *given[cut + 1 :]]
        done = subprocess.run(  # noqa: S603 - the project's own scripts
            [sys.executable, str(HERE / f"{script}.py"), *options],
            env=os.environ | ONE_THREAD,
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        )
        tables: list[dict[str, Any]] = json.loads(done.stdout)
        text = "\n\n".join([f"# Benchmark: {name}", _machine(), *map(_table, tables)]) + "\n"
        print(text, flush=True)
        (RESULTS / f"{name}.md").write_text(text, encoding="utf-8")


def _machine() -> str:
    return (
        f"Made by `make bench` on {platform.machine()}, {os.cpu_count()} cores, "
        f"Python {platform.python_version()}, one BLAS thread. Ratios are from this one run."
    )


def _table(table: dict[str, Any]) -> str:
    lines = [f"## {table['title']}", ""]
    if table["rows"]:
        heads = list(table["rows"][0])
        lines += ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
        lines += ["| " + " | ".join(_cell(row[h]) for h in heads) + " |" for row in table["rows"]]
    return "\n".join([*lines, *(["", *table["notes"]] if table["notes"] else [])])


def _cell(value: object) -> str:
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:,.3g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


if __name__ == "__main__":
    main()
