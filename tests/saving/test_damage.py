"""Files that no `save_value` has written: refused as such, whatever is wrong inside them."""

import hashlib
import io
import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from superarm import Agent, Arms, DataError, load, save
from superarm.beliefs import Evidence, IndependentGaussian
from superarm.oracles import TopK
from superarm.policies import Greedy
from superarm.saving import load_value, save_value


def forge(path: Path, members: dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> Path:
    """Write an archive whose header and checksum are right, so that its members are read."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    body = buffer.getvalue()
    header = f"superarm-state 2 {hashlib.sha256(body).hexdigest()}".encode().ljust(127) + b"\n"
    path.write_bytes(header + body)
    return path


def members_of(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def npy(header: str, body: bytes = b"") -> bytes:
    """Return a .npy file with this header, whatever it says."""
    text = header.encode().ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + body


def state(tree: Any) -> dict[str, bytes]:
    return {"state.json": json.dumps(tree).encode()}


ARRAY = state({"array": "array-0"})
ARRAYS: dict[str, bytes] = {
    "larger than any memory": npy("{'descr': '<f8', 'fortran_order': False, 'shape': (10**12,)}"),
    "larger than an integer": npy(
        f"{{'descr': '<f8', 'fortran_order': False, 'shape': ({10**30},)}}"
    ),
    "shorter than it says": npy("{'descr': '<f8', 'fortran_order': False, 'shape': (3,)}", b"12"),
    "longer than it says": npy("{'descr': '<f8', 'fortran_order': False, 'shape': (1,)}", b"1" * 9),
    "negative": npy("{'descr': '<f8', 'fortran_order': False, 'shape': (-1, -1)}", b"12345678"),
    "of objects": npy("{'descr': '|O', 'fortran_order': False, 'shape': (1,)}", b"N."),
    "without a header": b"\x93NUMPY\x01\x00\xff\xff",
    "of another version": b"\x93NUMPY\x09\x00" + b"\x00" * 80,
    "nothing": b"",
}


@pytest.mark.parametrize("content", ARRAYS.values(), ids=ARRAYS)
def test_an_array_that_is_none_is_told(tmp_path: Path, content: bytes) -> None:
    path = forge(tmp_path / "forged", ARRAY | {"array-0.npy": content})
    with pytest.raises(DataError, match="forged is damaged"):
        load_value(path)


TREES: dict[str, dict[str, bytes]] = {
    "no state": {"array-0.npy": b""},
    "no array": ARRAY,
    "an array elsewhere": state({"array": "../../etc/passwd"}),
    "no JSON": {"state.json": b"{"},
    "no text": {"state.json": b"\xff\xfe\x00"},
    "a number too long": {"state.json": b"1" * 5000},
    "deep JSON": {"state.json": b"[" * 200_000 + b"]" * 200_000},
    "deep lists": {"state.json": b'{"list": [' * 5000 + b"1" + b"]}" * 5000},
    "a list of no kind": state([1, 2]),
    "an object of no kind": state({"kind": 3}),
    "a list that is none": state({"list": 3}),
    "parts without a class": state({"type": 3, "fields": {}}),
    "evidence without parts": state(
        {"type": "superarm.beliefs.sums.evidence:Evidence", "fields": {}}
    ),
    "evidence of odd parts": state(
        {"type": "superarm.beliefs.sums.evidence:Evidence", "fields": {"data": 3, "size": "x"}}
    ),
    "a name without a module": state({"name": ":x"}),
    "a name without anything": state({"name": "superarm"}),
    "a name in no module": state({"name": "superarm..:x"}),
}


@pytest.mark.parametrize("members", TREES.values(), ids=TREES)
def test_a_state_that_is_none_is_told(tmp_path: Path, members: dict[str, bytes]) -> None:
    path = forge(tmp_path / "forged", members)
    with pytest.raises(DataError, match="forged"):
        load_value(path)


def test_what_is_no_archive_is_told(tmp_path: Path) -> None:
    path = tmp_path / "forged"
    header = f"superarm-state 2 {hashlib.sha256(b'hello').hexdigest()}".encode().ljust(127) + b"\n"
    path.write_bytes(header + b"hello")
    with pytest.raises(DataError, match="forged is damaged"):
        load_value(path)


def test_a_file_takes_no_more_memory_than_it_has_bytes(tmp_path: Path) -> None:
    """What is compressed was not written here, and may be far larger than the file."""
    buffer = io.BytesIO()
    np.save(buffer, np.zeros(10**6))
    path = forge(
        tmp_path / "forged", ARRAY | {"array-0.npy": buffer.getvalue()}, zipfile.ZIP_DEFLATED
    )
    assert path.stat().st_size < 20_000
    with pytest.raises(DataError, match="forged is damaged"):
        load_value(path)


@pytest.mark.parametrize("module", ["superarm.__main__", "superarm.service.migrations.env"])
def test_a_file_runs_no_program_of_the_package(tmp_path: Path, module: str) -> None:
    with pytest.raises(DataError, match="which this version does not have|no class or function"):
        load_value(forge(tmp_path / "forged", state({"name": f"{module}:main"})))


def test_what_is_there_is_still_read(tmp_path: Path) -> None:
    evidence = Evidence.nothing(3)
    value = {"arms": Arms([1, 2]), "none": np.zeros((0, 3)), "evidence": evidence}
    save_value(value, tmp_path / "value")
    again = load_value(forge(tmp_path / "forged", members_of(tmp_path / "value")))
    assert again["arms"].ids.tolist() == [1, 2]
    assert again["none"].shape == (0, 3)


GENERATORS: dict[str, Any] = {
    "no state": {"dict": {"seeds": None}},
    "no mapping": {"list": [1]},
    "an odd state": {"dict": {"state": {"dict": {"bit_generator": "PCG64"}}, "seeds": None}},
    "odd seeds": {
        "dict": {
            "state": {"dict": {"bit_generator": "PCG64"}},
            "seeds": {"dict": {"spice": 1}},
        }
    },
    "an odd name": {"dict": {"state": {"dict": {"bit_generator": {"list": []}}}, "seeds": None}},
}


@pytest.mark.parametrize("tree", GENERATORS.values(), ids=GENERATORS)
def test_a_generator_that_is_none_is_told(tmp_path: Path, tree: Any) -> None:
    agent: Any = Agent(IndependentGaussian(np.zeros(3), 1.0), Greedy(), TopK())
    save(agent, tmp_path / "run")
    members = members_of(tmp_path / "run")
    stored = json.loads(members["state.json"])
    stored["dict"]["world"] = tree
    members["state.json"] = json.dumps(stored).encode()
    with pytest.raises(DataError, match="forged"):
        load(forge(tmp_path / "forged", members))


def test_a_run_without_a_number_is_told(tmp_path: Path) -> None:
    tree = {"dict": {"agent": 1, "t": "many", "world": None, "mind": None}}
    with pytest.raises(DataError, match="forged"):
        load(forge(tmp_path / "forged", state(tree)))
