"""The devices of a plan: who holds the workers on each to their SMs.

A device that one worker has alone needs nobody. Workers that share one are processes, so it is MPS
that caps them: one private control program a device, whose clients see that device only and call it
their first. Without it they take turns on the whole device, which is said once and loudly.

Invariants: a worker finds its device and its environment here, at its first start and at every
other; what was started here is ended here; nothing of this is done for a device that is not shared.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import msgspec

from ebrl.errors import RunError
from ebrl.planner.plan import Plan, Replica
from ebrl.runtime.events import Events
from ebrl.runtime.quota.mps import PROGRAM, Control, Mps, run_control
from ebrl.runtime.quota.none import Unenforced
from ebrl.runtime.quota.protocol import Enforcer, Quota

Choice = Literal["auto", "mps", "none"]
VISIBLE = "CUDA_VISIBLE_DEVICES"


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where a worker computes: torch's name, and what its environment has to say (None: must not
    say) before CUDA is up."""

    device: str = "cpu"
    environment: dict[str, str | None] = msgspec.field(default_factory=dict)


class Devices:
    """Of one run on this machine."""

    def __init__(
        self,
        choice: Choice | None,
        events: Events,
        *,
        control: Control = run_control,
        found: bool | None = None,
    ) -> None:
        """`choice` None: the devices are not there. `found`: is the control program? (None: ask
        the path.)"""
        self._choice, self._events, self._control = choice, events, control
        self._found = shutil.which(PROGRAM) is not None if found is None else found
        self._enforcers: dict[int, Enforcer] = {}
        self._folder: Path | None = None

    def take(self, plan: Plan) -> frozenset[str]:
        """Hold the workers to this plan's quotas; returns those that have to be started anew.

        Raises RunError where quotas were asked for (`choice` "mps") and cannot be enforced.
        """
        anew: set[str] = set()
        if self._choice is None:
            return frozenset()
        for device, workers in sorted(shared(plan).items()):
            request = [Quota(worker=name, sms=replica.sms) for name, replica in workers.items()]
            enforcer = self._enforcers.get(device)
            if enforcer is None:
                enforcer = self._enforcers[device] = self._begin(device, _sms(plan), request)
                self._events.add(
                    "quota",
                    device=device,
                    mechanism=enforcer.capabilities().mechanism,
                    sms={name: replica.sms for name, replica in workers.items()},
                )
            else:
                anew |= enforcer.apply(enforcer.realise(request))
        return frozenset(anew)

    def place(self, plan: Plan, worker: str, replica: Replica) -> Place:
        """Where this worker computes, and how it has to be started."""
        if replica.device is None:
            return Place()
        enforcer = self._enforcers.get(replica.device)
        if enforcer is None or worker not in shared(plan).get(replica.device, {}):
            return Place(device=f"cuda:{replica.device}")
        environment = enforcer.client_environment(worker)
        if not environment:
            return Place(device=f"cuda:{replica.device}")
        # The server has the one device; a client that names one itself finds none.
        return Place(device="cuda:0", environment={**environment, VISIBLE: None})

    def close(self) -> None:
        """After the workers are gone."""
        for enforcer in self._enforcers.values():
            with contextlib.suppress(RunError):  # it may have been reaped with the others
                enforcer.close()
        self._enforcers.clear()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _begin(self, device: int, sms: int, request: list[Quota]) -> Enforcer:
        reason = "--quota none"
        if self._choice == "auto" and not self._found:
            reason = f"{PROGRAM} is not on this machine"
        elif self._choice != "none":
            try:
                return self._mps(device, sms, request)
            except RunError as error:
                if self._choice == "mps":
                    raise
                reason = error.diagnostics[0].message
        names = ", ".join(each.worker for each in request)
        self._events.add(
            "warning",
            f"GPU {device} is shared by {names}, and nothing holds them to the SMs of the plan "
            f"({reason}): they take turns on the whole device",
        )
        return Unenforced(sms, hint=reason)

    def _mps(self, device: int, sms: int, request: list[Quota]) -> Enforcer:
        folder = self._pipes() / f"gpu{device}"
        enforcer = Mps(identity(device, os.environ), sms, folder, control=self._control)
        enforcer.apply(enforcer.realise(request))
        return enforcer

    def _pipes(self) -> Path:
        if self._folder is None:  # short: a socket's path has a hundred characters
            self._folder = Path(tempfile.mkdtemp(prefix="ebrl-mps-"))
        return self._folder


def shared(plan: Plan) -> dict[int, dict[str, Replica]]:
    """Devices that several workers have: their replicas by worker, "generate 0"."""
    found: dict[int, dict[str, Replica]] = {}
    for stage in plan.stages:
        for index, replica in enumerate(stage.replicas):
            if replica.device is not None:
                found.setdefault(replica.device, {})[f"{stage.kind} {index}"] = replica
    return {device: workers for device, workers in found.items() if len(workers) > 1}


def identity(device: int, environment: Mapping[str, str]) -> str:
    """What the driver calls the plan's device `device`: of those that this process may see."""
    visible = [each.strip() for each in environment.get(VISIBLE, "").split(",") if each.strip()]
    if not visible:
        return str(device)
    if device >= len(visible):
        raise RunError(
            "hardware-absent",
            f"the plan uses GPU {device}; {VISIBLE} shows {len(visible)}",
            hint=f"show more in {VISIBLE}, or plan again for fewer",
        )
    return visible[device]


def _sms(plan: Plan) -> int:
    """SMs of a device of the one node that a local run has."""
    return max(node.device.sms for node in plan.cluster.nodes if node.device is not None)
