"""Durations have a factor per key, and may be set aside by themselves."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"

_STANDINGS = (
    ("durations_aside_at", sa.BigInteger),
    ("durations_reason", sa.Text),
    ("durations_since", sa.BigInteger),
)


def upgrade() -> None:
    """Add the columns; trips of before were read without a factor."""
    op.add_column("trips", sa.Column("time_factor", sa.Float))
    for name, kind in _STANDINGS:
        op.add_column("standings", sa.Column(name, kind))


def downgrade() -> None:
    """Drop them."""
    for name, _ in _STANDINGS:
        op.drop_column("standings", name)
    op.drop_column("trips", "time_factor")
