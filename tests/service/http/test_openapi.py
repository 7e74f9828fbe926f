"""The interface is what was recorded: nobody changes an operation or a schema by accident.

`SUPERARM_RECORD=1 pytest tests/service/http/test_openapi.py` records it anew, where a change is
meant; the difference belongs into the same commit.
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from parts import require_module
from services import add_key, running, small_city

require_module("fastapi", "service")

RECORDED = Path(__file__).with_name("openapi.json")
RECORDED_DEMO = Path(__file__).with_name("openapi_demo.json")


def differences(recorded: Any, now: Any, place: str = "") -> Iterator[str]:
    """Yield a line per place where two documents differ."""
    if isinstance(recorded, dict) and isinstance(now, dict):
        for name in sorted(recorded.keys() | now.keys()):
            where = f"{place}/{name}"
            if name not in now:
                yield f"- {where}: {shortened(recorded[name])}"
            elif name not in recorded:
                yield f"+ {where}: {shortened(now[name])}"
            else:
                yield from differences(recorded[name], now[name], where)
    elif isinstance(recorded, list) and isinstance(now, list) and len(recorded) == len(now):
        for number, (left, right) in enumerate(zip(recorded, now, strict=True)):
            yield from differences(left, right, f"{place}/{number}")
    elif recorded != now:
        yield f"! {place}: {shortened(recorded)} -> {shortened(now)}"


def added(shared: Any, document: Any) -> Any:
    """Return what a document has beyond another one."""
    return {
        name: part if name not in shared else added(shared[name], part)
        for name, part in document.items()
        if name not in shared or (isinstance(part, dict) and part != shared[name])
    }


def shortened(part: Any) -> str:
    text = json.dumps(part, ensure_ascii=False)
    return text if len(text) <= 160 else f"{text[:157]}..."


def test_differences_are_named_by_their_place() -> None:
    left = {"paths": {"/a": {"get": 1}, "/b": 2}, "list": [1, 2]}
    right = {"paths": {"/a": {"get": 3}, "/c": 2}, "list": [1, 4]}
    assert list(differences(left, right)) == [
        "! /list/1: 2 -> 4",
        "! /paths//a/get: 1 -> 3",
        "- /paths//b: 2",
        "+ /paths//c: 2",
    ]
    assert not list(differences(left, left))


@pytest.mark.parametrize("demo", [False, True])
def test_the_interface_is_the_recorded_one(tmp_path: Path, demo: bool) -> None:
    small_city().save(tmp_path / "city.npz")
    key = add_key(str(tmp_path / "t.db"), "admin")
    roads = ["--demo"] if demo else ["--network", "city.npz", "--database", "t.db"]
    with running(tmp_path, *roads, key=key) as server:
        document = server.ask("GET", "/v1/openapi.json").json
    document["info"]["version"] = "any"  # a release changes it, and nothing else
    file = RECORDED
    if demo:  # what it shares with other servers is recorded there
        shared = json.loads(RECORDED.read_text(encoding="utf-8"))
        assert not [line for line in differences(shared, document) if line[0] != "+"]
        file, document = RECORDED_DEMO, added(shared, document)
    if os.environ.get("SUPERARM_RECORD") == "1":
        file.write_text(json.dumps(document, indent=1, sort_keys=True, ensure_ascii=False) + "\n")
    changed = list(differences(json.loads(file.read_text(encoding="utf-8")), document))
    assert not changed, "\n".join(
        ["the interface has changed (see above how to record):", *changed]
    )
