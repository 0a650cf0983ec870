"""The run's diary: one line of JSON for each fault, recovery and warning, and a word on stderr.

Invariant: writing it never ends the run, and a full disk is told of once.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import msgspec

from ebrl.runtime.messages import Skipped
from ebrl.runtime.rundir import EVENTS

MOST_LINES = 50  # on stderr; all of them are in the file


class Events:
    """Writes `events.jsonl` of a run directory."""

    def __init__(self, folder: Path) -> None:
        self._began = time.monotonic()
        self._file = (folder / EVENTS).open("ab", buffering=0)
        self._told = 0
        self._complained = False

    def add(
        self,
        event: str,
        message: str = "",
        *,
        loud: bool = True,
        word: str = "warning",
        **more: Any,
    ) -> None:
        """Note an event; `loud` ones are said on stderr too, after a `word` of how bad it is."""
        line = {"seconds": round(time.monotonic() - self._began, 3), "event": event, **more}
        if message:
            line["message"] = message
            if loud:
                self._say(message, word)
        try:
            self._file.write(msgspec.json.encode(line) + b"\n")
        except OSError as error:
            if not self._complained:
                self._complained = True
                self._say(f"{EVENTS} is not written: {error}")

    def skipped(self, told: Skipped) -> None:
        """An update is left out."""
        more = f", with {told.lost} steps of updates before it" if told.lost else ""
        self.add(
            "update-skipped",
            f"the update from version {told.version} is left out and its {told.env_steps} steps "
            f"are thrown away{more}: {told.message}",
            version=told.version,
            steps=told.env_steps,
            lost=told.lost,
        )

    def close(self) -> None:
        self._file.close()

    def _say(self, message: str, word: str = "warning") -> None:
        self._told += 1
        if self._told <= MOST_LINES:
            print(f"{word}: {message}", file=sys.stderr, flush=True)
        elif self._told == MOST_LINES + 1:
            print(f"warning: more faults are in {EVENTS}", file=sys.stderr, flush=True)
