"""Road networks from files: our own, SUMO's, OpenStreetMap's, and published ones."""

from superarm.roads.network.formats.fetch import fetch
from superarm.roads.network.formats.osm import read_osm
from superarm.roads.network.formats.reading import open_network
from superarm.roads.network.formats.sumo import read_sumo

__all__ = ["fetch", "open_network", "read_osm", "read_sumo"]
