"""Names in saved files: classes that have moved are found, removed ones are named."""

import importlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from superarm import Arms, DataError
from superarm.kernels import Matern52, stationary
from superarm.saving import load_value, names, save_value


def renamed(monkeypatch: pytest.MonkeyPatch, **tables: dict[str, str]) -> None:
    for table, entries in tables.items():
        monkeypatch.setattr(names, table, entries)


def saved_as(kernel: Matern52, path: Path, name: str) -> Path:
    """Save a kernel as if its class had another name."""
    module, _, qualified = name.partition(":")
    disguised = type("Matern52", (Matern52,), {"__module__": module, "__qualname__": qualified})
    copy: Any = object.__new__(disguised)
    for key, part in vars(kernel).items():
        object.__setattr__(copy, key, part)
    save_value(copy, path)
    return path


def test_a_class_is_found_where_it_has_moved_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel, arms = Matern52([0.3]), Arms([0, 1], [[0.0], [1.0]])
    for old, table in (
        ("superarm.kernels.smooth:Matern52", {"superarm.kernels.smooth": Matern52.__module__}),
        ("superarm.kernels:Twice", {"superarm.kernels:Twice": f"{Matern52.__module__}:Matern52"}),
        ("superarm.covariances.stationary:Matern52", {"superarm.covariances": "superarm.kernels"}),
    ):
        path = saved_as(kernel, tmp_path / "kernel", old)
        renamed(monkeypatch, MOVED={})
        with pytest.raises(DataError, match="which this version does not have"):
            load_value(path)
        renamed(monkeypatch, MOVED=table)
        assert_array_equal(load_value(path).gram(arms, arms), kernel.gram(arms, arms))


def test_what_was_removed_is_named_even_if_it_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_value({"kernel": Matern52(0.3), "numbers": np.ones(3)}, tmp_path / "kernel")
    assert load_value(tmp_path / "kernel")["kernel"] == Matern52(0.3)
    for name in (f"{Matern52.__module__}:Matern52", Matern52.__module__, "superarm.kernels"):
        renamed(monkeypatch, REMOVED={name: "0.9: use RBF"})
        with pytest.raises(
            DataError, match=r"kernel uses superarm\.kernels\..*Matern52, which was removed in 0.9"
        ):
            load_value(tmp_path / "kernel")


def test_the_narrower_entry_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    renamed(
        monkeypatch,
        MOVED={"superarm.a": "superarm.b", "superarm.a.c:D": "superarm.e:F"},
        REMOVED={"superarm.a.g": "0.9: nothing"},
    )
    assert names.current_name("superarm.a.c:D", "file") == "superarm.e:F"
    assert names.current_name("superarm.a.c:E", "file") == "superarm.b.c:E"
    assert names.current_name("superarm.ab:E", "file") == "superarm.ab:E"
    with pytest.raises(DataError, match="removed in 0.9: nothing"):
        names.current_name("superarm.a.g:H", "file")


@dataclass(frozen=True)
class Smooth:
    """What a kernel might become: with another field than before."""

    scale: float

    def stored(self) -> dict[str, object]:
        return {"scale": self.scale}

    @classmethod
    def restored(cls, parts: dict[str, Any]) -> "Smooth":
        return cls(parts["scale"] if "scale" in parts else parts["lengthscale"][0])


def test_a_class_with_other_fields_reads_the_old_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_value(Matern52([0.3]), tmp_path / "old")
    monkeypatch.setattr(Smooth, "__module__", Matern52.__module__)
    monkeypatch.setattr(stationary, "Smooth", Smooth, raising=False)
    name = f"{Matern52.__module__}:Matern52"
    renamed(monkeypatch, MOVED={name: f"{Matern52.__module__}:Smooth"})
    assert load_value(tmp_path / "old") == Smooth(0.3)
    save_value(Smooth(0.5), tmp_path / "new")
    assert load_value(tmp_path / "new") == Smooth(0.5)


def test_new_names_exist_and_are_not_old_ones() -> None:
    for new in names.MOVED.values():
        assert names.current_name(new, "the table") == new
        module, _, path = new.partition(":")
        thing: Any = importlib.import_module(module)
        for part in path.split(".") if path else ():
            thing = getattr(thing, part)


@pytest.mark.parametrize("name", names.REMOVED)
def test_what_was_removed_is_gone(name: str) -> None:
    module, _, qualified = name.partition(":")
    with pytest.raises((ImportError, AttributeError)):
        getattr(importlib.import_module(module), qualified)
