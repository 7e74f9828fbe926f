"""The process that learns from stored trips, and whom it believes."""
