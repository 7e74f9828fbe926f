"""Studies of measured vehicles: ``real-bus`` and ``real-twizy``."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from superarm.errors import DataError
from superarm.evaluation.figures import tidy
from superarm.experiments.drives.bus import read_bus
from superarm.experiments.drives.models import DAY, DAY_SPREAD, MODELS, Setting
from superarm.experiments.drives.rows import Passages
from superarm.experiments.drives.scoring import (
    FIRST,
    Scores,
    Summary,
    of_rows,
    of_times,
    of_trips,
    score,
)
from superarm.experiments.drives.twizy import read_twizy
from superarm.roads.vehicle import Vehicle
from superarm.saving.files import write_atomically


@dataclass(frozen=True)
class DriveStudy:
    """A vehicle whose drives were measured.

    Attributes:
        name: of the study.
        title: in words.
        folder: of its files, inside the data folder.
        unit: of what is measured.
        setting: what is known of the vehicle.
        read: reads its files.
    """

    name: str
    title: str
    folder: str
    unit: str
    setting: Setting
    read: Callable[[Path], Passages]


STUDIES: Mapping[str, DriveStudy] = {
    study.name: study
    for study in (
        DriveStudy(
            "real-bus",
            "An electric bus in Chattanooga",
            "bus",
            "% of charge",
            Setting(
                Vehicle(
                    mass_kg=15_000.0,
                    rolling_resistance=0.008,
                    front_area_m2=8.0,
                    drag_coefficient=0.7,
                    powertrain_efficiency=0.9,
                    auxiliary_power_w=5000.0,
                ),
                unit_wh=3240.0,
                per_km=0.4,
            ),
            read_bus,
        ),
        DriveStudy(
            "real-twizy",
            "A Renault Twizy in Rabat",
            "twizy",
            "Wh",
            Setting(
                Vehicle(
                    mass_kg=550.0,
                    rolling_resistance=0.012,
                    front_area_m2=1.0,
                    drag_coefficient=0.64,
                    powertrain_efficiency=0.85,
                    auxiliary_power_w=100.0,
                ),
                unit_wh=1.0,
                per_km=80.0,
            ),
            read_twizy,
        ),
    )
}
"""By name. What is known of the vehicles is their data sheets', not the data's."""


def run_drive_study(
    name: str,
    data: Path,
    output: Path,
    advance: Callable[[str], None] | None = None,
) -> Path:
    """Predict and learn all drives of a study; write tables and a figure; return the page."""
    study = STUDIES[name]
    folder = data / study.folder
    if not folder.is_dir():
        msg = f"there is no folder {folder}; name the folder that holds {study.folder}/ by --data"
        raise DataError(msg)
    rows = study.read(folder)
    trips = sum(1 for _ in rows.trips())
    if trips <= FIRST + 1:
        msg = f"{folder} holds {trips} trips; more than {FIRST + 1} are needed to score any"
        raise DataError(msg)
    found = score(rows, study.setting, advance=advance)
    told = score(rows, study.setting, [MODELS[1], MODELS[3], MODELS[-1]], knows_time=True)
    output.mkdir(parents=True, exist_ok=True)
    _figure(study, found, output / "trips.png")
    page = output / "summary.md"
    text = "\n".join(_page(study, rows, found, told)) + "\n"
    write_atomically(page, lambda file: file.write(text.encode()))
    return page


def _page(
    study: DriveStudy, rows: Passages, found: Mapping[str, Scores], told: Mapping[str, Scores]
) -> list[str]:
    full = found[MODELS[-1]]
    trips, roads = np.unique(rows.trip).size, np.unique(rows.road).size
    days, km = np.unique(rows.day).size, rows.length_m.sum() / 1000
    lines = [
        f"# {study.title}",
        "",
        f"{len(rows):,} passages of {roads} roads on {trips} trips and {days} days, {km:.0f} km; "
        f"in {study.unit}. Every trip is predicted, then learned, in the order driven; scored from "
        f"trip {FIRST + 1} on. Density: mean log predictive density; against the full model with "
        "its 95 % interval, bootstrapped by trip. Days deviate by "
        f"{DAY:.0%} of use a priori (a log-normal of deviation {DAY_SPREAD}).",
        "",
    ]
    for head, summed in (("Passages of roads", of_rows), ("Whole trips", of_trips)):
        lines += [f"## {head}", "", *_table({n: summed(s, full) for n, s in found.items()}), ""]
    best = told[MODELS[-1]]
    lines += ["## Whole trips, durations told before", ""]
    lines += [*_table({n: of_trips(s, best) for n, s in told.items()}), ""]
    times = of_times(full)
    if times is not None:
        lines += [
            "## How long trips took",
            "",
            f"Error {times.error:.1%}, 90 % coverage {times.covered:.2f} "
            f"({times.covered_low:.2f} to {times.covered_high:.2f}) of {times.number} trips.",
            "",
        ]
    lines += ["## What the full model found", "", "| component | deviation |", "|---|---|"]
    lines += [f"| {name} | {value:.3g} |" for name, value in full.deviations.items()]
    return lines


def _table(rows: Mapping[str, Summary]) -> list[str]:
    lines = [
        "| model | density | against full | error | 90 % coverage | of |",
        "|---|---|---|---|---|---|",
    ]
    for name, row in rows.items():
        gap = f"{row.against:+.3f} ({row.low:+.3f} to {row.high:+.3f})" if row.against else ""
        lines.append(
            f"| {name} | {row.density:.3f} | {gap} | {row.error:.1%} | {row.covered:.3f} "
            f"({row.covered_low:.3f} to {row.covered_high:.3f}) | {row.number:,} |"
        )
    return lines


def _figure(study: DriveStudy, found: Mapping[str, Scores], path: Path) -> None:
    """Draw measured and predicted trips."""
    figure = Figure(figsize=(9.0, 4.2), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(1, 2, sharey=True)
    for axis, name in zip(axes, (MODELS[0], MODELS[-1]), strict=True):
        scores = found[name]
        number = np.arange(scores.trip_used.size) + FIRST + 1
        axis.errorbar(
            number,
            scores.trip_mean,
            1.645 * scores.trip_std,
            fmt="none",
            ecolor="#8fb4d9",
            elinewidth=3,
            label="predicted, 90 %",
        )
        axis.plot(number, scores.trip_used, "o", ms=3.5, color="#b3261e", label="measured")
        axis.set_title(name)
        axis.set_xlabel("trip")
        tidy(axis)
    axes[0].set_ylabel(study.unit)
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=2, frameon=False)
    write_atomically(path, lambda file: figure.savefig(file, format="png", dpi=150))
