"""A road network of our own as a SUMO network, so that everybody can simulate without data."""

import importlib.util
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from xml.sax.saxutils import quoteattr

import numpy as np

from superarm.roads.network.network import RoadNetwork
from superarm.simulation.process import SimulationError

_TIMEOUT_S = 3600.0
_SAME = 0.02


def write_sumo(network: RoadNetwork, path: str | os.PathLike[str]) -> Path:
    """Write a network as SUMO's, with the same ids of edges and junctions, and return the file.

    Geometry, heights, limits, lanes and legal turns are ours, and so are lengths, part of which
    becomes that of junctions; lanes of turns, right of way and, where we know of no traffic lights,
    the junctions that have some are netconvert's choice.

    Args:
        network: the roads.
        path: the file to write, ``.net.xml``; three files beside it hold the network in parts.
    """
    target = Path(path)
    stem = target.with_name(target.name.removesuffix(".net.xml"))
    files = {
        "node-files": (Path(f"{stem}.nod.xml"), "nodes", _nodes(network)),
        "edge-files": (Path(f"{stem}.edg.xml"), "edges", _edges(network)),
        "connection-files": (Path(f"{stem}.con.xml"), "connections", _connections(network)),
    }
    arguments = []
    for option, (file, tag, lines) in files.items():
        with file.open("w", encoding="utf-8") as out:
            out.write(f"<{tag}>\n")
            out.writelines(lines)
            out.write(f"</{tag}>\n")
        arguments += [f"--{option}", str(file)]
    if not network.junction_light.any():
        arguments += ["--tls.guess", "true"]
    run_tool("netconvert", [*arguments, "--no-turnarounds", "false", "--output-file", str(target)])
    return target


def run_tool(name: str, arguments: list[str]) -> None:
    """Run one of SUMO's programs; a failure says what it printed."""
    program = [str(sumo_home() / "bin" / name), "--no-warnings", "--xml-validation", "never"]
    _run(name, [*program, *arguments], None)


def run_script(name: str, arguments: list[str], folder: Path) -> None:
    """Run one of SUMO's Python tools in a folder; likewise."""
    _run(name, [sys.executable, str(sumo_home() / "tools" / name), *arguments], folder)


def _run(name: str, command: list[str], folder: Path | None) -> None:
    done = subprocess.run(  # noqa: S603 - a program of SUMO's on files named by us
        command,
        cwd=folder,
        env=os.environ | _settings(sumo_home()),
        capture_output=True,
        text=True,
        check=False,
        timeout=_TIMEOUT_S,
    )
    if done.returncode:
        reason = " ".join((done.stderr or done.stdout).split())[-600:]
        msg = f"SUMO's {name} failed: {reason or done.returncode}"
        raise SimulationError(msg)


def sumo_home() -> Path:
    """Return where SUMO's programs are."""
    # found, not imported: that would hand SUMO's PROJ data to every other library of this process
    found = importlib.util.find_spec("sumo")
    if found is None or found.origin is None:
        msg = "simulations need SUMO: pip install 'superarm[simulation]'"
        raise SimulationError(msg)
    return Path(found.origin).parent


def _settings(home: Path) -> dict[str, str]:
    """Return what SUMO's programs look for in their environment."""
    data = str(home / "data" / "proj")
    return {"SUMO_HOME": str(home), "PROJ_LIB": data, "PROJ_DATA": data}


def _nodes(network: RoadNetwork) -> Iterator[str]:
    rows = zip(
        network.junction_ids.tolist(),
        network.junction_xy_m.tolist(),
        network.junction_height_m.tolist(),
        network.junction_light.tolist(),
        strict=True,
    )
    for name, (x, y), z, light in rows:
        kind = ' type="traffic_light"' if light else ""
        yield f'<node id={quoteattr(name)} x="{x:.3f}" y="{y:.3f}" z="{z:.3f}"{kind}/>\n'


def _edges(network: RoadNetwork) -> Iterator[str]:
    names, heights = network.junction_ids, network.junction_height_m
    for edge in range(network.n_edges):
        begin, end = int(network.from_junction[edge]), int(network.to_junction[edge])
        points = network.shape_of(edge)
        along = np.append(0.0, np.cumsum(np.hypot(*np.diff(points, axis=0).T)))
        share = along / along[-1] if along[-1] > 0 else along
        # SUMO climbs by the slope of its geometry, for as long as the lane is said to be: a length
        # of its own only where the geometry is not the road's
        length = float(network.length_m[edge])
        own = "" if abs(length - along[-1]) <= _SAME * length else f'length="{length:.3f}" '
        z = heights[begin] + (heights[end] - heights[begin]) * share
        shape = " ".join(f"{x:.3f},{y:.3f},{h:.3f}" for (x, y), h in zip(points, z, strict=True))
        yield (
            f"<edge id={quoteattr(str(network.edge_ids[edge]))} "
            f"from={quoteattr(str(names[begin]))} to={quoteattr(str(names[end]))} "
            f'numLanes="{network.lanes[edge]}" speed="{network.speed_ms[edge]:.4f}" '
            f'{own}shape="{shape}"/>\n'
        )


def _connections(network: RoadNetwork) -> Iterator[str]:
    ids = network.edge_ids
    for first, second in network.turns.tolist():
        yield f"<connection from={quoteattr(str(ids[first]))} to={quoteattr(str(ids[second]))}/>\n"
