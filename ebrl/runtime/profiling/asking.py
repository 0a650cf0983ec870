"""What a measuring process is told and what it answers: one JSON line each way, over its pipes.

Invariant: a process builds its stage once and then answers any number of questions about it, so
that what is compared (quotas, batches, neighbours) is compared on the same stage.
"""

from __future__ import annotations

import msgspec

from ebrl.errors import Diagnostic
from ebrl.planner.plan import Program
from ebrl.runtime.boot import Role


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """The stage to build, told first. `environments`: to build at most (simulate), or the largest
    batch (generate); `patience_s`: how long one update may take before it is cut short and scaled.
    """

    role: Role
    stage: str
    policy_stage: str
    program: Program
    graph: str
    graph_sha256: str | None
    environments: int
    patience_s: float
    device: str = "cpu"  # torch's name


class Ready(msgspec.Struct, frozen=True, kw_only=True):
    """Built. `environments` were built; `bytes` is this process's memory with one of them and with
    all, or with the stage built."""

    weights_bytes: int = 0
    environments: int = 0
    bytes: tuple[int, int] = (0, 0)
    failed: tuple[Diagnostic, ...] = ()


class Ask(msgspec.Struct, frozen=True, kw_only=True):
    """Fire batches of `batch` items for about `seconds`, at least once. `sms`: of a device."""

    batch: int
    threads: int = 1
    sms: int = 0
    seconds: float = 0.2


class Slice(msgspec.Struct, frozen=True, kw_only=True):
    """Work seconds of one batch in this slice of time, and what the process held then.

    `seconds` are several timings, each a mean over enough batches to be worth timing. `wall_s` is
    how long the slice took, `items` how many items it did. `granted_sms` is what the hardware gave.
    """

    seconds: tuple[float, ...] = ()
    wall_s: float = 0.0
    items: int = 0
    bytes: int = 0
    device_bytes: int = 0
    granted_sms: int = 0
    failed: tuple[Diagnostic, ...] = ()
