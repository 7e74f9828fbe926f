"""Where the history of trips is cut into blocks, by sequence numbers alone.

Devices are judged block by block: the trips of one are compared with what was believed before its
first, jointly. Small ones come first, since little is known then and each trip changes much.
"""

_FIRST = 16
EXACT_BLOCK = 128
"""Trips of a block where the belief is exact."""

ENSEMBLE_BLOCK = 2_048
"""Likewise where it is an ensemble: each time it learns takes as long, however few the trips."""


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
