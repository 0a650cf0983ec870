"""Counts become nodes, devices, cores and environments."""
