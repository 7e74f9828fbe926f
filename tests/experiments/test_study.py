"""What is computed from stored runs, against NumPy on the same numbers; figures and report."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from parts import require_module
from studies import TWO, small
from superarm import DataError
from superarm.experiments import Study, run_experiment
from superarm.experiments.engines import ThisProcess
from superarm.experiments.figures import draw_figures
from superarm.experiments.report import write_report
from superarm.experiments.runner import RunPlan, prepare, run_plan
from superarm.experiments.study import write_summary


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("study")
    methods = {
        **TWO,
        "GP-BUCB": {"policy": "bucb", "xi": 0.5},
        "GP-diss": {"policy": "ts", "rectify": "dissipation"},
    }
    places = [
        {"network": "city", "edges": 600, "routes": ["A", "B"]},
        {"network": "city", "edges": 600, "random_routes": 2, "horizon": 6, "repeats": 1},
    ]
    figures = ["regret", "beta", "lengthscale", "exploration", "networks", "time", "energy"]
    world = {"lengthscale": [0.5, 1.0]}
    run_experiment(small(methods=methods, places=places, figures=figures, world=world), target)
    return target


def test_the_summary_is_mean_and_standard_error_of_the_runs(folder: Path, tmp_path: Path) -> None:
    pq: Any = pytest.importorskip("pyarrow.parquet")
    study = Study(folder)
    write_summary(study, tmp_path / "out" / "summary.parquet")
    table = pq.read_table(tmp_path / "out" / "summary.parquet").to_pydict()
    rows = [
        i
        for i, method in enumerate(table["method"])
        if (method, table["route"][i], table["lengthscale"][i]) == ("BI-TS", "B", 0.5)
    ]
    curves = np.array(
        [
            Study(folder).steps(cell, repeat)["regret_wh"].cumsum()
            for cell, repeats in study.cells.items()
            if (cell.method, cell.route, cell.lengthscale) == ("BI-TS", "B", 0.5)
            for repeat in repeats
        ]
    )
    assert curves.shape == (3, 12)
    assert_allclose(np.array(table["regret"])[rows], curves.mean(axis=0), rtol=1e-6)
    error = curves.std(axis=0, ddof=1) / np.sqrt(3)
    assert_allclose(np.array(table["regret_se"])[rows], error, rtol=1e-5)


def test_paired_differences_are_those_of_the_same_worlds(folder: Path) -> None:
    study = Study(folder)
    found = study.paired("GP-TS", "BI-TS", where={"route": "A"})
    by_hand = []
    for cell, repeats in study.cells.items():
        if (cell.method, cell.route) == ("GP-TS", "A"):
            other = cell._replace(method="BI-TS")
            by_hand += [
                study.steps(cell, r)["cumulative_regret_wh"][-1]
                - study.steps(other, r)["cumulative_regret_wh"][-1]
                for r in repeats
            ]
    assert len(by_hand) == 6
    worlds = np.mean(np.reshape(by_hand, (2, 3)), axis=0)  # both lengthscales share their worlds
    assert found.pairs == 3
    assert_allclose(found.mean, np.mean(by_hand))
    assert_allclose(found.standard_error, np.std(worlds, ddof=1) / np.sqrt(3))
    assert found.wins == (worlds < 0).sum()
    with pytest.raises(ValueError, match="different units"):
        study.paired("GP-TS", "GP-diss")
    assert study.paired("GP-TS", "GP-diss", name="energy_wh", average=True).pairs == 8
    with pytest.raises(ValueError, match="no method 'nobody'; there are"):
        study.paired("GP-TS", "nobody")


def test_all_figures_are_drawn_from_the_folder_alone(folder: Path, tmp_path: Path) -> None:
    drawn = draw_figures(Study(folder), tmp_path)
    expected = {
        "regret-gp-0.5-free", "regret-gp-1.0-free", "beta", "lengthscale-curves",
        "lengthscale-final", "network-city", "energy-BI-TS", "energy-GP-BUCB", "energy-GP-diss",
        "time-gp-0.5-free", "time-gp-1.0-free",
        *(f"exploration-city-{route}-gp-{scale}-free"
          for route in ("A", "B", "random") for scale in (0.5, 1.0)),
    }  # fmt: skip
    assert set(drawn) == expected
    for name in expected:
        assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert (tmp_path / f"{name}.pdf").read_bytes().startswith(b"%PDF")


def test_the_report_is_one_page_that_needs_nothing_else(folder: Path, tmp_path: Path) -> None:
    page = write_report(Study(folder), tmp_path).read_text(encoding="utf-8")
    assert page.count("data:image/png;base64,") == 17
    assert "http://" not in page
    assert "https://" not in page
    for text in (
        "Final regret",
        "Paired differences",
        "Raw energy per trip",
        "rounds per CPU second",
        "numpy",
    ):
        assert text in page


def test_a_study_of_nothing_says_so(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="holds no experiment"):
        Study(tmp_path)
    run_experiment(small(methods={}, figures=["networks"]), tmp_path)
    assert set(draw_figures(Study(tmp_path), tmp_path / "figures")) == {"network-city"}
    run_plan(changed_plan(tmp_path), ThisProcess())
    with pytest.raises(DataError, match="no cell with two finished runs"):
        Study(tmp_path).summary()
    with pytest.raises(DataError, match="no run is finished"):
        draw_figures(Study(tmp_path), tmp_path / "figures")


def changed_plan(folder: Path) -> RunPlan:
    """An experiment of which nothing has been run."""
    plan = prepare(small(), folder)
    return RunPlan(plan.experiment, plan.store, plan.networks, plan.runs, [])


def test_runs_that_are_not_declared_any_more_are_left_out(tmp_path: Path) -> None:
    run_experiment(small(), tmp_path)
    plan = prepare(small(seed=7, repeats=2), tmp_path, replace=True)
    run_plan(plan, ThisProcess())
    study = Study(tmp_path)
    assert {run.spec.seed for run in study.runs} == {7}
    assert all(set(repeats) == {0, 1} for repeats in study.cells.values())
    assert "2 stored runs are not part of the experiment" in study.notes[0]


def test_one_repeat_is_drawn_without_a_band(tmp_path: Path) -> None:
    run_experiment(small(repeats=1, figures=["regret", "time"]), tmp_path)
    assert set(draw_figures(Study(tmp_path), tmp_path / "figures")) == {"regret", "time"}
    assert write_report(Study(tmp_path), tmp_path).is_file()


def test_only_random_routes_have_figures_too(tmp_path: Path) -> None:
    places = [{"network": "city", "edges": 600, "random_routes": 2}]
    figures = ["regret", "time", "lengthscale", "exploration", "energy"]
    run_experiment(small(places=places, repeats=1, figures=figures), tmp_path)
    expected = {
        "regret", "time", "lengthscale-curves", "lengthscale-final", "exploration-city-random",
        "energy-BI-TS",
    }  # fmt: skip
    assert set(draw_figures(Study(tmp_path), tmp_path / "figures")) == expected


def test_stored_runs_are_read_in_two_lines_by_others(folder: Path) -> None:
    pattern = str(folder / "runs" / "*" / "*" / "GP-TS" / "*" / "steps.parquet")
    for name in ("pandas", "polars", "duckdb"):
        require_module(name, "dev")
    import duckdb  # noqa: PLC0415 - optional parts
    import pandas as pd  # noqa: PLC0415
    import polars as pl  # noqa: PLC0415

    rows = 2 * (2 * 3 * 12 + 2 * 6)
    assert pl.read_parquet(pattern).height == rows
    assert duckdb.sql(f"select count(*) from '{pattern}'").fetchall() == [(rows,)]  # noqa: S608
    one = next(folder.glob("runs/city-A/*/GP-TS/000/steps.parquet"))
    assert pd.read_parquet(one)["t"].tolist() == list(range(1, 13))
