"""Where the history of trips is cut into blocks, by sequence numbers alone.

Devices are judged block by block: the trips of one are compared with what was believed before its
first, jointly. Small ones come first, since little is known then and each trip changes much.
"""

_FIRST = 16
_EXACT, _ARMS = 128, 16
"""Trips of a block where the belief is exact; more where one costs as much per trip for less."""
_ENSEMBLE = 2_048
"""Likewise where it is an ensemble: each time it learns takes as long, however few the trips."""


def block_of(n_arms: int, *, exact: bool) -> int:
    """Return how many trips a block holds at the most.

    Learning a few trips of many arms takes as long per trip as learning n / 16 of them; more take
    less. A backlog is learned in blocks, so that these are as long.

    >>> [block_of(n, exact=True) for n in (500, 2_000, 5_700, 12_000)]
    [128, 128, 512, 1024]
    """
    size = _EXACT if exact else _ENSEMBLE
    while exact and size * _ARMS < n_arms:
        size *= 2
    return size


def next_cut(number: int, largest: int) -> int:
    """Return the last sequence number of the block that begins after a number.

    Blocks end at 16, 32, 64 and so on up to the largest, and at its multiples from there.

    >>> [next_cut(number, 128) for number in (0, 15, 16, 40, 127, 128, 300)]
    [16, 16, 32, 64, 128, 256, 384]
    """
    if number >= largest:
        return (number // largest + 1) * largest
    cut = _FIRST
    while cut <= number:
        cut *= 2
    return cut
