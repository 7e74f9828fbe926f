"""Runs: independent, reproducible, resumable, stored whole or not at all."""

import importlib
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from parts import require_networks
from studies import TWO, assert_same_results, small
from superarm import DataError
from superarm.experiments import Study, expand, run_experiment
from superarm.experiments.build import make_problem
from superarm.experiments.config import read_experiment
from superarm.experiments.engines import Failure, Processes, ThisProcess
from superarm.experiments.execution import execute
from superarm.experiments.runner import prepare, progress_of, run_plan
from superarm.navigation import generate_city
from superarm.navigation.demo import crossing_routes
from superarm.navigation.model import EnergyModel

ROOT = Path(__file__).resolve().parents[2]
CITY = generate_city(0, 600).largest_component()
PRINTS = {"city": CITY.fingerprint()}
ROUTES = {"city": crossing_routes(CITY)}


def specs(**changes: Any) -> list[Any]:
    return expand(small(**changes), PRINTS, ROUTES)


def test_all_methods_of_a_repeat_meet_the_same_world() -> None:
    mine, theirs = (make_problem(spec, EnergyModel(CITY)) for spec in specs(repeats=1))
    assert_array_equal(mine.truth_wh, theirs.truth_wh)
    first, second = (spec.stream("world") for spec in specs(repeats=1))
    assert_array_equal(first.random(5), second.random(5))
    first, second = (spec.stream("mind") for spec in specs(repeats=1))
    assert first.random() != second.random()


def test_worlds_of_different_repeats_and_routes_differ() -> None:
    places = [{"network": "city", "edges": 600, "routes": ["A", "B"]}]
    runs = specs(places=places, methods={"GP-TS": {}}, repeats=2)
    assert len({spec.stream("truth").random() for spec in runs}) == 4


def test_adding_methods_routes_settings_and_repeats_changes_no_run() -> None:
    more = specs(
        methods={"BI-UCB": {"belief": "independent", "policy": "ucb"}, **TWO},
        places=[{"network": "city", "edges": 600, "routes": ["B", "A"]}],
        world={"lengthscale": [0.5, 1.0], "traffic": ["free", "closed-turns"]},
        repeats=5,
    )
    by_key = {spec.key: spec for spec in more}
    assert len(by_key) == 3 * 2 * 4 * 5
    for spec in specs():
        assert by_key[spec.key] == spec


def test_a_run_is_reproducible_and_regret_is_not_negative() -> None:
    for spec in specs(repeats=1):
        first, second = execute(spec, CITY), execute(spec, CITY)
        for name in set(first.columns) - {"ms"}:
            assert_array_equal(first.columns[name], second.columns[name])
        assert (first.columns["regret_wh"] >= -1e-9).all()
        assert_array_equal(
            np.cumsum(first.columns["regret_wh"]), first.columns["cumulative_regret_wh"]
        )
        assert first.visits.sum() == first.columns["path_edges"].sum()
        assert (first.visits > 0).sum() == first.columns["distinct_edges"][-1]


def test_finished_runs_are_skipped_and_new_repeats_added(tmp_path: Path) -> None:
    done = run_experiment(small(repeats=2), tmp_path)
    assert (done.finished, done.skipped) == (4, 0)
    before = {file: file.stat().st_mtime_ns for file in tmp_path.rglob("*.parquet")}
    more = run_experiment(small(repeats=3), tmp_path)
    assert (more.finished, more.skipped) == (2, 4)
    assert all(file.stat().st_mtime_ns == time for file, time in before.items())


def test_a_pool_gives_the_same_results_as_this_process(tmp_path: Path) -> None:
    run_experiment(small(), tmp_path / "one")
    run_experiment(small(), tmp_path / "two", engine=Processes(2))
    assert_same_results(tmp_path / "one", tmp_path / "two")


def test_a_manifest_says_how_the_run_was_made(tmp_path: Path) -> None:
    run_experiment(small(repeats=1), tmp_path)
    (file,) = tmp_path.glob("runs/city-A/gp-l1-free/GP-TS/000/manifest.json")
    manifest = json.loads(file.read_text())
    assert manifest["run"]["fingerprint"] == CITY.fingerprint()
    assert manifest["run"]["settings"]["belief"] == "exact"
    assert {"superarm", "numpy", "python"} <= set(manifest["versions"])
    assert manifest["cpu_s"] > 0
    assert manifest["wall_s"] > 0


@pytest.mark.parametrize("damage", ["cut", "missing", "manifest", "newer"])
def test_damaged_runs_are_set_aside_and_run_again(tmp_path: Path, damage: str) -> None:
    run_experiment(small(), tmp_path / "whole")
    shutil.copytree(tmp_path / "whole", tmp_path / "hurt")
    folder = tmp_path / "hurt" / "runs" / "city-A" / "gp-l1-free" / "GP-TS" / "001"
    if damage == "cut":
        steps = (folder / "steps.parquet").read_bytes()
        (folder / "steps.parquet").write_bytes(steps[:-10])
    elif damage == "missing":
        (folder / "visits.parquet").unlink()
    elif damage == "newer":
        text = (folder / "manifest.json").read_text().replace('"format": 1', '"format": 99')
        (folder / "manifest.json").write_text(text)
    else:
        (folder / "manifest.json").write_text('{"format": 1')
    assert len(Study(tmp_path / "hurt").notes) == 1
    assert [part.damaged for part in progress_of(small(), tmp_path / "hurt")] == [1, 0]
    plan = prepare(small(), tmp_path / "hurt")
    assert len(plan.todo) == 1
    assert "set aside" in plan.notes[0]
    assert len(list((tmp_path / "hurt" / "damaged").rglob("manifest.json"))) == 1
    assert run_plan(plan, ThisProcess()).finished == 1
    assert_same_results(tmp_path / "whole", tmp_path / "hurt")


def test_runs_of_other_settings_are_refused_or_set_aside(tmp_path: Path) -> None:
    run_experiment(small(), tmp_path)
    with pytest.raises(DataError, match="horizon = 12 where now 13 is asked for"):
        prepare(small(horizon=13), tmp_path)
    plan = prepare(small(horizon=13), tmp_path, replace=True)
    assert len(plan.todo) == 6
    assert len(list((tmp_path / "replaced").rglob("manifest.json"))) == 6


def test_identical_runs_of_another_experiment_are_copied(tmp_path: Path) -> None:
    run_experiment(small(), tmp_path / "first")
    wider = small(
        name="wider", methods={**TWO, "BI-UCB": {"belief": "independent", "policy": "ucb"}}
    )
    plan = prepare(wider, tmp_path / "second", reuse=[tmp_path / "first"])
    assert {spec.method for spec in plan.todo} == {"BI-UCB"}
    assert "6 runs were copied" in plan.notes[0]
    longer = prepare(small(horizon=13), tmp_path / "third", reuse=[tmp_path / "first"])
    assert len(longer.todo) == 6


def test_a_run_that_raises_is_recorded_and_the_others_go_on(tmp_path: Path) -> None:
    shut = small(world={"traffic": ["free", "closed-turns"], "closed_share": 0.97}, repeats=1)
    for engine in (ThisProcess(), Processes(2)):
        tally = run_experiment(shut, tmp_path, engine=engine)
        assert len(tally.failures) == 2
        assert tally.finished + tally.skipped == 2
        record = json.loads(Path(tally.failures[0]).read_text())
        assert "InfeasibleError" in record["traceback"]
        assert record["run"]["traffic"] == "closed-turns"
    assert [part.failed for part in progress_of(shut, tmp_path)] == [1, 1]


def test_a_full_disk_is_told_and_nothing_finished_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = prepare(small(), tmp_path)
    parquet: Any = importlib.import_module("pyarrow.parquet")
    written = parquet.write_table
    room = [6]

    def write(table: Any, file: Any, **options: Any) -> None:
        room[0] -= 1
        if room[0] < 0:
            raise OSError(28, "No space left on device")
        written(table, file, **options)

    monkeypatch.setattr(parquet, "write_table", write)
    with pytest.raises(DataError, match=r"No space left.*3 of 6 runs are stored"):
        run_plan(plan, ThisProcess())
    monkeypatch.undo()
    assert len(Study(tmp_path).runs) == 3
    assert not list(tmp_path.rglob(".writing-*"))
    assert run_experiment(small(), tmp_path).finished == 3


def test_an_unwritable_folder_is_told_before_anything_runs(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file")
    with pytest.raises(DataError, match="choose another --output"):
        prepare(small(), tmp_path / "taken")


def test_a_missing_network_says_which_file_and_how_to_get_it(tmp_path: Path) -> None:
    for network, told in (
        ("monaco", "no monaco.net.xml.gz in .*superarm network fetch monaco"),
        ("mine.npz", "there is no file .*mine.npz"),
    ):
        lost = small(places=[{"network": network, "routes": ["A"]}])
        with pytest.raises(DataError, match=told):
            prepare(lost, tmp_path / "out", data=tmp_path)
        assert not (tmp_path / "out").exists()
    wrong = small(places=[{"network": "city", "edges": 600, "routes": ["Z"]}])
    with pytest.raises(DataError, match="no route 'Z'; allowed are A, B"):
        prepare(wrong, tmp_path / "out")


def test_own_networks_and_routes_can_be_named(tmp_path: Path) -> None:
    CITY.save(tmp_path / "mine.npz")
    start, goal = ROUTES["city"]["B"]
    places = [{"network": "mine.npz", "routes": {"home": [start, goal]}}]
    plan = prepare(small(places=places, repeats=1), tmp_path / "out", beside=tmp_path)
    assert plan.todo[0].key == "mine-home/gp-l1-free/GP-TS/000"
    assert run_plan(plan, ThisProcess()).finished == 2
    places = [{"network": "mine.npz", "routes": {"home": [start, "nowhere"]}}]
    with pytest.raises(DataError, match="route home of mine.npz: .*nowhere"):
        prepare(small(places=places), tmp_path / "out", beside=tmp_path)


def test_random_routes_are_reproducible_and_far() -> None:
    places = [{"network": "city", "edges": 600, "random_routes": 5}]
    assert [spec.route for spec in _prepared(places)] == [spec.route for spec in _prepared(places)]
    assert len({spec.route.start for spec in _prepared(places)}) > 1


def _prepared(places: Any) -> list[Any]:
    from superarm.experiments.build import routes_of  # noqa: PLC0415 - used here alone

    experiment = small(places=places, methods={"GP-TS": {}}, repeats=1)
    routes = {"city": routes_of(experiment.places[0], CITY, 0, [])}
    return expand(experiment, PRINTS, routes)


@pytest.mark.parametrize(
    "settings",
    [
        {"belief": "sparse", "inducing": 40, "batch": 60},
        {"belief": "sparse", "policy": "joint-ts", "inducing": 40},
        {"belief": "streaming", "policy": "joint-ts"},
        {"belief": "exact", "policy": "greedy", "rectify": "dissipation"},
        {"belief": "exact", "policy": "bucb", "xi": 0.5, "beta_factor": 0.5},
        {"belief": "gp", "policy": "joint-ts"},
    ],
)
def test_every_kind_of_method_runs(settings: dict[str, Any]) -> None:
    (spec,) = specs(methods={"method": settings}, repeats=1)
    assert execute(spec, CITY).columns["t"].size == 12


@pytest.mark.parametrize("traffic", ["closed-turns", "closed-edges", "congestion"])
def test_every_kind_of_traffic_runs(traffic: str) -> None:
    (spec,) = specs(methods={"method": {"belief": "gp"}}, repeats=1, world={"traffic": traffic})
    assert (execute(spec, CITY).columns["regret_wh"] >= -1e-9).all()


def test_rectifying_either_way_meets_the_same_truth() -> None:
    methods = {"energy": {"rectify": "energy"}, "dissipation": {"rectify": "dissipation"}}
    for truth in ("gp", "positive"):
        mine, theirs = (
            make_problem(spec, EnergyModel(CITY, rectify=spec.settings.rectify))
            for spec in specs(methods=methods, repeats=1, world={"truth": truth})
        )
        assert_array_equal(mine.truth_wh, theirs.truth_wh)


class Dying(Processes):
    """A pool whose first worker is killed while it works."""

    killed = 0

    def run(self, specs: Any, networks: Any) -> Any:
        import multiprocessing  # noqa: PLC0415 - used here alone
        import threading  # noqa: PLC0415

        def kill() -> None:
            while not multiprocessing.active_children():
                pass
            multiprocessing.active_children()[0].kill()
            type(self).killed += 1

        thread = threading.Thread(target=kill)
        thread.start()
        yield from super().run(specs, networks)
        thread.join()


def test_a_worker_that_dies_is_replaced_and_its_run_tried_again(tmp_path: Path) -> None:
    run_experiment(small(), tmp_path / "calm")
    tally = run_experiment(small(), tmp_path / "hit", engine=Dying(2))
    assert Dying.killed == 1
    assert (tally.finished, tally.failures) == (6, [])
    assert_same_results(tmp_path / "calm", tmp_path / "hit")


def test_a_run_whose_worker_always_dies_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    from concurrent.futures.process import BrokenProcessPool  # noqa: PLC0415

    from superarm.experiments import engines  # noqa: PLC0415

    class Hopeless:
        def __init__(self, *_: Any, **__: Any) -> None: ...
        def submit(self, *_: Any) -> Any:
            from concurrent.futures import Future  # noqa: PLC0415

            future: Any = Future()
            future.set_exception(BrokenProcessPool("gone"))
            return future

        def shutdown(self, **_: Any) -> None: ...

    monkeypatch.setattr(engines, "ProcessPoolExecutor", Hopeless)
    outcomes = list(Processes(1).run(specs(repeats=1), PRINTS))  # type: ignore[arg-type]
    assert len(outcomes) == 2
    assert all(isinstance(outcome, Failure) for _, outcome in outcomes)


@pytest.mark.slow
def test_named_networks_and_routes_come_from_the_data_folder(tmp_path: Path) -> None:
    folder = require_networks()
    experiment = read_experiment(ROOT / "experiments" / "compare.toml")
    short = experiment.model_copy(update={"horizon": 2, "repeats": 1})
    plan = prepare(short, tmp_path, data=folder)
    assert {spec.place for spec in plan.runs} == {
        "luxembourg-A", "luxembourg-B", "luxembourg-C", "luxembourg-D", "monaco-A", "monaco-B",
    }  # fmt: skip
    quick = [spec for spec in plan.todo if spec.method == "BI-TS" and spec.network == "monaco"]
    record = execute(quick[0], plan.networks["monaco"])
    assert record.columns["t"].tolist() == [1, 2]
