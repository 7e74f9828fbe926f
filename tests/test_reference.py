"""The reference: every public name is documented, every argument, its shape."""

import importlib
import inspect
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[1]
NUMBERS = re.compile(r"\b(Vector|Matrix|Rows|ArrayLike|Pairs|csr_array|NDArray|SuperArm)\b")
NO_ARRAY = re.compile(
    r"^(int|float|bool|str|Path|Kernel|Callable\[.*\]|Mapping\[str, float\])( \| None)?$"
)
SHAPE = re.compile(
    r"shape|one per|one each|one number|a number|one entry|of every|of each|of all|per "
)


@pytest.fixture(scope="module")
def arguments() -> ModuleType:
    """What the reference is made with."""
    for module in ("tables", "simulation"):
        importlib.import_module(f"superarm.{module}")
    sys.path.insert(0, str(ROOT / "docs" / "_extensions"))
    try:
        return importlib.import_module("arguments")
    finally:
        sys.path.pop(0)


def test_every_public_package_has_a_page(arguments: ModuleType) -> None:
    pages = (ROOT / "docs" / "reference").glob("*.md")
    shown = re.findall(r"automodule:: (\S+)", "".join(page.read_text() for page in pages))
    assert sorted(shown) == sorted(arguments.PACKAGES)
    index = (ROOT / "docs" / "reference" / "index.md").read_text(encoding="utf-8")
    assert all(f"[`{package}`]" in index for package in arguments.PACKAGES)


def test_every_public_name_is_documented_and_none_looks_private(arguments: ModuleType) -> None:
    for package in arguments.PACKAGES:
        module = importlib.import_module(package)
        assert module.__doc__
        for name in module.__all__:
            assert not name.startswith("_") or name == "__version__", f"{package}.{name}"
    for callee in arguments.public():
        assert inspect.getdoc(callee.thing), f"{callee.name} has no docstring"


def test_every_argument_is_documented(arguments: ModuleType) -> None:
    assert arguments.undocumented() == []


def test_every_array_says_its_shape(arguments: ModuleType) -> None:
    silent = [
        f"{callee.name}({name}): {text}"
        for callee in arguments.public()
        for name, text in arguments.told(callee.thing, callee.owner).items()
        if NUMBERS.search(arguments.type_of(callee.thing, name)) and not SHAPE.search(text)
    ]
    assert silent == []


def test_only_arrays_have_a_shape(arguments: ModuleType) -> None:
    """What a word means as an array is not said of a number, a function or a mapping."""
    wrong = [
        f"{callee.name}({name}): {text}"
        for callee in arguments.public()
        for name, text in arguments.told(callee.thing, callee.owner).items()
        if NO_ARRAY.search(arguments.type_of(callee.thing, name)) and "shape (" in text
    ]
    assert wrong == []


def test_the_list_of_meanings_has_nothing_that_nobody_needs(arguments: ModuleType) -> None:
    words, needed = arguments.meanings(), set()
    for callee in arguments.public():
        whose = callee.thing.__name__
        if callee.owner is not None:
            whose = f"{callee.owner.__name__}.{whose}"
        known = set()
        for doc in arguments.documents(callee.thing, callee.owner):
            known |= arguments.entries(doc).keys()
        for each in arguments.parameters(callee.thing):
            if each.name not in known:
                own = f"{whose}.{each.name}"
                needed.add(own if own in words else each.name)
    assert sorted(words.keys() - needed) == []


def test_docstrings_are_read_as_they_are_meant(arguments: ModuleType) -> None:
    doc = """Say something.

    Args:
        first: one thing,
            over two lines: with a colon.
        second, third: two things.

    Raises:
        ValueError: if not.
    """
    found = {name: " ".join(lines) for name, lines in arguments.entries(doc).items()}
    assert found == {
        "first": "one thing, over two lines: with a colon.",
        "second": "two things.",
        "third": "two things.",
    }
