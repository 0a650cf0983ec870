"""What the user asks of a compilation beside the graph, the hardware and the profile."""

from __future__ import annotations

import math
from typing import Literal

import msgspec

from ebrl.errors import PlanError
from ebrl.frontend.program import Program
from ebrl.planner.plan import Interference, Pin

Objective = Literal["throughput", "cost", "devices"]
PIN_KEYS = ("replicas", "batch", "sms", "cores", "environments")
_SPELLINGS = {"sm": "sms", "core": "cores", "envs": "environments", "replica": "replicas"}


class CompileOptions(msgspec.Struct, frozen=True, kw_only=True):
    """`max_staleness` None: as the graph says. `at_least` (environment steps a second) goes with
    the objectives cost and devices. `resolution` is the relative gap to stop at. `groups` of
    environments that take turns; None: two asynchronously, else one.
    """

    pins: tuple[Pin, ...] = ()
    interference: tuple[Interference, ...] = ()
    max_staleness: int | None = None
    groups: int | None = None
    objective: Objective = "throughput"
    at_least: float | None = None
    time_limit_s: float = 60.0
    resolution: float = 5e-4
    alternatives: bool = True


def parse_pin(text: str) -> Pin:
    """`STAGE.KEY=VALUE`, as in `generate.sms=32`."""
    place, equals, value = text.partition("=")
    stage, dot, key = place.strip().rpartition(".")
    key = _SPELLINGS.get(key.strip(), key.strip())
    try:
        number = float(value)
    except ValueError:
        number = -1.0
    if not equals or not dot or not stage or not 0 < number < math.inf:
        raise PlanError(
            "pin-malformed",
            f"{text!r} is not STAGE.KEY=VALUE with a positive number",
            where="--pin",
            hint=f"for example generate.batch=16; keys: {', '.join(PIN_KEYS)}",
        )
    return Pin(stage=stage, key=key, value=number)


def check_pins(program: Program, pins: tuple[Pin, ...]) -> None:
    """Every pin names a stage of the graph and a key that can be pinned there, once."""
    names = [stage.name for stage in program.stages]
    seen: set[tuple[str, str]] = set()
    for pin in pins:
        where = f"--pin {pin.stage}.{pin.key}={pin.value:g}"
        if pin.stage not in names:
            raise PlanError(
                "pin-unknown-stage",
                f"the graph has no stage {pin.stage!r}",
                where=where,
                hint=f"its stages are {', '.join(names)}",
            )
        holds = program.stage(pin.stage).kind == "simulate"
        if pin.key not in PIN_KEYS or (pin.key == "environments" and not holds):
            raise PlanError(
                "pin-unknown-key",
                f"{pin.key!r} cannot be pinned on stage {pin.stage!r}",
                where=where,
                hint=f"keys: {', '.join(PIN_KEYS)} (environments on a simulate stage only)",
            )
        if pin.key != "cores" and pin.value != int(pin.value):
            raise PlanError("pin-malformed", f"{pin.key} is a whole number", where=where)
        if (pin.stage, pin.key) in seen:
            raise PlanError("pin-twice", f"{pin.stage}.{pin.key} is pinned twice", where=where)
        seen.add((pin.stage, pin.key))


def simulator_pin(program: Program, pins: tuple[Pin, ...], key: str) -> float | None:
    """The value that `key` is pinned to on a simulate stage, None where it is not."""
    values = (pinned(pins, stage.name, key) for stage in program.of_kind("simulate"))
    return next((value for value in values if value is not None), None)


def pinned(pins: tuple[Pin, ...], stage: str, key: str) -> float | None:
    """The value of a pin, if there is one."""
    for pin in pins:
        if pin.stage == stage and pin.key == key:
            return pin.value
    return None


def objective(maximize: str | None, minimize: str | None, at_least: float | None) -> Objective:
    """The objective that the command line names."""
    where = "--minimize"
    if maximize is not None and minimize is not None:
        raise PlanError("objective-twice", "maximise or minimise, not both", where=where)
    if minimize is None:
        if at_least is not None:
            raise PlanError(
                "objective-incomplete",
                "--at-least goes with --minimize cost or --minimize devices",
                where="--at-least",
            )
        return "throughput"
    if at_least is None or not at_least > 0:
        raise PlanError(
            "objective-incomplete",
            f"to minimise {minimize} needs a throughput to hold",
            where=where,
            hint="add --at-least STEPS_PER_SECOND",
        )
    return "cost" if minimize == "cost" else "devices"
