"""What Alembic runs; the connection is handed over by `superarm.service.database`."""

from alembic import context

from superarm.service.tables import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    render_as_batch=True,
)
with context.begin_transaction():
    context.run_migrations()
