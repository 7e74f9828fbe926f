"""The package that `superarm.roads` replaces; importing it says so."""

msg = (
    "superarm.navigation is now superarm.roads (RoadNetwork: superarm.roads.network, Vehicle: "
    "superarm.roads.vehicle, Town: superarm.roads.town); docs/stability.md lists all names"
)
raise ImportError(msg, name=__name__)
