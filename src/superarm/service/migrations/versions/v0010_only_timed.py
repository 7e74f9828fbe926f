"""Trips may say how long they took and no more; these are counted by themselves."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    """Add the count; there was none of them."""
    column = sa.Column("only_timed", sa.Integer, nullable=False, server_default="0")
    op.add_column("calibration", column)


def downgrade() -> None:
    """Drop it."""
    op.drop_column("calibration", "only_timed")
