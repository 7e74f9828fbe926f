"""Road networks: as arrays, from files, generated, and where things lie on them.

========================  ==========================================================================
what you have or want     name
========================  ==========================================================================
a network                 `RoadNetwork`
from a file or a server   `open_network`, `read_osm`, `read_sumo`, `fetch`
without map data          `generate_city`, `corridor`: the track of one drive as a network
who may drive where       `Access`
places on the globe       `Geography`
========================  ==========================================================================
"""

from superarm.roads.network.access import Access
from superarm.roads.network.city import generate_city
from superarm.roads.network.corridor import corridor
from superarm.roads.network.formats import fetch, open_network, read_osm, read_sumo
from superarm.roads.network.geography import Geography
from superarm.roads.network.network import RoadNetwork

__all__ = [
    "Access",
    "Geography",
    "RoadNetwork",
    "corridor",
    "fetch",
    "generate_city",
    "open_network",
    "read_osm",
    "read_sumo",
]
