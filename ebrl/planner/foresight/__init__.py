"""Foresight: what a plan will do, second by second, before any hardware is booked; and what other
systems' schedules would do with the same graph, times and machines."""
