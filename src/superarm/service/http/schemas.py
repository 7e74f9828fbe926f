"""Keys, numbers and problems as JSON."""

from datetime import UTC, datetime, timedelta
from typing import Annotated, Literal

from pydantic import AfterValidator, AwareDatetime, BaseModel, Field

from superarm.service.http.roles import Role
from superarm.service.vehicles import Given

PLAIN = r"^[^\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069]+$"
"""Text without anything that cannot be seen."""

_MOST_YEARS = 100


def _to_come(time: datetime) -> datetime:
    now = datetime.now(UTC)
    try:
        moment = time.astimezone(UTC)
    except OverflowError:
        moment = now
    if not now < moment < now + timedelta(days=365 * _MOST_YEARS):
        msg = f"a key expires in the future, within {_MOST_YEARS} years"
        raise ValueError(msg)
    return moment


class Problem(BaseModel):
    """What went wrong, and what to do."""

    detail: str
    request_id: str


class Health(BaseModel):
    """Whether it works."""

    status: Literal["ok", "ready"]


class Calibration(BaseModel):
    """Whether predictions, made before a trip was learned, were as sure as they claimed."""

    trips: int
    coverage_90: float | None = Field(description="Share inside the 90 % interval.")
    mean_z: float | None = Field(description="Zero if predictions are not biased.")
    std_z: float | None = Field(description="One if intervals are as wide as they should be.")
    energy_ratio: float | None = Field(description="Measured over predicted energy.")


class TimeCalibration(BaseModel):
    """Likewise of trips that say how long they took."""

    trips: int
    coverage_90: float | None = Field(description="Share inside the 90 % interval.")
    mean_z: float | None = Field(description="Zero if predictions are not biased.")
    std_z: float | None = Field(description="One if intervals are as wide as they should be.")
    time_ratio: float | None = Field(description="Measured over predicted time.")


class KeyCalibration(BaseModel):
    """What is made of a key's trips."""

    key: str
    verdict: str = Field(description="What is learned of its trips, what is not, and why.")
    trips_learned: int = Field(description="How many of its trips routes follow now.")
    trips_waiting: int = Field(description="How many are stored and will be learned.")
    trusted: bool = Field(description="Whether its trips are learned.")
    reason: str | None = Field(description="Why not, if so.")
    durations_trusted: bool = Field(description="Whether its durations are learned.")
    durations_reason: str | None = Field(description="Why not, if so.")
    time_factor: float = Field(description="What its durations are divided by: 1.1 is 10 % longer.")
    vouched: bool = Field(description="Whether an administrator has let it in again.")
    gain: float | None = Field(description="How far its logger is off, as a share: 0.05 is 5 % up.")
    gain_std: float | None
    spread: float | None = Field(description="How far its trips scatter, as a share.")
    surprise: float | None = Field(description="How its last trips surprised, in deviations.")
    advice: str | None = Field(description="What its owner should look at, if anything.")
    calibration: Calibration
    times: TimeCalibration
    vehicles: dict[str, Calibration]


class AlarmOut(BaseModel):
    """Something an administrator should look at."""

    kind: str
    reason: str
    since: datetime
    key: str | None


class StatsAnswer(BaseModel):
    """How the service is doing."""

    role: Role = Field(description="Of the key that asks.")
    trips: int
    trips_learned: int = Field(description="How many of them routes follow now.")
    trips_waiting: int = Field(description="How many of them will be learned.")
    trips_set_aside: int = Field(description="How many are of keys that are set aside.")
    lag_s: float = Field(description="Age of the oldest trip not learned yet.")
    distinct_edges: int
    quarantined: int
    spread: float | None = Field(description="What all of one trip has in common, as a share.")
    mean_energy_wh: float | None = Field(description="Measured, over whole trips on routes.")
    mean_best_wh: float | None = Field(description="Expected of the best route, when issued.")
    calibration: Calibration
    recent: Calibration = Field(description="Over the last 1,000 trips.")
    times: TimeCalibration
    recent_times: TimeCalibration = Field(description="Over the last 1,000 trips.")
    vehicles: dict[str, Calibration]
    keys: list[KeyCalibration] = Field(description="All for an administrator, else one's own.")
    alarms: list[AlarmOut]


class NewKey(Given):
    """A key to make."""

    name: Annotated[str, Field(min_length=1, max_length=100, pattern=PLAIN)]
    role: Role = "report"
    expires_at: Annotated[AwareDatetime, AfterValidator(_to_come)] | None = Field(
        default=None, description="When it stops to work; left out: never."
    )


class KeyOut(BaseModel):
    """A key, without its secret."""

    id: str
    name: str
    role: Role
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    trusted: bool
    reason: str | None


class KeysOut(BaseModel):
    """All keys, oldest first."""

    keys: list[KeyOut]


class MadeKey(KeyOut):
    """A key that was made; its text is shown this once."""

    key: str


class Revoked(BaseModel):
    """A key that was revoked."""

    id: str
    purged_trips: int | None = Field(description="How many of its trips were forgotten, if asked.")
