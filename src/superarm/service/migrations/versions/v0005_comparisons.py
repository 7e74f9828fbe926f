"""What the same trip took on another route, as simulations can say."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Add the table."""
    op.create_table(
        "comparisons",
        sa.Column("owner", sa.String(100), primary_key=True),
        sa.Column("trip_id", sa.String(100), primary_key=True),
        sa.Column("rival", sa.String(10), primary_key=True),
        sa.Column("key_id", sa.String(16), nullable=False),
        sa.Column("saved_wh", sa.Float, nullable=False),
        sa.Column("saved_s", sa.Float, nullable=False),
    )
    op.create_index("comparisons_by_key", "comparisons", ["key_id"])


def downgrade() -> None:
    """Drop it."""
    op.drop_table("comparisons")
