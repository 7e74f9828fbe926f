"""Demonstrations: `superarm demo` runs them. Nothing else imports from here."""
