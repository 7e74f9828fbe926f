"""Drop what trips took on other routes: only simulations know that, and they print it."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Drop the table with its index."""
    op.drop_table("comparisons")


def downgrade() -> None:
    """Add it again, empty."""
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
