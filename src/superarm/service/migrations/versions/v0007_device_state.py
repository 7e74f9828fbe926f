"""Keep what is known of devices in the database: all workers read the same."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"

_MOST_COMPARED = 20_000
"""Comparing takes the learner a second per hundred trips or more: of a long history these are
enough, since devices are judged by what they did last."""


def upgrade() -> None:
    """Make the table; of trips that are there already, the last ones will be compared."""
    op.create_table(
        "device_state",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("reached", sa.BigInteger, nullable=False),
        sa.Column("revision", sa.BigInteger, nullable=False),
        sa.Column("content", sa.Text, nullable=False),
    )
    connection = op.get_bind()
    newest = connection.execute(sa.text("SELECT max(sequence) FROM trips")).scalar() or 0
    if newest > _MOST_COMPARED:
        first = sa.text(
            "INSERT INTO device_state (id, reached, revision, content) "
            "VALUES (1, :reached, 1, '{}')"
        )
        connection.execute(first, {"reached": newest - _MOST_COMPARED})


def downgrade() -> None:
    """Drop it."""
    op.drop_table("device_state")
