"""Endpoints for those who run the service: keys, whom to believe, what was put aside."""

import asyncio
import json
from datetime import timedelta
from typing import Annotated

from fastapi import FastAPI, Path, Query, Response

from superarm.service.http.access import Administering, Reading, Reporting
from superarm.service.http.keys import Key
from superarm.service.http.problems import ANY_BODY, ANY_KEY, problems
from superarm.service.http.questions import key_calibration
from superarm.service.http.refused import Refused
from superarm.service.http.roles import RANKS
from superarm.service.http.schemas import (
    KeyCalibration,
    KeyOut,
    KeysOut,
    MadeKey,
    NewKey,
    Revoked,
)
from superarm.service.http.state import ServiceState
from superarm.service.trips.quarantine import UNLEARNABLE, drop, one_quarantined, quarantined
from superarm.service.trips.schemas import (
    QuarantinedTrip,
    QuarantinedTrips,
    TripIn,
    TripOutcome,
)
from superarm.service.trips.standings import Standing, let_in
from superarm.service.trips.store import EPOCH, purge

_KeyId = Annotated[str, Path(pattern="^[0-9a-z]{1,16}$")]
_Sequence = Annotated[int, Path(ge=1, le=2**62)]


def add_administration(app: FastAPI, state: ServiceState) -> None:
    """Add the endpoints."""
    _add_keys(app, state)
    _add_quarantine(app, state)


def _add_keys(app: FastAPI, state: ServiceState) -> None:
    @app.get(
        "/v1/keys/me",
        operation_id="get_own_key",
        responses=problems(*ANY_KEY, 503),
        tags=["keys"],
    )
    def me(key: Reading) -> KeyCalibration:
        """Say what is made of one's own trips, and what to look at."""
        return key_calibration(state, key.id)

    @app.get(
        "/v1/keys",
        operation_id="list_keys",
        responses=problems(*ANY_KEY, 503),
        tags=["keys"],
    )
    def listed(key: Administering) -> KeysOut:
        """Return all keys, without their secrets."""
        del key
        return KeysOut(keys=[_shown(state, one) for one in state.keys.all()])

    @app.post(
        "/v1/keys",
        operation_id="make_key",
        status_code=201,
        responses=problems(*ANY_KEY, *ANY_BODY),
        tags=["keys"],
    )
    def made(request: NewKey, key: Administering) -> MadeKey:
        """Make a key; its text is shown this once."""
        del key
        expires = request.expires_at
        until = None if expires is None else (expires - EPOCH) // timedelta(microseconds=1)
        one, text = state.keys.add(request.name, request.role, until)
        return MadeKey(**_shown(state, one).model_dump(), key=text)

    @app.delete(
        "/v1/keys/{key_id}",
        operation_id="revoke_key",
        responses=problems(*ANY_KEY, 404, 422, 503),
        tags=["keys"],
    )
    def revoked(
        key: Administering,
        key_id: _KeyId,
        *,
        purged: Annotated[bool, Query(alias="purge", description="Also forget its trips.")] = False,
    ) -> Revoked:
        """Let a key stop working; with `purge`, forget all it has reported."""
        del key
        state.keys.revoke(key_id)
        return Revoked(id=key_id, purged_trips=purge(state.database, key_id) if purged else None)

    @app.post(
        "/v1/keys/{key_id}/trust",
        operation_id="trust_key",
        responses=problems(*ANY_KEY, 404, 422, 503),
        tags=["keys"],
    )
    def trusted(key: Administering, key_id: _KeyId) -> KeyCalibration:
        """Let a key in again that was set aside: its bias is learned from now on, not suspected."""
        del key
        if not let_in(state.database, key_id):
            raise Refused(404, f"no key {key_id!r} is set aside")
        state.surprises.forget(key_id)
        for kind in ("set aside", "durations set aside"):
            state.alarms.say(kind, None, key_id)
        state.watch.look_now()
        state.learning.wake()
        return key_calibration(state, key_id)


def _add_quarantine(app: FastAPI, state: ServiceState) -> None:
    @app.get(
        "/v1/quarantine",
        operation_id="list_quarantine",
        responses=problems(*ANY_KEY, 422, 503),
        tags=["quarantine"],
    )
    def listed(
        key: Reporting,
        after: Annotated[int, Query(ge=0, le=2**62)] = 0,
        limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    ) -> QuarantinedTrips:
        """Return one's own trips that were put aside, and why; an administrator sees all."""
        state.charge(key, limit / 50)
        mine = None if RANKS[key.role] >= RANKS["admin"] else key.id
        rows = quarantined(state.database, after, limit, mine)
        return QuarantinedTrips(
            trips=[
                QuarantinedTrip(
                    sequence=row["sequence"],
                    trip_id=row["trip_id"],
                    key=row["key_id"],
                    received_at=EPOCH + timedelta(microseconds=row["received_at"]),
                    kind=row["kind"],
                    reason=row["reason"],
                    body=json.loads(row["body"]),
                )
                for row in rows
            ]
        )

    @app.post(
        "/v1/quarantine/{sequence}/release",
        operation_id="release_trip",
        responses=problems(*ANY_KEY, 404, 409, 422, 503),
        tags=["quarantine"],
    )
    async def released(key: Administering, sequence: _Sequence) -> TripOutcome:
        """Let a trip be learned although it was not plausible."""
        del key
        outcome = await _released(state, sequence)
        state.learning.wake()
        return outcome

    @app.delete(
        "/v1/quarantine/{sequence}",
        operation_id="drop_trip",
        status_code=204,
        responses=problems(*ANY_KEY, 404, 422, 503),
        tags=["quarantine"],
    )
    def dropped(key: Administering, sequence: _Sequence) -> Response:
        """Forget a trip that was put aside."""
        del key
        if not drop(state.database, sequence):
            raise Refused(404, f"there is no quarantined trip {sequence}")
        return Response(status_code=204)


async def _released(state: ServiceState, sequence: int) -> TripOutcome:
    row = await asyncio.to_thread(one_quarantined, state.database, sequence)
    if row is None:
        raise Refused(404, f"there is no quarantined trip {sequence}")
    if row.kind == UNLEARNABLE:
        raise Refused(409, "the learner cannot make sense of this trip; it can only be dropped")
    if state.is_aside(row.key_id):
        raise Refused(409, "its key is set aside; let the key in first")
    if not state.ready:
        raise Refused(503, "the belief is being loaded; try again", {"retry-after": "1"})
    trip = TripIn.model_validate_json(row.body)
    sender = Key(row.key_id, row.owner, "report")
    checked = await asyncio.to_thread(state.checked, [trip], sender)
    if checked[0].problem is not None:
        raise Refused(409, checked[0].problem)
    kept = await asyncio.to_thread(state.store.release, checked[0], sequence)
    if kept is None:
        raise Refused(404, f"there is no quarantined trip {sequence}")
    if kept.status not in {"accepted", "duplicate"}:
        raise Refused(409, str(kept.detail))
    return kept


def _shown(state: ServiceState, key: Key) -> KeyOut:
    standing = state.watch.standings.get(key.id, Standing(key.id))

    def moment(us: int | None) -> object:
        return None if us is None else EPOCH + timedelta(microseconds=us)

    return KeyOut.model_validate(
        {
            "id": key.id,
            "name": key.name,
            "role": key.role,
            "created_at": moment(key.created_at),
            "expires_at": moment(key.expires_at),
            "revoked_at": moment(key.revoked_at),
            "trusted": not standing.is_aside,
            "reason": standing.reason,
        }
    )
