"""One protocol for every way to hold stages to their quotas.

An enforcer says what it can do, what the hardware would really give for a request (a dry answer,
for the planner), gives it, and checks that it was given. Invariants: `apply` changes nothing when
it raises; what `realise` promised is what `apply` gives; a layout that is applied again is the same
layout, not a new one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec

from ebrl.errors import RunError


class Quota(msgspec.Struct, frozen=True, kw_only=True):
    """What one worker asks for: SMs of a device, or the cores that it may run on."""

    worker: str
    sms: int = 0
    cores: tuple[int, ...] = ()


class Layout(msgspec.Struct, frozen=True, kw_only=True):
    """What the hardware gives: of each worker, at least what it asked for. `spare_sms` are in no
    worker's hands."""

    granted: tuple[Quota, ...]
    spare_sms: int = 0

    def of(self, worker: str) -> Quota:
        for each in self.granted:
            if each.worker == worker:
                return each
        raise KeyError(worker)


class Capabilities(msgspec.Struct, frozen=True, kw_only=True):
    """What an enforcer can do. `step` and `least` are SMs (or cores) of a grant; `in_place`: a
    running worker's quota changes without a new process; `disjoint`: nobody shares what he has;
    `spans_processes`: its workers may be different processes; `hint`: how to get more.
    """

    mechanism: str
    unit: str = "SMs"
    least: int = 1
    step: int = 1
    most: int = 0
    in_place: bool = False
    disjoint: bool = False
    spans_processes: bool = True
    hint: str = ""


class Enforcer(Protocol):
    """One mechanism on one device (or on the cores of one machine)."""

    def capabilities(self) -> Capabilities: ...

    def realise(self, request: Sequence[Quota]) -> Layout:
        """What would be given; nothing is changed. RunError where it does not fit."""
        ...

    def apply(self, layout: Layout) -> frozenset[str]:
        """Give it. Returns the workers that have to be drained and started anew to get theirs."""
        ...

    def stream(self, worker: str) -> int:
        """Raw handle of the stream that the worker's kernels go to; 0 is the default stream."""
        ...

    def client_environment(self, worker: str) -> Mapping[str, str]:
        """Environment variables that the worker's process has to be started with."""
        ...

    def verify(self) -> tuple[str, ...]:
        """What is not as it was applied, in words; empty when all is well."""
        ...

    def close(self) -> None:
        """Give everything back."""
        ...


def rounded(request: Sequence[Quota], *, least: int, step: int, most: int) -> Layout:
    """Each quota rounded up to the grid; RunError `quota-too-large` where they exceed `most`."""
    granted = tuple(
        Quota(worker=each.worker, sms=max(least, -(-each.sms // step) * step), cores=each.cores)
        for each in request
    )
    total = sum(each.sms for each in granted)
    if total > most:
        asked = ", ".join(f"{each.worker} {each.sms}" for each in request)
        raise RunError(
            "quota-too-large",
            f"{asked} SMs come to {total} on a grid of {step}; the device grants {most}",
            hint="plan again: the planner's quotas lie on the device's grid",
        )
    return Layout(granted=granted, spare_sms=most - total)
