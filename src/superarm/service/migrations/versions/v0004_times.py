"""Trips may say how long they took; what was predicted of that is kept beside it."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"

_OF_TRIPS = {
    "durations": sa.LargeBinary,
    "measured_s": sa.Float,
    "predicted_s": sa.Float,
    "predicted_std_s": sa.Float,
    "time_inside": sa.Boolean,
}
_SUMS = {
    "time_trips": sa.BigInteger,
    "time_z": sa.Float,
    "time_squares": sa.Float,
    "time_inside": sa.BigInteger,
    "time_s": sa.Float,
    "time_predicted_s": sa.Float,
}


def upgrade() -> None:
    """Add the columns."""
    for name, kind in _OF_TRIPS.items():
        op.add_column("trips", sa.Column(name, kind))
    for name, kind in _SUMS.items():
        op.add_column("calibration", sa.Column(name, kind, nullable=False, server_default="0"))


def downgrade() -> None:
    """Drop them."""
    for name in _OF_TRIPS:
        op.drop_column("trips", name)
    for name in _SUMS:
        op.drop_column("calibration", name)
