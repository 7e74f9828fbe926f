"""Changes of the database from version to version, applied by Alembic when the service starts."""
