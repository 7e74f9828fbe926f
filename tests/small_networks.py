"""Small networks for tests: random ones, and a SUMO file written by hand."""

from pathlib import Path

import numpy as np

from superarm.roads.network import RoadNetwork


def random_network(seed: int, n_junctions: int = 12, n_edges: int = 40) -> RoadNetwork:
    """Roads between random junctions at random heights; every turn is legal."""
    rng = np.random.default_rng(seed)
    pairs = [(a, b) for a in range(n_junctions) for b in range(n_junctions) if a != b]
    chosen = [pairs[i] for i in rng.permutation(len(pairs))[:n_edges]]
    ends = np.array(chosen)
    xy = 1000 * rng.random((n_junctions, 2))
    gap = xy[ends[:, 1]] - xy[ends[:, 0]]
    distance = np.hypot(gap[:, 0], gap[:, 1])
    turns = [(i, j) for i in range(n_edges) for j in range(n_edges) if ends[i, 1] == ends[j, 0]]
    return RoadNetwork(
        name=f"random {seed}",
        edge_ids=np.array([f"e{i}" for i in range(n_edges)]),
        from_junction=ends[:, 0].copy(),
        to_junction=ends[:, 1].copy(),
        length_m=np.maximum(distance * rng.uniform(0.3, 1.4, n_edges), 0.2),
        speed_ms=rng.uniform(5, 35, n_edges),
        lanes=rng.integers(1, 4, n_edges),
        junction_ids=np.array([f"j{i}" for i in range(n_junctions)]),
        junction_xy_m=xy,
        junction_height_m=rng.uniform(0, 200, n_junctions),
        shape_xy_m=xy[ends].reshape(-1, 2),
        shape_start=np.arange(0, 2 * n_edges + 1, 2),
        turns=np.array(turns, dtype=np.intp).reshape(-1, 2),
    )


SUMO = """<?xml version="1.0" encoding="UTF-8"?>
<net version="1.20">
  <location netOffset="10.00,20.00" convBoundary="0,0,200,100" origBoundary="0,0,1,1"
            projParameter="+proj=utm +zone=32 +datum=WGS84"/>
  <edge id="ab" from="a" to="b" priority="1">
    <lane id="ab_0" index="0" disallow="bicycle" speed="13.9" length="95.0" shape="0,0 100,0"/>
    <lane id="ab_1" index="1" disallow="bicycle" speed="13.9" length="95.0" shape="0,3 100,3"/>
  </edge>
  <edge id="bc" from="b" to="c" priority="1">
    <lane id="bc_0" index="0" speed="8.3" length="90.0" shape="100,0 150,20 200,0"/>
    <lane id="bc_1" index="1" speed="8.3" length="90.0" shape="100,3 150,23 200,3"/>
  </edge>
  <edge id="ca" from="c" to="a" priority="1">
    <lane id="ca_0" index="0" speed="8.3" length="180.0" shape="200,0 0,0"/>
  </edge>
  <edge id="walk" from="a" to="c" priority="1">
    <lane id="walk_0" index="0" allow="pedestrian" speed="1.4" length="200.0" shape="0,0 200,0"/>
  </edge>
  <edge id="cd" from="c" to="d" priority="1">
    <lane id="cd_0" index="0" speed="8.3" length="50.0" shape="200,0 200,50"/>
  </edge>
  <junction id="a" type="priority" x="0" y="0" z="5" incLanes="ca_0" intLanes="" shape="0,0"/>
  <junction id="b" type="priority" x="100" y="0" z="25" incLanes="ab_0" intLanes="" shape="100,0"/>
  <junction id="c" type="priority" x="200" y="0" z="15" incLanes="bc_0" intLanes="" shape="200,0"/>
  <junction id="d" type="priority" x="200" y="50" z="15" incLanes="cd_0" intLanes="" shape="200,0"/>
  <connection from="ab" to="bc" fromLane="0" toLane="0" dir="s" state="M"/>
  <connection from="ab" to="bc" fromLane="1" toLane="1" dir="s" state="M"/>
  <connection from="bc" to="ca" fromLane="0" toLane="0" dir="s" state="M"/>
  <connection from="bc" to="cd" fromLane="0" toLane="0" dir="s" state="M"/>
  <connection from="ca" to="ab" fromLane="0" toLane="0" dir="s" state="M"/>
</net>
"""


def sumo_file(folder: Path) -> Path:
    path = folder / "small.net.xml"
    path.write_text(SUMO, encoding="utf-8")
    return path


OSM = """<?xml version="1.0" encoding="UTF-8"?>
<osm version="0.6" generator="by hand">
  <bounds minlat="49.600" minlon="6.100" maxlat="49.610" maxlon="6.120"/>
  <node id="1" lat="49.6000" lon="6.1000"><tag k="ele" v="250"/></node>
  <node id="2" lat="49.6000" lon="6.1100"><tag k="ele" v="280"/></node>
  <node id="3" lat="49.6080" lon="6.1100"><tag k="ele" v="310"/></node>
  <node id="4" lat="49.6080" lon="6.1000"><tag k="ele" v="260"/></node>
  <way id="10"><nd ref="1"/><nd ref="2"/><tag k="highway" v="secondary"/></way>
  <way id="11"><nd ref="2"/><nd ref="3"/><tag k="highway" v="residential"/></way>
  <way id="12"><nd ref="3"/><nd ref="4"/><tag k="highway" v="residential"/></way>
  <way id="13"><nd ref="4"/><nd ref="1"/><tag k="highway" v="residential"/></way>
  <way id="14"><nd ref="1"/><nd ref="3"/><tag k="highway" v="footway"/></way>
  <way id="15"><nd ref="2"/><nd ref="4"/><tag k="highway" v="tertiary"/></way>
</osm>
"""
