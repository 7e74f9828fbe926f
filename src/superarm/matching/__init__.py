"""GPS traces to routes, and logs of vehicles to trips: hidden-Markov matching on legal turns.

==============================  ====================================================================
what you have or want           name
==============================  ====================================================================
files of a logger               `read_logs` (CSV, Parquet, GPX), with `Columns` for unusual names
a log and a network             `Importer`: trips that can be learned, and a report of what was not
points of one drive             `Trace` and `Matcher`: which edges, where, how sure
trips to keep or to send        `write_trips`, `read_trips`, `reports_of`
how good matching is            `random_routes`, `driven`, `wrong_share`
==============================  ====================================================================
"""

from superarm.matching.logs import Columns, Log, read_logs
from superarm.matching.matcher import Match, Matcher, Part, Trace
from superarm.matching.trial import KnownDrive, driven, random_routes, wrong_share
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
    "KnownDrive",
    "Log",
    "Match",
    "MatchedTrip",
    "Matcher",
    "Part",
    "Trace",
    "driven",
    "random_routes",
    "read_logs",
    "read_trips",
    "reports_of",
    "write_trips",
    "wrong_share",
]
