"""What studies show: random routes are shown, points are not spoken of as roads, studies ship."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure
from numpy.testing import assert_allclose

from parts import require_module
from studies import small
from superarm import DataError
from superarm.evaluation import bayesian_regret
from superarm.evaluation.figures import far_apart, line_styles, regret_on
from superarm.experiments import Experiment, Study, read_experiment, run_experiment
from superarm.experiments.config import STUDIES, find_study
from superarm.experiments.figures import draw_figures
from superarm.experiments.report import write_report
from superarm.experiments.runner import prepare
from superarm.experiments.study import write_finals
from superarm.roads.network import generate_city
from superarm.saving.parquet import read_columns


@pytest.fixture(autouse=True)
def _needs_parquet() -> None:
    require_module("pyarrow", "experiments")


POINTS: dict[str, Any] = {"arms": 30, "offered": 15, "chosen": 3}


@pytest.fixture(scope="module")
def only_random(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("random")
    places = [{"network": "city", "edges": 600, "random_routes": 3}]
    figures = ["regret", "time", "exploration", "lengthscale"]
    run_experiment(small(places=places, repeats=2, figures=figures), folder)
    return folder


@pytest.fixture(scope="module")
def only_points(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("points")
    run_experiment(small(places=[{"points": POINTS}], figures=["regret", "time"]), folder)
    return folder


def test_random_routes_are_shown_together(only_random: Path) -> None:
    study = Study(only_random)
    shown = {cell.method: cell for cell in study.shown}
    assert set(shown) == {"GP-TS", "BI-TS"}
    assert all(cell.place == "City random routes" for cell in shown.values())
    everything = np.concatenate(
        [study.final(cell) for cell in study.cells if cell.method == "GP-TS"]
    )
    assert everything.size == 3 * 2
    assert_allclose(np.sort(study.final(shown["GP-TS"])), np.sort(everything))
    drawn = draw_figures(study, only_random / "figures")
    assert {"regret", "time", "exploration-city-random", "lengthscale-final"} <= set(drawn)
    page = write_report(study, only_random).read_text(encoding="utf-8")
    assert "City random routes" in page
    assert "City random routes, gp, ℓ = 1, free" in study.paired_by_cell("GP-TS", "BI-TS")


def test_reports_and_columns_of_points_do_not_speak_of_roads(only_points: Path) -> None:
    study = Study(only_points)
    page = write_report(study, only_points).read_text(encoding="utf-8")
    text = re.sub(r"<pre.*?</pre>|<img[^>]*>|<style.*?</style>", "", page, flags=re.DOTALL)
    for word in ("Wh", "trip", "edge", "driven", "route"):
        assert word not in text, word
    assert "reward per round" in text
    steps = next(only_points.glob("runs/*/*/*/*/steps.parquet"))
    assert set(read_columns(steps)) == {
        "t", "regret", "cumulative_regret", "reward", "best_reward", "arms_chosen",
        "distinct_arms", "ms",
    }  # fmt: skip
    visits = next(only_points.glob("runs/*/*/*/*/visits.parquet"))
    assert "arm" in read_columns(visits)
    summary = study.summary()
    assert set(summary["unit"].tolist()) == {"reward"}
    assert not any("wh" in name or "edge" in name for name in summary)


def test_rewards_of_points_add_up_to_their_regret(only_points: Path) -> None:
    study = Study(only_points)
    for cell in study.cells:
        gap = study.column(cell, "best_raw") - study.column(cell, "raw")
        assert_allclose(gap.cumsum(axis=1), study.column(cell, "cumulative_regret"), atol=1e-9)


def test_final_values_of_every_world_are_published(only_random: Path, tmp_path: Path) -> None:
    study = Study(only_random)
    write_finals(study, tmp_path / "finals.parquet")
    table = read_columns(tmp_path / "finals.parquet")
    assert len(table["regret"]) == len(study.runs) == 2 * 3 * 2
    mine = table["method"] == "GP-TS"
    theirs = table["method"] == "BI-TS"
    keys = [list(zip(table["route"][m], table["repeat"][m], strict=True)) for m in (mine, theirs)]
    assert keys[0] == keys[1]
    gaps = table["regret"][mine] - table["regret"][theirs]
    found = study.paired("GP-TS", "BI-TS")
    assert_allclose(found.mean, gaps.mean())
    assert_allclose(found.standard_error, gaps.std(ddof=1) / np.sqrt(gaps.size))
    assert found.wins == int((gaps < 0).sum())


def test_unknown_columns_and_methods_are_answered_with_those_there_are(only_random: Path) -> None:
    study = Study(only_random)
    with pytest.raises(ValueError, match="no column 'foo'; City R001 has .*cumulative_regret_wh"):
        study.paired("GP-TS", "BI-TS", name="foo")
    with pytest.raises(ValueError, match=r"no method 'GP-TSS' \(did you mean GP-TS\?\); there are"):
        study.paired("GP-TSS", "BI-TS")
    with pytest.raises(ValueError, match="cells have no 'road'; they have network, route"):
        study.paired("GP-TS", "BI-TS", where={"road": "A"})
    energy = study.paired("GP-TS", "BI-TS", name="energy_wh", average=True)
    assert energy == study.paired("GP-TS", "BI-TS", name="raw", average=True)


def test_a_changed_key_is_told_alone(only_random: Path) -> None:
    places = [{"network": "city", "edges": 600, "random_routes": 3}]
    changed = small(
        places=places,
        repeats=2,
        methods={"GP-TS": {"policy": "bucb", "xi": 0.25}, "BI-TS": {"belief": "independent"}},
    )
    with pytest.raises(DataError, match="settings.policy = 'ts' where now 'bucb' is asked") as told:
        prepare(changed, only_random)
    assert "{" not in str(told.value)


def test_runs_of_another_format_are_refused_and_left_alone(tmp_path: Path) -> None:
    run_experiment(small(repeats=1, horizon=2), tmp_path)
    for manifest in tmp_path.glob("runs/*/*/*/*/manifest.json"):
        manifest.write_text(manifest.read_text().replace('"format": 2', '"format": 1'))
    before = sorted(tmp_path.glob("runs/*/*/*/*"))
    with pytest.raises(DataError, match="older superarm .format 1, this one reads 2.; choose"):
        prepare(small(repeats=1, horizon=2), tmp_path)
    assert sorted(tmp_path.glob("runs/*/*/*/*")) == before


SHIPPED = sorted(file.stem for file in STUDIES.glob("*.toml") if file.stem != "routes")


@pytest.mark.parametrize("name", SHIPPED)
def test_every_shipped_study_is_found_by_its_name(name: str) -> None:
    assert read_experiment(name).name == name
    assert find_study(name).parent == STUDIES


def test_the_papers_studies_and_routes_ship() -> None:
    assert {"compare", "bucb", "lengthscale", "exploration", "networks"} <= set(SHIPPED)
    assert (STUDIES / "routes.toml").is_file()


def test_a_file_of_the_users_comes_before_a_shipped_study(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("compare").write_text('name = "mine"\nfigures = ["networks"]\n[[places]]\n'
                               'network = "city"\nroutes = ["A"]\n')  # fmt: skip
    assert read_experiment("compare").name == "mine"


def test_a_belief_may_assume_another_lengthscale_than_the_world_has(tmp_path: Path) -> None:
    methods = {"right": {}, "smooth": {"lengthscale": 4.0}, "same": {"lengthscale": 1.0}}
    declared = small(methods=methods, repeats=2, horizon=15)
    run_experiment(declared, tmp_path)
    study = Study(tmp_path)
    finals = {cell.method: study.final(cell) for cell in study.cells}
    assert (finals["right"] != finals["smooth"]).any()
    points = Experiment.model_validate(declared.model_dump(exclude_none=True) | {"name": "p"})
    assert points.methods["smooth"].lengthscale == 4.0


def test_the_source_knows_no_folder_beside_the_repository() -> None:
    for file in STUDIES.parent.parent.rglob("*.py"):
        assert "shared" + "/networks" not in file.read_text(encoding="utf-8")
        assert '"shared"' not in file.read_text(encoding="utf-8"), file


def test_a_route_of_the_users_is_never_mixed_with_random_ones(tmp_path: Path) -> None:
    routes = {"random": ("s0", "s100")}
    places = [{"network": "city", "edges": 600, "routes": routes, "random_routes": 1}]
    run_experiment(small(places=places, repeats=2, horizon=3), tmp_path)
    assert {cell.place for cell in Study(tmp_path).shown} == {"City random", "City random routes"}


CITY: dict[str, Any] = {"network": "city", "edges": 600, "routes": ["A"]}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"places": [{"points": POINTS}, CITY]}, "roads and points have different units"),
        (
            {"places": [{"points": POINTS}], "methods": {"m": {"rectify": "dissipation"}}},
            "points have nothing to rectify",
        ),
    ],
)
def test_points_and_roads_are_kept_apart(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        small(**changes)


def test_a_network_called_points_is_refused(tmp_path: Path) -> None:
    generate_city(0, 600).largest_component().save(tmp_path / "points.npz")
    places = [{"network": "points.npz", "random_routes": 1}]
    with pytest.raises(DataError, match="stands for points without roads"):
        prepare(small(places=places), tmp_path / "out", beside=tmp_path)


def test_folders_and_misspelt_names_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("compare-city").mkdir()
    assert read_experiment("compare-city").name == "compare-city"  # the folder hides nothing
    with pytest.raises(DataError, match="is a folder; name a TOML file"):
        read_experiment(tmp_path)
    with pytest.raises(DataError, match=r"no such file .did you mean compare-city\?."):
        read_experiment("compare-cty")
    with pytest.raises(DataError, match="no such file"):
        read_experiment("routes")


def test_runs_that_cannot_be_read_are_told(tmp_path: Path) -> None:
    run_experiment(small(repeats=2, horizon=2), tmp_path)
    for manifest in tmp_path.glob("runs/*/*/*/*/manifest.json"):
        manifest.write_text(manifest.read_text().replace('"format": 2', '"format": 1'))
    study = Study(tmp_path)
    assert study.notes == [
        "4 stored runs are of another format of superarm and cannot be read; run the experiment "
        "again with another --output"
    ]
    with pytest.raises(DataError, match="4 stored runs are of another format"):
        draw_figures(study, tmp_path / "figures")


def test_panels_of_a_regret_figure_share_their_scale() -> None:
    near = {"a": bayesian_regret([[1.0, 2.0], [1.0, 3.0]]), "b": bayesian_regret([[1, 3], [1, 3]])}
    far = near | {"c": bayesian_regret([[50.0, 90.0], [40.0, 80.0]])}
    assert not far_apart(near)
    assert far_apart(far)
    axes = Figure().add_subplot()
    regret_on(axes, near, logarithmic=True)
    assert axes.get_yscale() == "log"
    styles = line_styles(["GP-TS", "BI-TS"])
    assert styles["GP-TS"][0] != styles["BI-TS"][0]  # one policy: colours tell beliefs apart
