"""The demonstration as one self-contained HTML page."""

import html
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from superarm.demos.navigation import Demonstration, RouteResult, final_regret
from superarm.evaluation.figures import draw_regret
from superarm.evaluation.pages import document, image
from superarm.roads.bandit.agents import METHODS
from superarm.roads.maps import (
    Panel,
    draw_maps,
    exploration_panel,
    height_panel,
    per_km_panel,
    uncertainty_panel,
)
from superarm.roads.network.statistics import describe


def write_page(demo: Demonstration, folder: Path) -> tuple[Path, Path]:
    """Write the page and its first picture to a folder; return their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    overview = overview_picture(demo, folder / "navigation.png")
    body = [_head(demo, overview), *(_route_section(demo, route) for route in demo.routes)]
    page = folder / "navigation.html"
    page.write_text(document("Superarm: a navigator that learns", body), encoding="utf-8")
    return page, folder / "navigation.png"


def overview_picture(demo: Demonstration, path: Path | None) -> bytes:
    """Draw the city with the routes learned, and what exploring looked like."""
    network = demo.model.network
    routes = {f"route {route.name}": route.last_route["GP-TS"] for route in demo.routes}
    first = demo.routes[0]
    most = max(float(visits.max()) for visits in first.visits.values())
    panels = [
        height_panel(network, routes, "The city, and the routes GP-TS has learned"),
        exploration_panel(first.visits["GP-TS"], "Route A explored by GP-TS", most=most),
        exploration_panel(first.visits["BI-UCB"], "Route A explored by BI-UCB", most=most),
        uncertainty_panel(
            first.std_wh["GP-BUCB"],
            np.sqrt(demo.model.gp.prior.variance),
            "What GP-BUCB does not know yet",
        ),
    ]
    return draw_maps(network, panels, path)


def _head(demo: Demonstration, overview: bytes) -> str:
    model, network = demo.model, demo.model.network
    facts = describe(network)
    regeneration = (
        "Regeneration is kept: the bandit learns dissipation, and potential energy telescopes."
        if model.rectify == "dissipation"
        else "Negative energies are rectified, as in the paper."
    )
    return f"""
<h1>A navigator that learns</h1>
<p class="lead">Each round an electric vehicle drives from start to goal and measures the energy of
every road segment on its way. {demo.horizon} rounds, {demo.repeats} worlds, six methods: Gaussian
processes on the line graph (GP) and independent segments (BI), under UCB, BayesUCB (BUCB) and
Thompson sampling (TS). {regeneration} The true cost is negative on
{demo.negative_share:.0%} of the segments.</p>
<section><h2>{html.escape(network.name)}</h2>{image(overview, "maps of the city")}
<p class="note">{facts["edges"]} segments, {facts["turns"]} turns, heights {facts["heights"]},
grade {facts["grade"]}.</p></section>"""


def _route_section(demo: Demonstration, route: RouteResult) -> str:
    model = demo.model
    regret = final_regret(route.results)
    best = min(regret, key=lambda method: regret[method][0])
    rows = "".join(
        f"<tr{' class=best' if method == best else ''}><td>{method}</td>"
        f"<td>{regret[method][0]:,.0f} ± {regret[method][1]:,.0f}</td>"
        f"<td>{route.energy_wh[method]:,.0f}</td>"
        f"<td>{100 * (route.energy_wh[method] / route.best_wh - 1):+.1f} %</td>"
        f"<td>{int((route.visits[method] > 0).sum()):,}</td>"
        f"<td>{route.results[method].milliseconds:.1f}</td></tr>"
        for method in sorted(regret, key=lambda method: regret[method][0])
    )
    curves = draw_regret(
        route.results, None, title=f"Route {route.name}", label="cumulative regret (Wh)"
    )
    most = max(float(visits.max()) for visits in route.visits.values())
    explored = [exploration_panel(route.visits[method], method, most=most) for method in METHODS]
    learned: Sequence[Panel] = [
        per_km_panel(model.network, route.truth_wh, "True energy"),
        per_km_panel(model.network, model.prior_energy_wh, "Believed before"),
        per_km_panel(model.network, route.mean_wh["GP-TS"], "Believed by GP-TS in the end"),
        uncertainty_panel(
            route.std_wh["GP-TS"], np.sqrt(model.gp.prior.variance), "Still unknown to GP-TS"
        ),
    ]
    return f"""
<section><h2>Route {route.name}: from {html.escape(route.start)} to {html.escape(route.goal)}</h2>
<div class="scroll"><table><thead><tr><th>method</th><th>regret after {demo.horizon} trips (Wh)</th>
<th>energy of the last trips (Wh)</th><th>above the best known</th><th>segments driven</th>
<th>ms per round</th></tr></thead><tbody>{rows}</tbody></table></div>
<p class="note">Regret: what the trips cost above the best route, in expected rectified
{html.escape(model.rectify)}; mean ± one standard error. The best route, if the truth were known,
takes {route.best_wh:,.0f} Wh.</p>
{image(curves, f"regret on route {route.name}")}</section>
<section><h2>Route {route.name}: where the methods went</h2>
{image(draw_maps(model.network, explored, None, columns=3), "exploration maps")}</section>
<section><h2>Route {route.name}: what was learned</h2>
{image(draw_maps(model.network, learned, None), "energy maps")}</section>"""
