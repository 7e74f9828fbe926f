"""Runs: independent, reproducible, resumable, stored whole or not at all."""

import importlib
import json
import multiprocessing
import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from parts import require_networks
from studies import TWO, assert_same_results, small
from superarm import DataError
from superarm.experiments import Study, expand, run_experiment
from superarm.experiments import store as store_module
from superarm.experiments.build import make_problem
from superarm.experiments.config import read_experiment
from superarm.experiments.engines import Processes, ThisProcess
from superarm.experiments.execution import execute
from superarm.experiments.runner import prepare, progress_of, run_plan
from superarm.roads.bandit import crossing_routes
from superarm.roads.models.paper import EnergyModel
from superarm.roads.network import generate_city

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
        assert (first.columns["regret"] >= -1e-9).all()
        assert_array_equal(np.cumsum(first.columns["regret"]), first.columns["cumulative_regret"])
        assert first.visits.sum() == first.columns["size"].sum()
        assert (first.visits > 0).sum() == first.columns["distinct"][-1]


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


@pytest.mark.parametrize("damage", ["cut", "missing", "manifest"])
def test_damaged_runs_are_set_aside_and_run_again(tmp_path: Path, damage: str) -> None:
    run_experiment(small(), tmp_path / "whole")
    shutil.copytree(tmp_path / "whole", tmp_path / "hurt")
    folder = tmp_path / "hurt" / "runs" / "city-A" / "gp-l1-free" / "GP-TS" / "001"
    if damage == "cut":
        steps = (folder / "steps.parquet").read_bytes()
        (folder / "steps.parquet").write_bytes(steps[:-10])
    elif damage == "missing":
        (folder / "visits.parquet").unlink()
    else:
        (folder / "manifest.json").write_text('{"format": 2')
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
    assert not list((tmp_path / "writing").iterdir())
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
    from superarm.experiments.places import routes_of  # noqa: PLC0415 - used here alone

    experiment = small(places=places, methods={"GP-TS": {}}, repeats=1)
    routes = {"city": routes_of(experiment.places[0], CITY, 0, [])}
    return expand(experiment, PRINTS, routes)


@pytest.mark.parametrize(
    "settings",
    [
        {"belief": "sparse", "n_inducing": 40, "batch": 60},
        {"belief": "sparse", "policy": "joint-ts", "n_inducing": 40},
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
    assert (execute(spec, CITY).columns["regret"] >= -1e-9).all()


def test_rectifying_either_way_meets_the_same_truth() -> None:
    methods = {"energy": {"rectify": "energy"}, "dissipation": {"rectify": "dissipation"}}
    for truth in ("gp", "positive"):
        mine, theirs = (
            make_problem(spec, EnergyModel(CITY, rectify=spec.settings.rectify))
            for spec in specs(methods=methods, repeats=1, world={"truth": truth})
        )
        assert_array_equal(mine.truth_wh, theirs.truth_wh)


def test_a_worker_that_dies_is_replaced_and_its_run_tried_again(tmp_path: Path) -> None:
    """Killed while it works, and while its parent is storing another run."""
    run_experiment(small(), tmp_path / "calm")
    own = multiprocessing.get_context("spawn").Process(target=time.sleep, args=(60,))
    own.start()  # a process of the caller's, which is none of the pool's business
    others = set(multiprocessing.active_children())

    def kill_one(*_: Any) -> None:
        for worker in set(multiprocessing.active_children()) - others:
            worker.kill()
            return

    plan = prepare(small(), tmp_path / "hit")
    early = threading.Timer(1.0, kill_one)
    early.start()
    tally = run_plan(plan, Processes(2), lambda spec, _: kill_one() if spec.repeat == 0 else None)
    early.join()
    assert (tally.finished, tally.failures) == (6, [])
    assert_same_results(tmp_path / "calm", tmp_path / "hit")
    assert own.is_alive()
    own.kill()
    own.join()


@pytest.mark.skipif(os.name != "posix", reason="a poisonous run as POSIX kills it")
def test_only_the_run_that_kills_its_worker_is_blamed(tmp_path: Path) -> None:
    program = """
import os, signal, sys
from superarm.experiments import engines, runner
from superarm.experiments.runner import prepare, run_plan
from studies import small

honest = runner.execute

def poisonous(spec, network):
    if spec.method == "BI-TS" and spec.repeat == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return honest(spec, network)

runner.execute = poisonous
if __name__ == "__main__":
    tally = run_plan(prepare(small(), sys.argv[1]), engines.Processes(3))
    print(tally.finished, tally.failures)
"""
    file = tmp_path / "poison.py"
    file.write_text(program)
    tests = str(Path(__file__).resolve().parents[1])
    done = subprocess.run(
        [sys.executable, str(file), str(tmp_path / "out")],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": tests},
    )
    assert done.returncode == 0, done.stderr
    finished, _, failures = done.stdout.partition(" ")
    assert finished == "5"
    assert failures.count(".json") == 1
    assert "BI-TS" in failures


@pytest.mark.parametrize(
    "changes",
    [
        {"world": {"lengthscale": [0.1, 0.1000000000000001]}, "methods": {"A": {}, "a": {}}},
        {
            "places": [
                {"network": "city", "edges": 600, "routes": ["A"], "horizon": 5},
                {"network": "city", "edges": 600, "routes": ["A"], "horizon": 9},
            ]
        },
        {"methods": {"GP-TS": {}, "gp-ts": {"belief": "independent"}}},
    ],
)
def test_runs_that_would_share_a_folder_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(DataError, match="would both be stored as"):
        specs(**changes)


def test_close_lengthscales_have_folders_of_their_own() -> None:
    runs = specs(world={"lengthscale": [0.1, 0.10000001]}, methods={"GP-TS": {}}, repeats=1)
    assert len({spec.key for spec in runs}) == 2


def test_networks_and_routes_that_clash_are_refused(tmp_path: Path) -> None:
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        CITY.save(tmp_path / folder / "town.npz")
    start, goal = ROUTES["city"]["A"]
    ends = {"routes": {"home": [start, goal]}}
    places = [{"network": f"{folder}/town.npz", **ends} for folder in ("one", "two")]
    with pytest.raises(DataError, match="names of their files, which must differ"):
        prepare(small(places=places), tmp_path / "out", beside=tmp_path)
    back = {"routes": {"home": [goal, start]}}
    places = [{"network": "one/town.npz", **ends}, {"network": "one/town.npz", **back}]
    with pytest.raises(DataError, match="declared twice with different ends"):
        prepare(small(places=places), tmp_path / "out", beside=tmp_path)


def test_two_processes_in_one_folder_do_not_disturb_each_other(tmp_path: Path) -> None:
    first = prepare(small(), tmp_path)
    (tmp_path / "writing" / f"{store_module._HOST}~{os.getpid()}~live").mkdir()  # noqa: SLF001
    (tmp_path / "writing" / f"{store_module._HOST}~999999999~dead").mkdir()  # noqa: SLF001
    (tmp_path / "writing" / "elsewhere~1~live").mkdir()
    second = prepare(small(), tmp_path)
    assert len(list((tmp_path / "writing").iterdir())) == 2  # the dead process's is gone
    assert run_plan(first, ThisProcess()).finished == 6
    assert run_plan(second, ThisProcess()).finished == 6  # the same results: the first ones stay
    other = prepare(small(), tmp_path / "late")
    run_experiment(small(horizon=5), tmp_path / "late")
    with pytest.raises(DataError, match="with other settings meanwhile"):
        run_plan(other, ThisProcess())


def test_ctrl_c_while_a_run_is_moved_to_its_place_is_not_swallowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_experiment(small(), tmp_path / "one")
    plan = prepare(small(), tmp_path / "two")
    shutil.copytree(tmp_path / "one" / "runs", tmp_path / "two" / "runs", dirs_exist_ok=True)

    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "rename", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_plan(plan, ThisProcess())


def test_settings_are_the_same_run_whether_defaults_are_written_or_not() -> None:
    written = specs(methods={"M": {"policy": "bucb", "omega": 1.0, "xi": 1.0, "beta_factor": 1.0}})
    assert written == specs(methods={"M": {"policy": "bucb"}})


def test_reusing_a_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="there are no runs"):
        prepare(small(), tmp_path / "out", reuse=[tmp_path / "nowhere"])


def test_nothing_is_moved_where_settings_differ(tmp_path: Path) -> None:
    run_experiment(small(), tmp_path)
    folder = tmp_path / "runs" / "city-A" / "gp-l1-free" / "BI-TS" / "000"
    (folder / "manifest.json").write_text("{}")
    with pytest.raises(DataError, match="horizon"):
        prepare(small(horizon=13), tmp_path)
    assert folder.is_dir()
    assert [part.different for part in progress_of(small(horizon=13), tmp_path)] == [3, 2]


def test_a_damaged_copy_of_the_network_is_written_again(tmp_path: Path) -> None:
    run_experiment(small(repeats=1), tmp_path)
    (tmp_path / "networks" / "city.npz").write_bytes(b"nothing")
    prepare(small(repeats=1), tmp_path)
    assert Study(tmp_path).store.read_network("city").fingerprint() == CITY.fingerprint()


def test_routes_files_that_cannot_be_read_are_told(tmp_path: Path) -> None:
    CITY.save(tmp_path / "monaco.npz")
    lost = small(places=[{"network": "monaco", "routes": ["A"]}])
    for text, told in (
        ("[monaco.routes.A]\nstart = '1'", "lacks 'end'"),
        ("[monaco", "is no table of routes"),
    ):
        (tmp_path / "routes.toml").write_text(text)
        with pytest.raises(DataError, match=told):
            prepare(lost, tmp_path / "out", data=tmp_path)


@pytest.mark.slow
def test_named_networks_and_routes_come_from_the_data_folder(tmp_path: Path) -> None:
    folder = require_networks()
    experiment = read_experiment("compare")
    short = experiment.model_copy(update={"horizon": 2, "repeats": 1})
    plan = prepare(short, tmp_path, data=folder)
    assert {spec.place for spec in plan.runs} == {
        "luxembourg-A", "luxembourg-B", "luxembourg-C", "luxembourg-D", "monaco-A", "monaco-B",
    }  # fmt: skip
    quick = [spec for spec in plan.todo if spec.method == "BI-TS" and spec.network == "monaco"]
    record = execute(quick[0], plan.networks["monaco"])
    assert record.columns["t"].tolist() == [1, 2]
