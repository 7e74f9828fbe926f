"""Logs of vehicles to trips: read, matched to roads, written.

========================  ==========================================================================
what you have or want     name
========================  ==========================================================================
files of a logger         `read_logs` (CSV, Parquet, GPX), with `Columns` for unusual names
a log and a network       `Importer`: trips that can be learned, and a report of what was not
trips to keep or to send  `write_trips`, `read_trips`, `reports_of`
========================  ==========================================================================
"""

from superarm.roads.imports.importer import (
    Importer,
    ImportReport,
    MatchedTrip,
    read_trips,
    reports_of,
    write_trips,
)
from superarm.roads.imports.logs import Columns, Log, read_logs

__all__ = [
    "Columns",
    "ImportReport",
    "Importer",
    "Log",
    "MatchedTrip",
    "read_logs",
    "read_trips",
    "reports_of",
    "write_trips",
]
