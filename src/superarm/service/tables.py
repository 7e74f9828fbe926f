"""The tables; times are microseconds since 1970 in UTC, arrays are bytes (little endian)."""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Float,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
)

metadata = MetaData()

_Sequence = BigInteger().with_variant(Integer, "sqlite")  # only INTEGER counts up there

facts = Table(
    "facts",
    metadata,
    Column("name", String(40), primary_key=True),
    Column("value", Text, nullable=False),
)
"""Fingerprint of network and model, whether this is a demo, an id, the epoch of the history."""

keys = Table(
    "keys",
    metadata,
    Column("id", String(16), primary_key=True),
    Column("name", String(100), nullable=False),
    Column("role", String(10), nullable=False),
    Column("secret_sha256", String(64), nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("expires_at", BigInteger),
    Column("revoked_at", BigInteger),
)

standings = Table(
    "standings",
    metadata,
    Column("key_id", String(16), primary_key=True),
    Column("slot", Integer, unique=True),
    Column("set_aside_at", BigInteger),
    Column("reason", Text),
    Column("vouched_at", BigInteger),
    Column("durations_aside_at", BigInteger),
    Column("durations_reason", Text),
    Column("durations_since", BigInteger),
)
"""How each key stands: the slot of its gain, whether it, or its durations, are set aside."""

calibration = Table(
    "calibration",
    metadata,
    Column("key_id", String(16), primary_key=True),
    Column("vehicle", String(10), primary_key=True),
    Column("trips", BigInteger, nullable=False),
    Column("z", Float, nullable=False),
    Column("squares", Float, nullable=False),
    Column("inside", BigInteger, nullable=False),
    Column("energy_wh", Float, nullable=False),
    Column("predicted_wh", Float, nullable=False),
    Column("routed", BigInteger, nullable=False),
    Column("routed_wh", Float, nullable=False),
    Column("best_wh", Float, nullable=False),
    Column("time_trips", BigInteger, nullable=False, server_default="0"),
    Column("time_z", Float, nullable=False, server_default="0"),
    Column("time_squares", Float, nullable=False, server_default="0"),
    Column("time_inside", BigInteger, nullable=False, server_default="0"),
    Column("time_s", Float, nullable=False, server_default="0"),
    Column("time_predicted_s", Float, nullable=False, server_default="0"),
    Column("only_timed", Integer, nullable=False, server_default="0"),
)
"""Sums over all trips of a key and vehicle class, against what was predicted when they came."""

trips = Table(
    "trips",
    metadata,
    Column("sequence", _Sequence, primary_key=True, autoincrement=True),
    Column("xact", BigInteger, nullable=False),
    Column("key_id", String(16), nullable=False),
    Column("owner", String(100), nullable=False),
    Column("trip_id", String(100), nullable=False),
    Column("content_sha256", String(64), nullable=False),
    Column("received_at", BigInteger, nullable=False),
    Column("driven_at", BigInteger, nullable=False),
    Column("route_id", String(64)),
    Column("vehicle", Text, nullable=False),
    Column("edges", LargeBinary, nullable=False),
    Column("spans", LargeBinary, nullable=False),
    Column("energies_wh", LargeBinary, nullable=False),
    Column("at_rest", Boolean),
    Column("durations", LargeBinary),
    Column("time_factor", Float),
    Column("measured_s", Float),
    Column("predicted_s", Float),
    Column("predicted_std_s", Float),
    Column("time_inside", Boolean),
    Column("left_out", Text),
    Column("vehicle_class", String(10), nullable=False),
    Column("spread", Float, nullable=False),
    Column("widened", Float, nullable=False),
    Column("measured_wh", Float, nullable=False),
    Column("predicted_wh", Float, nullable=False),
    Column("predicted_std_wh", Float, nullable=False),
    Column("best_wh", Float),
    Column("inside", Boolean, nullable=False),
    UniqueConstraint("owner", "trip_id", name="trip_once"),
    Index("trips_by_key", "key_id", "sequence"),
    Index("trips_by_xact", "xact"),
    Index("trips_by_time", "received_at"),
    sqlite_autoincrement=True,
)
"""The truth: every belief can be made again from these (and from `folded`)."""

device_state = Table(
    "device_state",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("reached", BigInteger, nullable=False),
    Column("revision", BigInteger, nullable=False),
    Column("content", Text, nullable=False),
)
"""One row: what is known of devices after the trips up to sequence number `reached`."""

quarantine = Table(
    "quarantine",
    metadata,
    Column("sequence", _Sequence, primary_key=True, autoincrement=True),
    Column("key_id", String(16), nullable=False),
    Column("owner", String(100), nullable=False),
    Column("trip_id", String(100), nullable=False),
    Column("received_at", BigInteger, nullable=False),
    Column("content_sha256", String(64), nullable=False),
    Column("kind", String(20), nullable=False),
    Column("reason", Text, nullable=False),
    Column("body", Text, nullable=False),
    UniqueConstraint("key_id", "trip_id", "content_sha256", name="aside_once"),
    Index("aside_by_time", "received_at"),
)
"""Trips that are not learned: implausible, of a key set aside, or what the learner choked on."""

folded = Table(
    "folded",
    metadata,
    Column("key_id", String(16), primary_key=True),
    Column("sums", LargeBinary, nullable=False),
)
"""Old trips of a key, summed up: what they say of roads and its gain, visits per edge."""

folded_ids = Table(
    "folded_ids",
    metadata,
    Column("trip_sha256", String(64), primary_key=True),
    Column("key_id", String(16), nullable=False),
    Column("content_sha256", String(64), nullable=False),
)
"""So that a trip that was folded is still known when it is sent again."""
