"""Faults of a plan, written down as they are found."""

from __future__ import annotations

from ebrl.errors import Diagnostic

RELATIVE = 1e-6  # what floating point and a solver's feasibility tolerance may add up to


class Book:
    """Collects; an empty book is a clean plan."""

    def __init__(self) -> None:
        self.faults: list[Diagnostic] = []

    def expect(self, holds: bool, code: str, message: str, where: str = "") -> None:
        """Write a fault down unless this holds."""
        if not holds:
            self.faults.append(Diagnostic(code=code, message=message, where=where))

    def at_most(self, value: float, limit: float, code: str, what: str, where: str = "") -> None:
        """Write a fault down where a value exceeds its limit."""
        self.expect(
            value <= limit * (1 + RELATIVE) + 1e-9,
            code,
            f"{what}: {value:.9g} exceeds {limit:.9g}",
            where,
        )
