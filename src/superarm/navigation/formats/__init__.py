"""Road networks from files: our own, SUMO's, OpenStreetMap's, and published ones."""

from superarm.navigation.formats.fetch import fetch
from superarm.navigation.formats.osm import read_osm
from superarm.navigation.formats.reading import open_network
from superarm.navigation.formats.sumo import read_sumo

__all__ = ["fetch", "open_network", "read_osm", "read_sumo"]
