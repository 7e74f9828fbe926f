"""What clients meet: connections, keys, limits, endpoints, the page."""
