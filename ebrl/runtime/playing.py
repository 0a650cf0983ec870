"""How a run's plans are played on this machine: with the real stages, or emulated.

Invariant: the plan is the same either way; an emulation changes only how many bytes and processes
it takes to play it, and what is to go wrong follows from the first plan and the clock.
"""

from __future__ import annotations

from pathlib import Path

from ebrl.planner.plan import Plan
from ebrl.runtime.boot import Boot
from ebrl.runtime.emulation import setup
from ebrl.runtime.emulation.cue import Cue
from ebrl.runtime.emulation.inject import injections
from ebrl.runtime.emulation.recue import write_cue
from ebrl.runtime.emulation.setup import Emulation
from ebrl.runtime.room import Room, room_of


class Playing:
    """Of one run, whose first plan is `made`. `emulation` None: the real stages."""

    def __init__(self, made: Plan, emulation: Emulation | None, folder: Path) -> None:
        self._made, self._emulation, self._folder = made, emulation, folder
        self._injected = injections(made, emulation.inject) if emulation is not None else ()
        self.room: Room = room_of(made) if emulation is None else setup.room(made)
        self.speed = 1.0 if emulation is None else emulation.speed

    @property
    def real(self) -> bool:
        return self._emulation is None

    def plays(self, plan: Plan) -> Plan:
        """A plan as its processes have it here."""
        return plan if self._emulation is None else setup.shrunk(plan, self._emulation)

    def cues(self, plan: Plan, *, seed: int) -> dict[str, Cue] | None:
        """What emulated workers of this plan are told, by worker; None for real ones."""
        if self._emulation is None:
            return None
        return setup.cues(
            plan,
            self._emulation,
            seed=seed,
            room=self.room,
            asked=self._injected,
            first=self._made,
        )

    def retell(self, boot: Boot) -> None:
        """Another cue, for an emulated worker that runs on."""
        if boot.emulation is not None:
            write_cue(self._folder, boot.name, boot.emulation)

    def taken(self, at_s: float) -> float:
        """Cores that an emulated machine has lost, `at_s` of the plan after the first step."""
        return setup.cores_gone(self._made, self._injected, at_s)
