"""What the user may say about a run beside its plan."""

from __future__ import annotations

import msgspec

from ebrl.runtime.quota.devices import Choice
from ebrl.runtime.watch.decide import Policy


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """See `ebrl execute --help`; None is the default there too."""

    steps: int | None = None  # environment steps to train on, then end
    seconds: float | None = None  # or this long after the first environment step
    seed: int | None = None  # None: that of the run that is continued, or 0
    resume: str | None = None
    checkpoint_every_s: float = 60.0
    checkpoint_every_updates: int = 100  # of a synchronous run
    patience: int = 5  # faults of one environment or worker in a row, then the run ends
    hang_after_s: float | None = None  # without a sign of life; None: by role
    worker_memory_bytes: int | None = None  # of its own; None: what the machine has
    recycle_every: int | None = None  # episodes after which an environment is built anew
    trace_records: int = 0  # firings of each worker that are kept for a trace
    quota: Choice = "auto"  # how workers that share a device are held to their SMs
    replan: Policy = Policy()  # when another plan is taken while running
