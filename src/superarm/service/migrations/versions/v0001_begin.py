"""The first tables."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Make the tables."""
    sequence = sa.BigInteger().with_variant(sa.Integer, "sqlite")
    op.create_table(
        "facts",
        sa.Column("name", sa.String(40), primary_key=True),
        sa.Column("value", sa.Text, nullable=False),
    )
    op.create_table(
        "keys",
        sa.Column("id", sa.String(16), primary_key=True),
        sa.Column("name", sa.String(100), nullable=False),
        sa.Column("role", sa.String(10), nullable=False),
        sa.Column("secret_sha256", sa.String(64), nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("revoked_at", sa.BigInteger),
    )
    op.create_table(
        "routes",
        sa.Column("id", sa.String(32), primary_key=True),
        sa.Column("key_id", sa.String(16), nullable=False),
        sa.Column("issued_at", sa.BigInteger, nullable=False),
        sa.Column("edges", sa.LargeBinary, nullable=False),
        sa.Column("vehicle", sa.Text, nullable=False),
        sa.Column("mode", sa.String(10), nullable=False),
        sa.Column("mean_wh", sa.Float, nullable=False),
        sa.Column("std_wh", sa.Float, nullable=False),
        sa.Column("best_wh", sa.Float, nullable=False),
    )
    op.create_index("routes_by_time", "routes", ["issued_at"])
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
        sa.Column("total_wh", sa.Float),
        sa.Column("predicted_wh", sa.Float),
        sa.Column("predicted_std_wh", sa.Float),
        sa.Column("best_wh", sa.Float),
        sa.Column("inside", sa.Boolean),
        sa.UniqueConstraint("owner", "trip_id", name="trip_once"),
        sqlite_autoincrement=True,
    )
    op.create_index("trips_by_xact", "trips", ["xact"])
    op.create_index("trips_by_time", "trips", ["received_at"])
    op.create_table(
        "quarantine",
        sa.Column("sequence", sequence, primary_key=True, autoincrement=True),
        sa.Column("key_id", sa.String(16), nullable=False),
        sa.Column("trip_id", sa.String(100), nullable=False),
        sa.Column("received_at", sa.BigInteger, nullable=False),
        sa.Column("content_sha256", sa.String(64), nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.UniqueConstraint("key_id", "trip_id", "content_sha256", name="aside_once"),
    )
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
    """Drop them all."""
    for name in ("folded_ids", "folded", "quarantine", "trips", "routes", "keys", "facts"):
        op.drop_table(name)
