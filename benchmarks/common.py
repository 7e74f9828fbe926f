"""What the benchmarks share: the problem of the paper's size, clocks, tables."""

import json
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from superarm import Arms
from superarm.kernels import Kernel, Matern52

NOISE_VARIANCE = 0.16


def points(n_arms: int, seed: int = 0) -> Arms:
    """Arms with three standardised features, like length, speed limit and incline of roads."""
    return Arms(np.arange(n_arms), np.random.default_rng(seed).standard_normal((n_arms, 3)))


def kernel() -> Kernel:
    """A sum and product of Matérn kernels with variance one."""
    return Matern52(1.0, 0.5) * Matern52(1.0) + Matern52(1.0, 0.5)


def cpu_ms(action: Callable[[], object]) -> float:
    """CPU time of one call in milliseconds."""
    begin = time.process_time()
    action()
    return 1e3 * (time.process_time() - begin)


def peak_mib() -> float:
    """The most memory this process has held, in MiB."""
    status = Path("/proc/self/status")
    if status.exists():  # getrusage would count the parent's memory from before exec
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def table(title: str, rows: list[dict[str, Any]], *notes: str) -> dict[str, Any]:
    """Describe a table."""
    return {"title": title, "rows": rows, "notes": list(notes)}


def report(*tables: dict[str, Any]) -> None:
    """Hand the tables over to run.py."""
    json.dump(tables, sys.stdout)


def say(text: str) -> None:
    """Tell the user what is going on."""
    print(text, file=sys.stderr, flush=True)
