"""Save a run and go on later, bit for bit: agent, round and both random generators.

The file is a line with format, version and SHA-256, followed by a ZIP archive of ``state.json`` and
one ``.npy`` file per array. There is no pickle in it: reading it builds known dataclasses from
their fields and runs no code of the file.
"""

import hashlib
import json
import operator
import os
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

from superarm.agent import Agent
from superarm.encoding import Decoder, Encoder
from superarm.errors import DataError
from superarm.files import write_atomically

VERSION = 1
_MAGIC = "superarm-state"
_HEADER_BYTES = 128
_CHUNK = 1 << 20
_GENERATORS = ("PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64")


class SavedRun(NamedTuple):
    """What `load` returns: go on with ``play(..., start=t + 1)``."""

    agent: Agent[Any, Any]
    t: int
    world: np.random.Generator
    mind: np.random.Generator


def save(
    agent: Agent[Any, Any],
    path: str | os.PathLike[str],
    *,
    t: int,
    world: np.random.Generator,
    mind: np.random.Generator,
) -> None:
    """Write a run after round t; the file appears complete or not at all.

    Kernels, policies, oracles and feasible sets of your own can be saved if they are dataclasses,
    functions (prior means, quantile levels) if they have a name in a module; `load` must then be
    told of them.
    """
    last = operator.index(t)
    if last < 0:
        msg = f"t must be the last round played (0 if none), got {t}"
        raise ValueError(msg)
    encoder = Encoder()
    tree = {
        "agent": encoder.encode(agent),
        "t": last,
        "world": encoder.encode(_generator_state(world)),
        # one generator for both must stay one
        "mind": None if mind is world else encoder.encode(_generator_state(mind)),
    }
    Decoder("what was to be saved", encoder.arrays, encoder.named.values()).decode(tree["agent"])
    write_atomically(path, lambda file: _write(file, tree, encoder.arrays))


def load(path: str | os.PathLike[str], *, known: Iterable[object] = ()) -> SavedRun:
    """Read a run written by `save`.

    Args:
        path: the file.
        known: classes and functions of your own that the run uses.
    """
    name = os.fspath(path)
    with Path(path).open("rb") as file:
        _check_header(name, file)
        with zipfile.ZipFile(file) as archive:
            tree = json.loads(archive.read("state.json"))
            decoder = Decoder(name, _Arrays(archive), known)
            world = _generator(name, decoder.decode(tree["world"]))
            mind = world
            if tree["mind"] is not None:
                mind = _generator(name, decoder.decode(tree["mind"]))
            return SavedRun(decoder.decode(tree["agent"]), int(tree["t"]), world, mind)


class _Arrays:
    """The arrays of an archive, read when asked for."""

    def __init__(self, archive: zipfile.ZipFile) -> None:
        self._archive = archive

    def __getitem__(self, key: str) -> np.ndarray[Any, np.dtype[Any]]:
        with self._archive.open(f"{key}.npy") as file:
            array = np.lib.format.read_array(file, allow_pickle=False)
        array.setflags(write=False)
        return array


def _write(
    file: IO[bytes], tree: dict[str, Any], arrays: dict[str, np.ndarray[Any, np.dtype[Any]]]
) -> None:
    file.write(b" " * _HEADER_BYTES)
    with zipfile.ZipFile(file, "a", zipfile.ZIP_STORED) as archive:
        archive.writestr("state.json", json.dumps(tree))
        for key, array in arrays.items():
            with archive.open(f"{key}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)
    digest = _digest(file)
    file.seek(0)
    file.write(f"{_MAGIC} {VERSION} {digest}".encode().ljust(_HEADER_BYTES - 1) + b"\n")


def _check_header(name: str, file: IO[bytes]) -> None:
    words = file.read(_HEADER_BYTES).decode("ascii", errors="replace").split()
    if len(words) != 3 or words[0] != _MAGIC or not words[1].isdigit():  # noqa: PLR2004
        msg = f"{name} is no saved run: it does not start with {_MAGIC!r}, or is truncated"
        raise DataError(msg)
    if int(words[1]) > VERSION:
        msg = (
            f"{name} has format version {words[1]}, this superarm reads up to {VERSION}; "
            "install a newer superarm"
        )
        raise DataError(msg)
    if _digest(file) != words[2]:
        msg = f"{name} is damaged or truncated: its checksum does not match; use another copy"
        raise DataError(msg)


def _digest(file: IO[bytes]) -> str:
    file.seek(_HEADER_BYTES)
    digest = hashlib.sha256()
    while chunk := file.read(_CHUNK):
        digest.update(chunk)
    return digest.hexdigest()


def _generator_state(rng: np.random.Generator) -> dict[str, Any]:
    bits = rng.bit_generator
    if type(bits).__name__ not in _GENERATORS:
        msg = f"cannot save a {type(bits).__name__} generator; use one of {_GENERATORS}"
        raise ValueError(msg)
    sequence = bits.seed_seq
    seeds = sequence.state if isinstance(sequence, np.random.SeedSequence) else None
    return {"state": bits.state, "seeds": seeds}


def _generator(name: str, stored: dict[str, Any]) -> np.random.Generator:
    kind = stored["state"]["bit_generator"]
    if kind not in _GENERATORS:
        msg = f"{name} holds a {kind!r} generator; expected one of {_GENERATORS}"
        raise DataError(msg)
    seeds = None if stored["seeds"] is None else np.random.SeedSequence(**stored["seeds"])
    bits = getattr(np.random, kind)(seeds)
    bits.state = stored["state"]
    return np.random.Generator(bits)
