"""The declared studies that come with the package, and the routes of the paper."""
