"""The package that `superarm.roads.matching` replaces; importing it says so."""

msg = (
    "superarm.matching is now superarm.roads.matching (Matcher, Trace) and superarm.roads.imports "
    "(read_logs, Importer, read_trips); docs/stability.md lists all names"
)
raise ImportError(msg, name=__name__)
