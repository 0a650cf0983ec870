"""A plan checked from itself alone."""
