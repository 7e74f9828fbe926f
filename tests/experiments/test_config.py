"""Mistakes in an experiment's file are told with their key before anything runs."""

from pathlib import Path

import pytest

from superarm import DataError
from superarm.experiments import read_experiment
from superarm.experiments.config import shipped_studies

GOOD = """
name = "good"
[[places]]
network = "city"
routes = ["A"]
[methods]
GP-TS = { policy = "ts" }
"""


def read(tmp_path: Path, text: str) -> object:
    file = tmp_path / "own.toml"
    file.write_text(text, encoding="utf-8")
    return read_experiment(file)


@pytest.mark.parametrize(
    "file",
    list(shipped_studies().values()),
    ids=lambda f: f.stem,
)
def test_the_projects_own_files_are_valid_and_named_after_themselves(file: Path) -> None:
    experiment = read_experiment(file)
    assert experiment.name == file.stem
    assert experiment.title


def test_every_experiment_that_needs_data_has_a_twin_that_needs_none() -> None:
    files = {name: read_experiment(name) for name in shipped_studies()}
    for name, experiment in files.items():
        networks = {place.network for place in experiment.places}
        if networks <= {"city", "points"}:
            continue
        twin = files[f"{name}-city"]
        assert {place.network for place in twin.places} == {"city"}
        assert list(twin.methods) == list(experiment.methods)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (('name = "good"', 'name = "good"\nhorizn = 5'), "unknown key 'horizn'; allowed are name,"),
        (('policy = "ts"', 'policy = "tss"'), "methods.GP-TS.policy: Input should be 'ucb',"),
        (
            ('policy = "ts"', 'polcy = "ts"'),
            "methods.GP-TS: unknown key 'polcy'; allowed are belief",
        ),
        (
            ('policy = "ts"', 'policy = "ts", xi = 1.0'),
            "methods.GP-TS: xi goes with policy = 'bucb'",
        ),
        (('policy = "ts"', 'policy = "ts", batch = 9'), "batch goes with belief = 'sparse' only"),
        (
            ('policy = "ts"', 'policy = "joint-ts", belief = "independent"'),
            "policy = 'joint-ts' is policy = 'ts' with belief = 'independent'",
        ),
        (
            ("[methods]", '[world]\ntraffic = "congestion"\n[methods]'),
            "methods.GP-TS.belief = 'exact' cannot be paired with traffic = 'congestion'",
        ),
        (
            ("[methods]", '[world]\ntraffic = "congestion"\ntruth = "positive"\n[methods]'),
            "traffic = 'congestion' needs truth = 'gp'",
        ),
        (("[methods]", "[world]\nlengthscale = [1.0, -2.0]\n[methods]"), "world.lengthscale"),
        (
            ('name = "good"', 'name = "good"\nhorizon = true'),
            "horizon: Input should be a valid integer",
        ),
        (
            ('name = "good"', 'name = "good"\nhorizon = "7"'),
            "horizon: Input should be a valid integer",
        ),
        (('routes = ["A"]', 'routes = ["R001"]'), "R001 is what random routes are called"),
        (('GP-TS = { policy = "ts" }', ""), "methods: name at least one"),
        (
            ('network = "city"', 'network = "city"\nedges = 3'),
            "greater than or equal to 500, got 3",
        ),
        (('routes = ["A"]', ""), "name routes, or ask for random_routes"),
        (('name = "good"', 'name = "../good"'), "name: String should match pattern"),
        (('name = "good"', "name = good"), "is no TOML: Invalid value"),
    ],
)
def test_mistakes_name_their_key_and_what_is_allowed(
    tmp_path: Path, change: tuple[str, str], told: str
) -> None:
    read(tmp_path, GOOD)
    with pytest.raises(DataError) as caught:
        read(tmp_path, GOOD.replace(*change))
    assert told in str(caught.value)


def test_all_mistakes_are_told_at_once(tmp_path: Path) -> None:
    text = GOOD.replace('"ts"', '"tss", one = 1, two = 2')
    text = text.replace('name = "good"', 'name = "good"\nseed = -1')
    text = text.replace('network = "city"', 'network = "city"\nthree = 3')
    with pytest.raises(DataError) as caught:
        read(tmp_path, text)
    told = str(caught.value)
    for part in (
        "seed: ",
        "methods.GP-TS.policy: ",
        "'one'",
        "'two'",
        "places[0]: unknown key 'three'",
    ):
        assert part in told
    assert "at least 1 item" not in told  # the list of places is not short


def test_a_missing_file_is_told() -> None:
    with pytest.raises(DataError, match="no such file"):
        read_experiment("nowhere.toml")
