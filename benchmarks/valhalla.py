"""Our matcher and Valhalla's on the same traces of Andorra, in one run.

Usage: python benchmarks/run.py valhalla -- --osm andorra.osm.pbf --python PYTHON, where PYTHON is
an interpreter with pyvalhalla (wheels exist for Python 3.12 and newer). Valhalla is told the same
GPS accuracy; the line that it returns is brought back to our edges by matching it without noise, so
that both are judged by the same lengths.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from common import report, say, table

from superarm.arrays import Matrix
from superarm.roads.matching import Match, Matcher, Trace
from superarm.roads.matching.trial import KnownDrive, driven, random_routes, wrong_m
from superarm.roads.network import Geography, RoadNetwork, read_osm

EVERY_S = (1.0, 5.0, 15.0, 30.0)
NOISE_M = 10.0

ASKING = r"""
import json, pathlib, subprocess, sys, time
import valhalla
from valhalla.utils import decode_polyline
folder, osm = pathlib.Path(sys.argv[1]), sys.argv[2]
tools = pathlib.Path(valhalla.__file__).parent / "bin"
(folder / "tiles").mkdir()
config = valhalla.get_config(tile_extract="", tile_dir=str(folder / "tiles"), verbose=False)
config["mjolnir"]["tile_extract"] = ""
(folder / "config.json").write_text(json.dumps(config))
subprocess.run(
    [str(tools / "valhalla_build_tiles"), "-c", str(folder / "config.json"), osm],
    check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
)
actor = valhalla.Actor(config)
answers = []
for trace in json.loads((folder / "traces.json").read_text()):
    asked = {
        "shape": [{"lon": x, "lat": y, "time": t} for t, x, y in trace["points"]],
        "costing": "auto", "shape_match": "map_snap", "gps_accuracy": trace["noise"],
        "trace_options": {"gps_accuracy": trace["noise"], "search_radius": 50},
        "filters": {"attributes": ["edge.way_id", "shape"], "action": "include"},
    }
    begin = time.process_time()
    try:
        found = actor.trace_attributes(asked)
    except Exception as error:
        answers.append({"cpu_s": time.process_time() - begin, "line": [], "error": str(error)})
        continue
    cpu = time.process_time() - begin
    answers.append({"cpu_s": cpu, "line": [list(p) for p in decode_polyline(found["shape"])]})
(folder / "answers.json").write_text(json.dumps(
    {"version": getattr(valhalla, "__version__", ""), "answers": answers}))
"""


def main() -> None:
    """Compare."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--osm", type=Path, required=True)
    parser.add_argument("--python", required=True)
    parser.add_argument("--routes", type=int, default=100)
    options = parser.parse_args()
    network = read_osm(options.osm).largest_component()
    geography = Geography(network)
    routes = random_routes(network, options.routes, np.random.default_rng(0))
    drives, traces = [], []
    for every in EVERY_S:
        rng = np.random.default_rng(1)
        for route in routes:
            drive = driven(network, route, every)
            drives.append((every, drive))
            traces.append(drive.seen(NOISE_M, 0.0, rng))
    answers = _valhalla(options, [(trace, geography.to_globe(trace.xy_m)) for trace in traces])
    ours = _ours(network, traces)
    decode = Matcher(network, accuracy_m=3.0, u_turns=True)
    rows: list[dict[str, Any]] = []
    for every in EVERY_S:
        some = [i for i, (spacing, _) in enumerate(drives) if spacing == every]
        length = sum(_length(network, drives[i][1]) for i in some)
        points = sum(len(traces[i]) for i in some)
        mine = sum(wrong_m(network, drives[i][1], ours[i][0]) for i in some)
        lines = [_decoded(decode, geography, answers["answers"][i]["line"]) for i in some]
        theirs = sum(
            wrong_m(network, drives[i][1], line) for i, line in zip(some, lines, strict=True)
        )
        cpu = sum(answers["answers"][i]["cpu_s"] for i in some)
        rows.append(
            {
                "every (s)": int(every),
                "points": points,
                "ours, wrong (%)": round(100 * mine / length, 2),
                "Valhalla, wrong (%)": round(100 * theirs / length, 2),
                "ours, points/s": round(points / sum(ours[i][1] for i in some)),
                "Valhalla, points/s": round(points / cpu),
            }
        )
        say(str(rows[-1]))
    report(
        table(
            f"{options.routes} routes in {network.name}, noise {NOISE_M:g} m",
            rows,
            f"Valhalla {answers['version']}. Wrong: length added plus length missed. CPU of one",
            "core, after compilation; Valhalla's includes reading and writing its answer.",
        )
    )


def _valhalla(options: argparse.Namespace, traces: list[tuple[Trace, Matrix]]) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        asked = [
            {
                "noise": NOISE_M,
                "points": np.column_stack([trace.time_s, globe]).round(7).tolist(),
            }
            for trace, globe in traces
        ]
        (folder / "traces.json").write_text(json.dumps(asked))
        (folder / "asking.py").write_text(ASKING)
        subprocess.run(  # noqa: S603 - the interpreter that was named
            [options.python, str(folder / "asking.py"), name, str(options.osm.resolve())],
            check=True,
            stdout=sys.stderr,
        )
        found: dict[str, Any] = json.loads((folder / "answers.json").read_text())
    return found


def _ours(network: RoadNetwork, traces: list[Trace]) -> list[tuple[Match, float]]:
    Matcher(network, accuracy_m=NOISE_M).match(traces[0])  # compiles
    matcher = Matcher(network, accuracy_m=NOISE_M)
    found = []
    for trace in traces:
        begin = time.process_time()
        match = matcher.match(trace)
        found.append((match, time.process_time() - begin))
    return found


def _decoded(decode: Matcher, geography: Geography, line: list[list[float]]) -> Match:
    """Return a line of longitudes and latitudes as edges."""
    if len(line) < 2:
        return decode.match(Trace(np.empty(0), np.empty((0, 2))))
    xy = geography.plane_of(np.array(line))
    along = np.append(0.0, np.cumsum(np.hypot(*np.diff(xy, axis=0).T)))
    at = np.union1d(along, np.arange(0.0, along[-1], 5.0))
    places = np.column_stack([np.interp(at, along, xy[:, axis]) for axis in (0, 1)])
    return decode.match(Trace(at / 10.0, places))


def _length(network: RoadNetwork, drive: KnownDrive) -> float:
    return float(network.length_m[drive.route].sum()) - drive.first_m - drive.last_m


if __name__ == "__main__":
    main()
