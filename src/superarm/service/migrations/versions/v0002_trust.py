"""Standings of keys, calibration as it comes, no routes; trips say what was predicted of them."""

import sqlalchemy as sa
from alembic import op

from superarm.errors import DataError

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Make the new tables, unless there are trips of the model before."""
    found = op.get_bind().execute(sa.text("SELECT count(*) FROM trips")).scalar()
    if found:
        msg = (
            f"this database holds {found} trips of an earlier model, which said less of a trip "
            "than this one needs; name a new database and report them again"
        )
        raise DataError(msg)
    sequence = sa.BigInteger().with_variant(sa.Integer, "sqlite")
    for name in ("folded_ids", "folded", "quarantine", "trips", "routes"):
        op.drop_table(name)
    op.execute("DELETE FROM facts")
    op.add_column("keys", sa.Column("expires_at", sa.BigInteger))
    op.create_table(
        "standings",
        sa.Column("key_id", sa.String(16), primary_key=True),
        sa.Column("slot", sa.Integer, unique=True),
        sa.Column("set_aside_at", sa.BigInteger),
        sa.Column("reason", sa.Text),
        sa.Column("vouched_at", sa.BigInteger),
    )
    op.create_table(
        "calibration",
        sa.Column("key_id", sa.String(16), primary_key=True),
        sa.Column("vehicle", sa.String(10), primary_key=True),
        sa.Column("trips", sa.BigInteger, nullable=False),
        sa.Column("z", sa.Float, nullable=False),
        sa.Column("squares", sa.Float, nullable=False),
        sa.Column("inside", sa.BigInteger, nullable=False),
        sa.Column("energy_wh", sa.Float, nullable=False),
        sa.Column("predicted_wh", sa.Float, nullable=False),
        sa.Column("routed", sa.BigInteger, nullable=False),
        sa.Column("routed_wh", sa.Float, nullable=False),
        sa.Column("best_wh", sa.Float, nullable=False),
    )
    op.create_table(
        "trips",
        sa.Column("sequence", sequence, primary_key=True, autoincrement=True),
        sa.Column("xact", sa.BigInteger, nullable=False),
        sa.Column("key_id", sa.String(16), nullable=False),
        sa.Column("owner", sa.String(100), nullable=False),
        sa.Column("trip_id", sa.String(100), nullable=False),
        sa.Column("content_sha256", sa.String(64), nullable=False),
        sa.Column("received_at", sa.BigInteger, nullable=False),
        sa.Column("driven_at", sa.BigInteger, nullable=False),
        sa.Column("route_id", sa.String(64)),
        sa.Column("vehicle", sa.Text, nullable=False),
        sa.Column("edges", sa.LargeBinary, nullable=False),
        sa.Column("spans", sa.LargeBinary, nullable=False),
        sa.Column("energies_wh", sa.LargeBinary, nullable=False),
        sa.Column("left_out", sa.Text),
        sa.Column("vehicle_class", sa.String(10), nullable=False),
        sa.Column("spread", sa.Float, nullable=False),
        sa.Column("widened", sa.Float, nullable=False),
        sa.Column("measured_wh", sa.Float, nullable=False),
        sa.Column("predicted_wh", sa.Float, nullable=False),
        sa.Column("predicted_std_wh", sa.Float, nullable=False),
        sa.Column("best_wh", sa.Float),
        sa.Column("inside", sa.Boolean, nullable=False),
        sa.UniqueConstraint("owner", "trip_id", name="trip_once"),
        sqlite_autoincrement=True,
    )
    op.create_index("trips_by_xact", "trips", ["xact"])
    op.create_index("trips_by_time", "trips", ["received_at"])
    op.create_index("trips_by_key", "trips", ["key_id", "sequence"])
    op.create_table(
        "quarantine",
        sa.Column("sequence", sequence, primary_key=True, autoincrement=True),
        sa.Column("key_id", sa.String(16), nullable=False),
        sa.Column("owner", sa.String(100), nullable=False),
        sa.Column("trip_id", sa.String(100), nullable=False),
        sa.Column("received_at", sa.BigInteger, nullable=False),
        sa.Column("content_sha256", sa.String(64), nullable=False),
        sa.Column("kind", sa.String(20), nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.UniqueConstraint("key_id", "trip_id", "content_sha256", name="aside_once"),
    )
    op.create_index("aside_by_time", "quarantine", ["received_at"])
    op.create_table(
        "folded",
        sa.Column("key_id", sa.String(16), primary_key=True),
        sa.Column("sums", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "folded_ids",
        sa.Column("trip_sha256", sa.String(64), primary_key=True),
        sa.Column("key_id", sa.String(16), nullable=False),
        sa.Column("content_sha256", sa.String(64), nullable=False),
    )


def downgrade() -> None:
    """Drop what was made."""
    names = (
        "folded_ids",
        "folded",
        "quarantine",
        "trips",
        "calibration",
        "standings",
        "keys",
        "facts",
    )
    for name in names:
        op.drop_table(name)
