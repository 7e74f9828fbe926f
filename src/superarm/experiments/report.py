"""One self-contained HTML page of an experiment, from its stored runs alone."""

import html
from collections import defaultdict
from pathlib import Path

import numpy as np

from superarm.arrays import Vector
from superarm.evaluation.pages import document, image, table
from superarm.experiments.config import POINTS
from superarm.experiments.figures import draw_figures
from superarm.experiments.study import REGRET, Cell, Study
from superarm.saving.files import write_atomically


def write_report(study: Study, folder: Path) -> Path:
    """Write ``report.html`` and the figures; return the page's path."""
    pictures = draw_figures(study, folder / "figures")
    body = [_head(study)]
    body += [
        f"<section><h2>{html.escape(_spoken(name))}</h2>{image(picture, _spoken(name))}</section>"
        for name, picture in pictures.items()
    ]
    if study.cells:
        body += [_final(study), _pairs(study), _times(study)]
    body.append(_origin(study))
    page = folder / "report.html"
    text = document(study.experiment.title or study.experiment.name, body).encode()
    write_atomically(page, lambda file: file.write(text))
    return page


def _head(study: Study) -> str:
    experiment = study.experiment
    done = sum(len(repeats) for repeats in study.cells.values())
    kinds = {place.points is not None for place in experiment.places}
    meaning = []
    if False in kinds:
        meaning.append(
            "On roads regret is what the trips cost above the best route, in expected rectified "
            "cost; random routes are shown together."
        )
    if True in kinds:
        meaning.append(
            "Of points regret is the expected reward that the best choice would have brought more."
        )
    return f"""
<h1>{html.escape(experiment.title or experiment.name)}</h1>
<p class="lead">Experiment “{html.escape(experiment.name)}”: {len(experiment.methods)} methods,
horizon {experiment.horizon}, {done} finished runs. All methods of a repeat meet the same world:
truth, noise and what is on offer. {" ".join(meaning)}</p>"""


def _final(study: Study) -> str:
    parts = []
    for points, heads in (
        (False, ("final regret (Wh)", "± s.e.", "raw Wh per trip", "edges driven")),
        (True, ("final regret", "± s.e.", "reward per round", "arms played")),
    ):
        rows = [
            _final_row(study, cell) for cell in study.shown if (cell.network == POINTS) == points
        ]
        if rows:
            parts.append(table(("where", "world", "method", "worlds", *heads), rows))
    return f"<section><h2>Final regret</h2>{''.join(parts)}</section>"


def _final_row(study: Study, cell: Cell) -> tuple[str, ...]:
    final = study.final(cell)
    return (
        cell.place,
        f"{cell.truth}, ℓ = {cell.lengthscale:g}, {cell.traffic}",
        cell.method,
        str(final.size),
        f"{final.mean():,.1f}" if cell.network == POINTS else f"{final.mean():,.0f}",
        _error(final, 1 if cell.network == POINTS else 0),
        f"{study.column(cell, 'raw').mean():,.1f}",
        f"{study.final(cell, 'distinct').mean():,.0f}",
    )


def _pairs(study: Study) -> str:
    """Compare every method with the best of its kind, in the same worlds."""
    rows = []
    kinds = {settings.rectify for settings in study.experiment.methods.values()}
    for kind in sorted(kinds):
        methods = [m for m, s in study.experiment.methods.items() if s.rectify == kind]
        best = _best(study, methods)
        rows += [
            _pair_row(study, method, best, REGRET, average=False)
            for method in methods
            if best is not None and method != best
        ]
    unit = "" if all(place.points for place in study.experiment.places) else " (Wh)"
    heads = ("difference", f"mean{unit}", "± s.e.", "worlds", "first one lower in")
    text = f"<h2>Paired differences of final regret</h2>{table(heads, filter(None, rows))}"
    if len(kinds) > 1:  # regret is not comparable between kinds, energy is
        first, *others = study.experiment.methods
        raw = [_pair_row(study, other, first, "raw", average=True) for other in others]
        text += f"<h2>Raw energy per trip</h2>{table(heads, filter(None, raw))}"
    return (
        f"<section>{text}<p class='note'>Over everything that both have met; where worlds differ "
        "in lengthscale, truth or traffic only, their differences are averaged first.</p></section>"
    )


def _best(study: Study, methods: list[str]) -> str | None:
    """Return the method of least final regret over the cells that all of them have."""
    found: dict[Cell, dict[str, float]] = defaultdict(dict)
    for cell in study.cells:
        if cell.method in methods:
            found[cell._replace(method="")][cell.method] = float(study.final(cell).mean())
    common = [values for values in found.values() if len(values) == len(methods)]
    if not common:
        return None
    return min(methods, key=lambda method: sum(values[method] for values in common))


def _pair_row(
    study: Study, first: str, second: str, name: str, *, average: bool
) -> tuple[str, ...] | None:
    try:
        found = study.paired(first, second, name=name, average=average)
    except ValueError:
        return None  # they have no world in common yet
    error = "–" if np.isnan(found.standard_error) else f"{found.standard_error:,.1f}"
    share = f"{found.wins / found.pairs:.0%}"
    return (f"{first} − {second}", f"{found.mean:+,.1f}", error, str(found.pairs), share)


def _times(study: Study) -> str:
    rows = []
    for method in study.experiment.methods:
        runs = [run for cell, found in study.cells.items() if cell.method == method
                for run in found.values()]  # fmt: skip
        ms = [study.column(cell, "ms") for cell in study.cells if cell.method == method]
        if not runs:
            continue
        mean = float(np.mean(np.concatenate([part.ravel() for part in ms])))
        cpu = sum(float(run.manifest["cpu_s"]) for run in runs)
        per_second = f"{1e3 / mean:,.0f}" if mean > 0 else "–"
        rows.append((method, str(len(runs)), f"{mean:.2f}", per_second, f"{cpu:,.0f}"))
    heads = ("method", "runs", "CPU ms per round", "rounds per CPU second", "CPU s in all")
    total = f"{study.cpu_s:,.0f}"
    return (
        f"<section><h2>Time</h2>{table(heads, rows)}<p class='note'>Decide and learn, one thread "
        f"per run. All stored runs together took {total} s of CPU.</p></section>"
    )


def _origin(study: Study) -> str:
    declared = html.escape(study.experiment.model_dump_json(indent=2, exclude_none=True))
    versions = sorted(
        {", ".join(f"{k} {v}" for k, v in run.manifest["versions"].items()) for run in study.runs}
    )
    notes = "".join(f"<p>{html.escape(note)}</p>" for note in study.notes)
    made = "".join(f'<p class="note">Versions: {html.escape(line)}</p>' for line in versions)
    return (
        f"<section><h2>How it was made</h2>{notes}{made}"
        f'<div class="scroll"><pre class="note">{declared}</pre></div></section>'
    )


def _spoken(name: str) -> str:
    return name.replace("-", " ").capitalize()


def _error(values: Vector, digits: int) -> str:
    if values.size < 2:  # noqa: PLR2004 - a spread needs two
        return "–"
    return f"{values.std(ddof=1) / np.sqrt(values.size):,.{digits}f}"
