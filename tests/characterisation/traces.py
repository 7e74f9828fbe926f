"""GPS traces of known drives: what the matcher and the importer make of them; maps that change."""

import csv
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from characterisation import asking
from characterisation.forms import Answer, Files, digest, means, summarise
from characterisation.reports import Trace, Truth, draw_trace

SEED, EDGES, TRUTH_SEED = 14, 900, 6
LOGGERS = {"every second": (1.0, 4.0), "every 5 s": (5.0, 10.0), "every 20 s": (20.0, 12.0)}


def answers() -> Files:
    """Return matched traces, imported logs, and edges of one map on another."""
    network = asking.generate(SEED, EDGES)
    truth = Truth.draw(asking.roads_of(network), TRUTH_SEED)
    matched, imported = {}, {}
    for name, (every_s, noise_m) in LOGGERS.items():
        for seed in range(3):
            trace = draw_trace(truth, seed, 28, every_s, noise_m)
            case = f"{name} {seed}"
            matched[case] = _match(asking.match(network, trace, noise_m))
            imported[case] = _trips(*asking.import_trace(network, trace))
    trace = draw_trace(truth, 4, 24, 2.0, 6.0)
    gap = (trace.seconds < 40) | (trace.seconds > 100)
    holes = Trace(trace.edges, *(column[gap] for column in trace[1:]))
    matched["with a gap"] = _match(asking.match(network, holes, 6.0))
    there_and_back = trace._replace(
        seconds=np.append(trace.seconds, trace.seconds + trace.seconds[-1] + 2.0),
        xy_m=np.concatenate([trace.xy_m, trace.xy_m[::-1] + np.array([2.5, -1.5])]),
    )
    for seed in range(10, 22):  # far from roads, where beliefs about detours decide
        trace_far = draw_trace(truth, seed, 25, 8.0, 28.0)
        match = asking.match(network, trace_far, 25.0)
        parts = [" ".join(part["edges"]) for part in match["parts"]]
        matched[f"blurred {seed}"] = {"edges": parts, "share": match["share"]}
    back = _match(asking.match(network, there_and_back, 6.0, u_turns=True))
    # both directions of a street fit a point near the turn equally well: rounding decides
    del back["part 0"]["along_m"]
    matched["there and back"] = back
    imported["file"] = _trips(*_file(network, trace))
    old = asking.generate(SEED + 1, 500)
    moved = asking.map_edges(old, asking.change_map(old))
    pieces = {"counts": moved["counts"], "pieces": digest(moved["pieces"])}
    maps = {"changed map": pieces | {"shares": summarise(moved["shares"])}}
    return {"matched": matched, "imported": imported, "map-changes": maps}


def _match(match: dict[str, Any]) -> Answer:
    parts = {
        f"part {number}": {
            "edges": " ".join(part["edges"]),
            "points": part["along_m"].size,
            "along_m": means(part["along_m"]),
            "off_m": means(part["off_m"]),
        }
        for number, part in enumerate(match["parts"])
    }
    return parts | {"problems": match["problems"], "share": match["share"]}


def _trips(report: dict[str, Any], trips: list[dict[str, Any]]) -> Answer:
    answer: Answer = dict(report)
    for number, trip in enumerate(trips):
        answer[f"trip {number}"] = {
            "edges": " ".join(trip["edges"]),
            "first": trip["first"],
            "last": trip["last"],
            "entered_s": np.round(trip["entered_s"] - trip["entered_s"][0], 9),
            "speed_ms": means(trip["speed_ms"]),
            "energy_wh": trip["energy_wh"],
        }
    return answer


def _file(network: asking.Network, trace: Trace) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return the trips of a table with a state of power, every third reading missing."""
    globe = asking.locate(network, trace.xy_m)
    power = 3600 * np.gradient(trace.used_wh, trace.seconds)
    with tempfile.TemporaryDirectory(prefix="superarm-net-") as name:
        path = Path(name) / "log.csv"
        with path.open("w", newline="", encoding="utf-8") as file:
            table = csv.writer(file)
            table.writerow(["timestamp", "lon", "lat", "power_kw", "speed_kmh"])
            for row, seconds in enumerate(trace.clock_s):
                when = datetime.fromtimestamp(float(seconds), UTC).isoformat()
                watts = "" if row % 3 == 2 else f"{power[row] / 1000:.5f}"
                table.writerow([when, *globe[row].tolist(), watts, f"{30 + row % 7}"])
        return asking.import_file(network, path)
