"""What a learner keeps beside the database: snapshots, and sums of trips for an ensemble."""

import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from stored.asking.service import ask_learned, ask_sums
from stored.files import compress, pack, write_json
from stored.writing.learning import ARMS, gaussian_beliefs
from stored.writing.service import Writing
from superarm.beliefs.ensemble import EnsembleState, Observations
from superarm.roads.models.likelihood import Reader
from superarm.roads.models.times import TravelTimes
from superarm.saving import save_value
from superarm.service.learning.snapshots import Learned, Snapshots
from superarm.service.trips.folding import FoldedTrips
from superarm.service.trips.history import Cursor, History
from superarm.service.trips.reading import ReadTrip


def write_learner(writing: Writing, folder: Path) -> None:
    """Write snapshots of what a database says, one of each kind of belief, and folded rows."""
    fleet, reader = writing.fleet, writing.reader
    history = History(writing.database, reader)
    news = history.since(Cursor())
    pieces = [piece for piece in history.again(news) if isinstance(piece, list)]
    trips: list[ReadTrip] = [trip for piece in pieces for trip in piece]
    times = TravelTimes.before(fleet.time_model).after(news.times)
    dense = fleet.prior().condition_evidence(news.evidence)
    ensemble: Any = gaussian_beliefs()["EnsembleGP"]
    ensemble = ensemble.condition(ARMS.take([3, 7]), np.array([0.5, -1.0]))
    save_value({"prior": ensemble.prior, "root": ensemble.root}, folder / "ensemble-prior.superarm")
    record: dict[str, Any] = {
        "fingerprint": fleet.fingerprint(),
        "database": writing.database.identity(),
    }
    for name, belief in {"dense": dense, "ensemble": ensemble}.items():
        learned = Learned(belief, news.visits, news.trips, news.cursor, times)
        with tempfile.TemporaryDirectory() as temporary:
            place = Path(temporary)
            keeping = (place, record["fingerprint"], record["database"], fleet.time_model)
            Snapshots(*keeping, fleet.resumed).write(learned)
            pack(place, folder / f"snapshot-{name}.tar.gz")
            again, problems = Snapshots(*keeping, _resuming(ensemble)).newest()
        if again is None or problems:
            msg = f"the snapshot cannot be read: {problems}"
            raise ValueError(msg)
        record[name] = ask_learned(again)
    write_json(folder / "snapshots.json.gz", record)
    _write_rows(writing, trips, folder)


def _resuming(ensemble: Any) -> Any:
    def resumed(state: EnsembleState) -> Any:
        return state.resumed(ensemble.prior, ensemble.root)

    return resumed


def _write_rows(writing: Writing, trips: list[ReadTrip], folder: Path) -> None:
    """Write folded trips as networks have them that are too large for a covariance."""
    fleet = writing.fleet
    reader = Reader(fleet, Observations)
    first = [read for read in trips if read.key_id == trips[0].key_id][:10]
    pairs = [(read.trip, read.source) for read in first]
    rows = reader.evidence_of_one(pairs, [read.sequence for read in first])
    visits = reader.visits(read.trip for read in first)
    times = reader.times(read.trip for read in first)
    data = FoldedTrips(rows, visits, times, len(first)).pack()
    compress(folder / "folded-rows.npz.gz", data)
    write_json(folder / "folded-rows.json.gz", ask_sums(data, fleet))
