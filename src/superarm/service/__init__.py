"""The navigator as a service: ask for routes, report trips, watch it learn.

`superarm.service.server.serve` starts it; `superarm.client` talks to it; docs/how-to/service.md
tells how to run it.
"""
