"""Roads and electric vehicles: networks, physics, what is learned of both, and routes.

============================  ======================================================================
package                       what is in it
============================  ======================================================================
`superarm.roads.vehicle`      `Vehicle`: what an electric vehicle is, as far as roads depend on it
`superarm.roads.battery`      `ChargingCurve`: what is in a battery, how fast it charges
`superarm.roads.network`      `RoadNetwork`: files of SUMO and OpenStreetMap, generated cities
`superarm.roads.physics`      the energy of a segment from physics alone
`superarm.roads.matching`     GPS traces to paths
`superarm.roads.imports`      logs of vehicles to trips
`superarm.roads.models`       priors of energy and time, and what is learned
`superarm.roads.routing`      routes that a vehicle may take
`superarm.roads.charging`     stations, and plans that stop at them
`superarm.roads.bandit`       the paper's problem: `NavigationProblem`
`superarm.roads.town`         `Town`: what your vehicles logged goes in, routes come out
`superarm.roads.maps`         figures of networks
============================  ======================================================================
"""
