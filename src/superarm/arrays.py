"""The array types of the whole library, and the checks where arrays enter it.

Fixed letters in docstrings: ``n`` available arms, ``k`` chosen arms, ``d`` context features,
``D`` distinct arms seen so far.
"""

import operator
from typing import Any, TypeAlias, TypeGuard, TypeVar

import numpy as np
from numpy.typing import ArrayLike

Vector: TypeAlias = np.ndarray[tuple[int], np.dtype[np.float64]]
Matrix: TypeAlias = np.ndarray[tuple[int, int], np.dtype[np.float64]]
Rows: TypeAlias = np.ndarray[tuple[int], np.dtype[np.intp]]
Mask: TypeAlias = np.ndarray[tuple[int], np.dtype[np.bool_]]
Pairs: TypeAlias = np.ndarray[tuple[int, int], np.dtype[np.intp]]

_MATRIX_AXES = 2
_Array = TypeVar("_Array", bound=np.ndarray[tuple[int, ...], np.dtype[np.generic]])


def as_vector(name: str, values: ArrayLike, length: int | None = None) -> Vector:
    """Return a read-only copy of finite numbers with one axis, or say what is wrong with them."""
    array = _as_floats(name, values)
    if array.ndim != 1:
        msg = f"{name} must have one axis, got shape {array.shape}"
        raise ValueError(msg)
    if length is not None and array.size != length:
        msg = f"{name} must have length {length}, got {array.size}"
        raise ValueError(msg)
    return frozen(array)


def read_vector(name: str, values: ArrayLike, length: int) -> Vector:
    """Return finite numbers with one axis as they are, uncopied: to be read at once, not kept."""
    array = np.asarray(values, dtype=np.float64)
    if array.shape != (length,):
        msg = f"{name} must have shape ({length},), got {array.shape}"
        raise ValueError(msg)
    _require_finite(name, array)
    return array


def as_matrix(name: str, values: ArrayLike) -> Matrix:
    """Return a read-only copy of finite numbers with two axes, or say what is wrong with them."""
    array = _as_floats(name, values)
    if array.ndim != _MATRIX_AXES:
        msg = f"{name} must have two axes (one row per arm), got shape {array.shape}"
        raise ValueError(msg)
    return frozen(array)


def as_rows(name: str, values: ArrayLike) -> Rows:
    """Return a read-only copy of integers with one axis, or say what is wrong with them.

    What was returned here before is returned as it is: nobody can have written to it.
    """
    if _is_rows(values):
        return values
    array = _as_integers(name, values)
    if array.ndim != 1:
        msg = f"{name} must have one axis, got shape {array.shape}"
        raise ValueError(msg)
    return frozen(array)


def _is_rows(values: object) -> TypeGuard[Rows]:
    """Whether something is positions that own their memory and cannot be written to."""
    return (
        isinstance(values, np.ndarray)
        and values.dtype == np.intp
        and values.ndim == 1
        and values.base is None
        and not values.flags.writeable
    )


def as_positions(name: str, values: ArrayLike, size: int) -> Rows:
    """Return positions from 0 to size - 1; a boolean mask of that size stands for its true ones."""
    given = np.asarray(values)
    if given.dtype == np.bool_ and given.size:
        if given.shape != (size,):
            msg = f"{name} is a mask of shape {given.shape}; expected shape ({size},)"
            raise ValueError(msg)
        return np.flatnonzero(given)
    rows = as_rows(name, given)
    outside = (rows < 0) | (rows >= size)
    if outside.any():
        msg = f"{name} holds position {int(rows[outside][0])}; expected 0 to {size - 1}"
        raise ValueError(msg)
    return rows


def as_pairs(name: str, values: ArrayLike, n_left: int, n_right: int) -> Pairs:
    """Return a read-only (m, 2) copy of integers inside ``[0, n_left) x [0, n_right)``."""
    array = _as_integers(name, values)
    if array.size == 0:
        array = array.reshape(0, 2)
    if array.ndim != _MATRIX_AXES or array.shape[1] != 2:  # noqa: PLR2004 - a pair has two entries
        msg = f"{name} must be pairs, shape (m, 2), got shape {array.shape}"
        raise ValueError(msg)
    outside = (array < 0).any(axis=1) | (array >= np.array([n_left, n_right])).any(axis=1)
    if outside.any():
        where = int(np.flatnonzero(outside)[0])
        msg = (
            f"{name}[{where}] = {tuple(array[where].tolist())} is outside "
            f"[0, {n_left}) x [0, {n_right})"
        )
        raise ValueError(msg)
    return frozen(array)


def as_count(name: str, value: int) -> int:
    """Return a whole number, or say that it is none."""
    try:
        return operator.index(value)
    except TypeError as error:
        msg = f"{name} must be a whole number, got {value!r}"
        raise ValueError(msg) from error


def as_per_arm(name: str, values: ArrayLike, length: int) -> Vector:
    """Return one number per arm: a scalar is repeated, a vector must have the right length."""
    if np.ndim(values) == 0:
        values = np.full(length, np.asarray(values, dtype=np.float64))
    return as_vector(name, values, length)


def require_positive(name: str, values: ArrayLike) -> None:
    """Raise unless every number is finite and above zero."""
    array = np.asarray(values, dtype=np.float64)
    bad = ~(np.isfinite(array) & (array > 0))
    if bad.any():
        first = float(array[bad].flat[0])
        msg = f"{name} must be positive and finite, got {first}"
        raise ValueError(msg)


def require_generator(name: str, rng: object) -> None:
    """Raise unless this is a random generator."""
    if not isinstance(rng, np.random.Generator):
        msg = (
            f"{name} must be a numpy.random.Generator, got {rng!r}; "
            "make one with np.random.default_rng(seed)"
        )
        raise TypeError(msg)


def frozen(array: _Array) -> _Array:
    """Forbid writing to an array and return it."""
    array.setflags(write=False)
    return array


def _as_floats(name: str, values: ArrayLike) -> np.ndarray[Any, np.dtype[np.float64]]:
    array = np.array(values, dtype=np.float64, order="C")  # whatever order it comes in
    _require_finite(name, array)
    return array


def _require_finite(name: str, array: np.ndarray[Any, np.dtype[np.float64]]) -> None:
    bad = ~np.isfinite(array)
    if bad.any():
        where = np.argwhere(bad)[0].tolist()
        msg = f"{name} must be finite, got {array[bad].flat[0]} at position {where}"
        raise ValueError(msg)


def _as_integers(name: str, values: ArrayLike) -> np.ndarray[Any, np.dtype[np.intp]]:
    given = np.asarray(values)
    if given.size and given.dtype.kind not in "iu":
        hint = " (from -2^63 to 2^63 - 1)" if given.dtype.kind == "O" else ""
        msg = f"{name} must be integers{hint}, got {given.dtype}"
        raise ValueError(msg)
    if given.size and given.dtype.kind == "u" and given.max() > np.iinfo(np.intp).max:
        msg = f"{name} must be integers up to {np.iinfo(np.intp).max}, got {given.max()}"
        raise ValueError(msg)
    return np.array(given, dtype=np.intp)
