"""Maps: in pieces, and of networks too large to be sent whole, of a part only."""

import json
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from parts import require_module
from services import small_city

require_module("fastapi", "service")

from superarm.roads.network import RoadNetwork, generate_city  # noqa: E402
from superarm.roads.network.geography import Geography  # noqa: E402
from superarm.service.http import maps  # noqa: E402
from superarm.service.http.answers import PIECE  # noqa: E402
from superarm.service.http.maps import MOST_WHOLE, edges_in  # noqa: E402
from superarm.service.http.refused import Refused  # noqa: E402

SMALL = small_city(2_000)
EVERYWHERE = "-180,-90,180,90"


@pytest.fixture(scope="module")
def large() -> RoadNetwork:
    network = generate_city(seed=1, n_edges=13_500).largest_component()
    assert network.n_edges > MOST_WHOLE
    return network


def state_of(network: RoadNetwork) -> Any:
    navigator = SimpleNamespace(geography=Geography(network))
    return SimpleNamespace(network=network, navigator=navigator)


def box_around(geography: Geography, edge: int) -> str:
    low, high = (bounds[edge] for bounds in geography.bounds)
    return ",".join(f"{value:.6f}" for value in (*(low - 1e-5), *(high + 1e-5)))


def test_pieces_of_a_map_are_one_map_of_its_edges() -> None:
    geography = Geography(SMALL)
    rng = np.random.default_rng(0)
    for size in (0, 1, 199, 200, 201, SMALL.n_edges):
        edges = np.sort(rng.choice(SMALL.n_edges, size, replace=False))
        pieces = list(geography.feature_pieces(edges, 7))
        told = json.loads(b"".join(pieces))
        assert (told["type"], told["left_out"]) == ("FeatureCollection", 7)
        assert told["edges"] == SMALL.n_edges
        assert [one["id"] for one in told["features"]] == edges.tolist()
        for one in told["features"][:3]:
            assert one["properties"]["edge"] == SMALL.edge_ids[one["id"]]
            assert one["geometry"]["coordinates"] == geography.line(np.array([one["id"]]))
        assert max(map(len, pieces)) < 2 * PIECE


def test_a_small_network_is_answered_whole() -> None:
    assert edges_in(state_of(SMALL), None, None) == (None, 0)
    assert edges_in(state_of(SMALL), None, SMALL.n_edges) == (None, 0)


def test_of_a_large_network_a_part_is_asked_for(large: RoadNetwork) -> None:
    state = state_of(large)
    with pytest.raises(Refused, match=r"bbox=west,south,east,north.*most=12000") as refused:
        edges_in(state, None, None)
    assert refused.value.status == 422
    shown, left_out = edges_in(state, None, MOST_WHOLE)
    assert shown is not None
    assert shown.size <= MOST_WHOLE
    assert left_out == large.n_edges - shown.size
    box = box_around(state.navigator.geography, 77)
    shown, left_out = edges_in(state, box, None)
    assert shown is not None
    assert 77 in shown
    assert left_out == 0
    fewer, left_out = edges_in(state, box, 1)
    assert fewer is not None
    assert (fewer.size, left_out) == (1, shown.size - 1)


def test_a_box_holds_no_more_than_is_answered_at_once(
    large: RoadNetwork, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = state_of(large)
    shown, _ = edges_in(state, EVERYWHERE, None)
    assert shown is not None
    assert shown.size == large.n_edges
    monkeypatch.setattr(maps, "MOST_DRAWN", 13_000)
    with pytest.raises(Refused, match=r"smaller box.*most=12000"):
        edges_in(state, EVERYWHERE, None)
    shown, left_out = edges_in(state, EVERYWHERE, 500)
    assert shown is not None
    assert 0 < shown.size <= 500
    assert left_out == large.n_edges - shown.size
