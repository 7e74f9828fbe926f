"""Save an agent and go on later, bit for bit: the agent, the round, and random generators."""

import operator
import os
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from superarm.errors import DataError
from superarm.saving.values import load_value, save_value

_GENERATORS = ("PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64")


class SavedRun(NamedTuple):
    """What `load` returns: go on with ``play(..., start=t + 1)``.

    Attributes:
        agent: as it was.
        t: the last round played; 0 where none was named.
        world: the generator of the world, or None if none was saved.
        mind: the generator of the agent, or None if none was saved.
    """

    agent: Any
    t: int
    world: Any
    mind: Any


def save(
    agent: object,
    path: str | os.PathLike[str],
    *,
    t: int = 0,
    world: np.random.Generator | None = None,
    mind: np.random.Generator | None = None,
) -> None:
    """Write an agent to a file, which appears complete or not at all.

    Kernels, policies, oracles and feasible sets of your own can be saved if they are dataclasses,
    functions (prior means, quantile levels) if they have a name in a module; `load` must then be
    told of them.

    Args:
        agent: an `superarm.Agent`, or one that wraps it.
        path: the file.
        t: the last round played, if a run is to go on.
        world: the generator of the world, if a run is to go on.
        mind: the generator of the agent, likewise.
    """
    last = operator.index(t)
    if last < 0:
        msg = f"t must be the last round played (0 if none), got {t}"
        raise ValueError(msg)
    run = {
        "agent": agent,
        "t": last,
        "world": _generator_state(world),
        # one generator for both must stay one
        "mind": "world" if mind is world else _generator_state(mind),
    }
    save_value(run, path)


def load(path: str | os.PathLike[str], *, known: Iterable[object] = ()) -> SavedRun:
    """Read what `save` has written.

    Args:
        path: the file.
        known: classes and functions of your own that the agent uses.
    """
    run = load_value(path, known=known)
    name = os.fspath(path)
    if not isinstance(run, dict) or run.keys() != {"agent", "t", "world", "mind"}:
        msg = f"{name} holds no agent but a {type(run).__name__}; read it with load_value"
        raise DataError(msg)
    try:
        world = _generator(name, run["world"])
        mind = world if run["mind"] == "world" else _generator(name, run["mind"])
        return SavedRun(run["agent"], operator.index(run["t"]), world, mind)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        msg = f"{name} is damaged: its round or a generator is none: {error}"
        raise DataError(msg) from error


def _generator_state(rng: np.random.Generator | None) -> dict[str, Any] | None:
    if rng is None:
        return None
    bits = rng.bit_generator
    if type(bits).__name__ not in _GENERATORS:
        msg = f"cannot save a {type(bits).__name__} generator; use one of {_GENERATORS}"
        raise ValueError(msg)
    sequence = bits.seed_seq
    seeds = sequence.state if isinstance(sequence, np.random.SeedSequence) else None
    return {"state": bits.state, "seeds": seeds}


def _generator(name: str, stored: dict[str, Any] | None) -> np.random.Generator | None:
    if stored is None:
        return None
    kind = stored["state"]["bit_generator"]
    if kind not in _GENERATORS:
        msg = f"{name} holds a {kind!r} generator; expected one of {_GENERATORS}"
        raise DataError(msg)
    seeds = None if stored["seeds"] is None else np.random.SeedSequence(**stored["seeds"])
    bits = getattr(np.random, kind)(seeds)
    bits.state = stored["state"]
    return np.random.Generator(bits)
