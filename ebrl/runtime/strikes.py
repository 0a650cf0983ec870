"""How much failing of the same thing is borne, and how long to wait before trying it again: not at
all in the first half of one's patience, then twice as long each time.

Invariant: what fails again and again soon after it was mended is tried more and more rarely, and
not for ever; what fails once a day is tried for ever.
"""

from __future__ import annotations

from collections import deque

SOON_S = 5.0  # after it was mended
FIRST_WAIT_S, LONGEST_WAIT_S = 0.25, 10.0
WINDOW_S, WINDOW = 3600.0, 10  # within an hour, so many times `patience`


class Strikes:
    """Of one environment or one worker."""

    def __init__(self, patience: int) -> None:
        self._patience = patience
        self._times: deque[float] = deque(maxlen=WINDOW * patience)
        self._mended = float("-inf")
        self.in_a_row = 0
        self.total = 0

    def strike(self, now: float) -> float:
        """It has failed; returns the seconds to wait before it is mended."""
        soon = now - self._mended < SOON_S
        self.in_a_row = self.in_a_row + 1 if soon else 1
        self.total += 1
        self._times.append(now)
        at_once = self._patience // 2
        if self.in_a_row <= at_once:
            return 0.0
        doublings = min(self.in_a_row - at_once - 1, 16)
        return float(min(LONGEST_WAIT_S, FIRST_WAIT_S * 2**doublings))

    def mended(self, now: float) -> None:
        self._mended = now

    @property
    def enough(self) -> bool:
        """Trying again would not help."""
        times = self._times
        often = len(times) == times.maxlen and times[-1] - times[0] < WINDOW_S
        return self.in_a_row >= self._patience or often

    def __str__(self) -> str:
        if self.in_a_row > 1:
            return f"{self.in_a_row} times in a row, each within {SOON_S:.0f} s of starting again"
        return f"{self.total} times"
