"""Names that come close, found at once."""

import time

from hypothesis import given
from hypothesis import strategies as st

from superarm.roads.network.names import SimilarNames

NAMES = [f"road-{i}" for i in range(20_000)] + ["Avenue de la Gare", "Rue Neuve", "--1234#5"]


def test_what_is_misspelt_is_found() -> None:
    known = SimilarNames(NAMES)
    assert known.closest("Avenue de la Gaare")[0] == "Avenue de la Gare"
    assert known.closest("rue neuve")[0] == "Rue Neuve"
    assert known.closest("--1235#5")[0] == "--1234#5"
    assert all(name.startswith("road-1") for name in known.closest("road-12345"))


@given(st.text(max_size=300))
def test_anything_is_answered_with_names_that_exist(text: str) -> None:
    few = SimilarNames(["a", "b-1", "b-2", "c"])
    found = few.closest(text)
    assert 1 <= len(found) <= 3
    assert set(found) <= {"a", "b-1", "b-2", "c"}


def test_large_networks_are_answered_at_once() -> None:
    known = SimilarNames(NAMES)
    begin = time.process_time()
    for number in range(50):
        known.closest(f"raod-{number}-which-is-not-there")
    assert time.process_time() - begin < 2.5  # hundreds of milliseconds each before
