"""When the map changes: edges that are still there, cut, joined or gone."""

from dataclasses import replace
from pathlib import Path

import numpy as np
from typer.testing import CliRunner

from parts import require_command, require_module
from services import add_key, postgresql, running, small_city, trip_between
from superarm import DataError
from superarm.cli.app import make_app
from superarm.roads.matching.map_updates import EdgeMap
from superarm.roads.network import RoadNetwork, read_osm

CITY = small_city()
WHEN = "2026-03-01T08:15:00+01:00"


def renamed(network: RoadNetwork) -> RoadNetwork:
    return replace(network, edge_ids=np.array([f"new-{name}" for name in network.edge_ids]))


def test_the_same_map_is_the_same() -> None:
    found = EdgeMap.between(CITY, CITY)
    assert (found.by_id, found.by_geometry, found.lost) == (CITY.n_edges, 0, 0)
    some = np.array([3, 7, 9])
    assert found.span(some).tolist() == [3, 7, 9]  # type: ignore[union-attr] # all are there


def test_edges_under_other_names_are_found_by_their_lines() -> None:
    found = EdgeMap.between(CITY, renamed(CITY))
    assert found.by_id == 0
    assert found.by_geometry > 0.97 * CITY.n_edges
    spans = [found.span(np.array([edge])) for edge in range(CITY.n_edges)]
    right = [span is not None and span.tolist() == [edge] for edge, span in enumerate(spans)]
    wrong = [
        span for edge, span in enumerate(spans) if span is not None and span.tolist() != [edge]
    ]
    assert np.mean(right) > 0.95
    assert len(wrong) < 0.01 * CITY.n_edges


def test_edges_that_are_gone_are_told() -> None:
    kept = np.arange(CITY.n_edges)[50:]
    smaller = CITY.take(kept, "test")
    found = EdgeMap.between(CITY, smaller)
    gone = [edge for edge in range(50) if found.span(np.array([edge])) is None]
    assert len(gone) >= 45
    assert found.span(np.array([0, 60])) is None
    assert "are gone" in found.lines()[1]


def osm(path: Path, ways: str) -> RoadNetwork:
    nodes = "".join(
        f"<node id='{i}' lat='{42.5 + (i == 5) * 0.001}' lon='{1.5 + min(i, 4) / 500}'/>"
        for i in range(6)
    )
    path.write_text(f"<osm version='0.6'>{nodes}{ways}</osm>")
    return read_osm(path)


def way(number: int, *refs: int) -> str:
    inner = "".join(f"<nd ref='{ref}'/>" for ref in refs)
    return f"<way id='{number}'>{inner}<tag k='highway' v='residential'/></way>"


def test_edges_that_were_cut_or_joined_move_as_spans(tmp_path: Path) -> None:
    require_module("osmium", "osm")
    long = osm(tmp_path / "a.osm", way(1, 0, 1, 2) + way(2, 2, 3, 4))
    cut = osm(tmp_path / "b.osm", way(1, 0, 1, 2) + way(2, 2, 3, 4) + way(3, 1, 5))
    there = EdgeMap.between(long, cut)
    whole = np.array([long.position("1:0>2")])
    parts = [cut.position("1:0>1"), cut.position("1:1>2")]
    assert there.span(whole).tolist() == parts  # type: ignore[union-attr] # it is there
    back = EdgeMap.between(cut, long)
    assert back.span(np.array(parts)).tolist() == whole.tolist()  # type: ignore[union-attr]
    assert back.span(np.array(parts[:1])) is None  # half of an edge is none


def test_a_service_goes_on_with_another_map(tmp_path: Path) -> None:
    old, new = CITY, renamed(CITY).take(np.arange(CITY.n_edges)[20:], "test")
    old.save(tmp_path / "old.npz")
    new.save(tmp_path / "new.npz")
    key = add_key(str(tmp_path / "old.db"), "admin")
    rng = np.random.default_rng(0)
    with running(tmp_path, "--network", "old.npz", "--database", "old.db", key=key) as server:
        for number in range(12):
            edges, energies = trip_between(old, rng)
            trip = {"trip_id": f"t{number}", "edges": edges, "driven_at": WHEN}
            assert (
                server.ask("POST", "/v1/trips", trip | {"edge_energy_wh": energies}).status == 201
            )
        server.learned(12)
    arguments = ["network", "update", "old.npz", "new.npz", "--database", "old.db"]
    here = [str(tmp_path / name) if "." in name else name for name in arguments]
    done = CliRunner().invoke(make_app("network"), [*here, "--output", str(tmp_path / "new.db")])
    assert done.exit_code == 0, done.output
    assert "measurements moved (9" in done.output
    with running(tmp_path, "--network", "new.npz", "--database", "new.db", key=key) as server:
        server.learned(12)
        stored = server.ask("GET", "/v1/trips/t3").json["trip"]
        assert all(name.startswith("new-") for name in stored["edges"])
    again = CliRunner().invoke(make_app("network"), [*here, "--output", str(tmp_path / "new.db")])
    assert isinstance(again.exception, DataError)
    assert "exists already" in str(again.exception)
    wrong = [*here[:2], here[3], here[2], *here[4:], "--output", str(tmp_path / "x.db")]
    refused = CliRunner().invoke(make_app("network"), wrong)
    assert "was not made for" in str(refused.exception)
    assert not (tmp_path / "x.db").exists()


def test_trips_in_postgresql_move_in_place(tmp_path: Path) -> None:
    require_command("pg_ctlcluster", "postgresql")
    old, new = CITY, renamed(CITY).take(np.arange(CITY.n_edges)[20:], "test")
    old.save(tmp_path / "old.npz")
    new.save(tmp_path / "new.npz")
    (tmp_path / "pg").mkdir()
    with postgresql(tmp_path / "pg") as url:
        key = add_key(url, "admin")
        rng = np.random.default_rng(0)
        with running(tmp_path, "--network", "old.npz", "--database", url, key=key) as server:
            for number in range(6):
                edges, energies = trip_between(old, rng)
                trip: dict[str, object] = {"trip_id": f"t{number}", "edges": edges}
                trip |= {
                    "driven_at": WHEN,
                    "edge_energy_wh": energies,
                    "edge_duration_s": [20.0] * len(edges),
                }
                assert server.ask("POST", "/v1/trips", trip).status == 201
            server.learned(6)
        files = [str(tmp_path / "old.npz"), str(tmp_path / "new.npz")]
        arguments = ["network", "update", *files, "--database", url]
        refused = CliRunner().invoke(make_app("network"), arguments)
        assert refused.exit_code == 2
        assert "in-place" in refused.output
        done = CliRunner().invoke(make_app("network"), [*arguments, "--in-place"])
        assert done.exit_code == 0, done.output
        state = ["--state", str(tmp_path / "state")]
        with running(
            tmp_path, "--network", "new.npz", "--database", url, *state, key=key
        ) as server:
            stats = server.learned(6)
            assert stats["times"]["trips"] == 6
            stored = server.ask("GET", "/v1/trips/t3").json["trip"]
            assert all(name.startswith("new-") for name in stored["edges"])


def test_database_and_output_go_together(tmp_path: Path) -> None:
    CITY.save(tmp_path / "a.npz")
    files = [str(tmp_path / "a.npz")] * 2
    done = CliRunner().invoke(
        make_app("network"), ["network", "update", *files, "--database", "x.db"]
    )
    assert done.exit_code == 2
    more = ["--database", "x.db", "--output", str(tmp_path / "y.db")]
    done = CliRunner().invoke(make_app("network"), ["network", "update", *files, *more])
    assert isinstance(done.exception, FileNotFoundError)
