"""GPS traces to routes, and logs of vehicles to trips: hidden-Markov matching on legal turns."""

from superarm.matching.logs import Columns, Log, read_logs
from superarm.matching.matcher import Match, Matcher, Part, Trace
from superarm.matching.trial import random_routes, wrong_share
from superarm.matching.trips import (
    Importer,
    ImportReport,
    MatchedTrip,
    read_trips,
    reports_of,
    write_trips,
)

__all__ = [
    "Columns",
    "ImportReport",
    "Importer",
    "Log",
    "Match",
    "MatchedTrip",
    "Matcher",
    "Part",
    "Trace",
    "random_routes",
    "read_logs",
    "read_trips",
    "reports_of",
    "write_trips",
    "wrong_share",
]
