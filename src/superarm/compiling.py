"""Compilation of array loops by numba, with their types kept for the checker."""

from collections.abc import Callable
from typing import ParamSpec, TypeVar, cast

import numba

_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")


def compiled(function: Callable[_Parameters, _Result]) -> Callable[_Parameters, _Result]:
    """Compile a function on first use and keep the machine code on disk, where that is possible.

    Other threads go on while it runs: these functions touch nothing but the arrays they are given.
    """
    return _compiled(function, in_order=True)


def compiled_in_any_order(
    function: Callable[_Parameters, _Result],
) -> Callable[_Parameters, _Result]:
    """Compile likewise a function whose sums may be taken in any order, several at a time.

    What comes out differs by rounding.
    """
    return _compiled(function, in_order=False)


def _compiled(
    function: Callable[_Parameters, _Result], *, in_order: bool
) -> Callable[_Parameters, _Result]:
    loose = set() if in_order else {"reassoc", "contract", "nsz"}
    try:
        fast = numba.njit(cache=True, nogil=True, fastmath=loose)(function)
    except RuntimeError:  # a read-only installation without a home folder
        fast = numba.njit(nogil=True, fastmath=loose)(function)
    return cast("Callable[_Parameters, _Result]", fast)
