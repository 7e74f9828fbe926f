"""Trips say whether energy of motion is accounted for; of those before it is not known."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Add the column."""
    op.add_column("trips", sa.Column("at_rest", sa.Boolean))


def downgrade() -> None:
    """Drop it."""
    op.drop_column("trips", "at_rest")
