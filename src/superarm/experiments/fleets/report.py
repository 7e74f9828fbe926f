"""Tables and figures of a fleet study."""

import io
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from superarm.evaluation.figures import COLOURS, tidy
from superarm.experiments.fleets.config import FleetStudy
from superarm.experiments.fleets.summary import FleetResults, markdown
from superarm.saving.files import write_atomically

_SHOWN = ("calibrated", "GP-TS", "GP-mean", "GP-TS-paper")


def write_fleet_report(
    study: FleetStudy,
    results: FleetResults,
    folder: Path,
    regret: Mapping[str, Sequence[float]] | None = None,
) -> Path:
    """Write ``summary.md`` and the figure by day; return the page's path.

    Args:
        study: what was declared.
        results: all trips.
        folder: where to write.
        regret: by method and world, from `superarm.experiments.fleets.pooled`.
    """
    reference = study.methods[0]
    lines = [f"# {study.title or study.name}", ""]
    for part in (None, *results.parts):
        rows = results.compared(reference, first_day=study.first_day, part=part)
        where = "All trips" if part is None else f"Trips {part}"
        lines += [f"## {where}, days {study.first_day} to {study.days}", ""]
        lines += [markdown(rows, study.methods), ""]
    first = results.compared(reference, last_day=1)
    lines += ["## The first day: the price of exploring", "", markdown(first, study.methods), ""]
    if regret:
        worlds = len(next(iter(regret.values())))
        lines += [f"## Regret against the map learned by all together ({worlds} worlds)", ""]
        lines += ["| route by | Wh per trip | standard error |", "|---|---|---|"]
        for name in study.methods:
            values = np.array(regret[name])
            error = values.std(ddof=1) / np.sqrt(worlds) if worlds > 1 else np.nan
            lines.append(f"| {name} | {values.mean():.2f} | {error:.2f} |")
        lines.append("")
    page = folder / "summary.md"
    folder.mkdir(parents=True, exist_ok=True)
    text = "\n".join(lines).encode()
    write_atomically(page, lambda file: file.write(text))
    picture = draw_by_day(study, results)
    write_atomically(folder / "by-day.png", lambda file: file.write(picture))
    return page


def draw_by_day(study: FleetStudy, results: FleetResults) -> bytes:
    """Return a picture of the energy that methods use more than the first one, day by day."""
    parts = results.parts
    figure = Figure(figsize=(5.0 * len(parts), 3.8), layout="constrained")
    FigureCanvasAgg(figure)
    axes = [figure.add_subplot(1, len(parts), place + 1) for place in range(len(parts))]
    reference = study.methods[0]
    shown = [name for name in _SHOWN if name in results.methods and name != reference]
    for axis, part in zip(axes, parts, strict=True):
        for name, colour in zip(shown, COLOURS, strict=False):
            mean, error = results.by_day(name, reference, part)
            days = np.arange(1, mean.size + 1)
            axis.plot(days, mean, label=name, color=colour)
            axis.fill_between(
                days, mean - 2 * error, mean + 2 * error, color=colour, alpha=0.15, lw=0
            )
        axis.axhline(0.0, color="0.4", lw=0.8)
        axis.set(title=part, xlabel="day", ylabel=f"energy against {reference} (%)")
        axis.xaxis.set_major_locator(MaxNLocator(integer=True))
        tidy(axis)
    axes[-1].legend(frameon=False)
    figure.suptitle(f"{study.title}: means over worlds and two standard errors", fontsize=11)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=150)
    return buffer.getvalue()
