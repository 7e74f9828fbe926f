"""Columns dealt out to threads, for compiled loops that run outside the interpreter's lock."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache

_MOST = 4


def workers() -> int:
    """Return how many threads work on columns."""
    return max(1, min(_MOST, os.cpu_count() or 1))


def in_blocks(count: int, work: Callable[[int, int], None], widths: tuple[int, ...]) -> None:
    """Call `work(begin, width)` for blocks of columns, side by side on the threads there are.

    Args:
        count: how many columns.
        work: does its part; it must not touch what others do.
        widths: that blocks may have, falling to one.
    """
    most = -(-count // workers())
    blocks, begin = [], 0
    while begin < count:
        fits = min(count - begin, most)
        width = next(width for width in widths if width <= fits)
        blocks.append((begin, width))
        begin += width
    if len(blocks) == 1 or workers() == 1:
        for block in blocks:
            work(*block)
        return
    for _ in _pool(os.getpid()).map(lambda block: work(*block), blocks):
        pass


@cache
def _pool(process: int) -> ThreadPoolExecutor:
    del process  # threads do not outlive a fork
    return ThreadPoolExecutor(workers(), thread_name_prefix="columns")
