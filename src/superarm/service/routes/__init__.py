"""From a question to a route: places, posteriors, policies, answers."""
