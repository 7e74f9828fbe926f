"""Trips: what is reported, whether it can be believed, where it is kept, how it is read again."""
