"""TensorBoard event files, written by the run itself with TensorBoard's own writer (no torch here).

Invariant: names are those people know from other libraries: `rollout/ep_rew_mean`, `time/fps`, …
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any


class Curves:
    """Scalars over environment steps."""

    def __init__(self, folder: Path) -> None:
        from tensorboard.summary.writer.event_file_writer import EventFileWriter

        self._writer: Any = EventFileWriter(str(folder), flush_secs=5)

    def add(self, scalars: Mapping[str, float | None], step: int) -> None:
        """One value of each curve at `step`; None is left out."""
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.compat.proto.summary_pb2 import Summary

        values = [
            Summary.Value(tag=tag, simple_value=float(value))
            for tag, value in scalars.items()
            if value is not None
        ]
        event = Event(step=step, wall_time=time.time(), summary=Summary(value=values))
        self._writer.add_event(event)

    def close(self) -> None:
        self._writer.close()
