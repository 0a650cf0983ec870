"""`--inject`: what is to go wrong in an emulation, from its words.

simulate*1.8@20s          from 20 s on, simulate takes 1.8 times as long
generate/0*2@20s          only its replica 0
train*1.5@30s+60s         growing to it over 60 s
gpu3*2@20s                whatever runs on GPU 3 takes twice as long (n1/gpu3: of the second node)
cores-25%@20s             a quarter of the machine's cores is gone
straggle:simulate*20%0.5  half a percent of the calls takes 20 times as long
crash:generate/1@15s      SIGKILL;  hang:simulate/0@15s  SIGSTOP
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ebrl.errors import RunError
from ebrl.planner.foresight.script import nodes_of
from ebrl.planner.plan import Plan
from ebrl.runtime.emulation.cue import Injection

_NUMBER = r"(?:\d+\.?\d*|\.\d+)"
_CORES = re.compile(rf"cores-(?P<part>{_NUMBER})%@(?P<at>{_NUMBER})s")
_DEVICE = re.compile(r"(?:n(?P<node>\d+)/)?gpu(?P<device>\d+)")
_FORM = re.compile(
    rf"(?:(?P<kind>straggle|crash|hang):)?(?P<stage>[\w.-]+?)(?:/(?P<index>\d+))?"
    rf"(?:\*(?P<factor>{_NUMBER}))?(?:%(?P<chance>{_NUMBER}))?"
    rf"(?:@(?P<at>{_NUMBER})s(?:\+(?P<ramp>{_NUMBER})s)?)?"
)
_AFTER = re.compile(rf"(?P<factor>{_NUMBER})@(?P<at>{_NUMBER})s(?:\+(?P<ramp>{_NUMBER})s)?")


def injections(plan: Plan, words: Sequence[str]) -> tuple[Injection, ...]:
    """Parse and check against the plan's stages. Raises RunError that says which word is wrong."""
    return tuple(_one(plan, word) for word in words)


def _one(plan: Plan, word: str) -> Injection:
    if (gone := _CORES.fullmatch(word)) is not None:
        return _cores(word, float(gone["part"]), float(gone["at"]))
    name, star, rest = word.partition("*")
    named = _DEVICE.fullmatch(name)
    if star and named is not None and all(name != each.name for each in plan.stages):
        return _device(plan, word, named, rest)
    found = _FORM.fullmatch(word)
    if found is None:
        raise _wrong(word, "it is not of the form STAGE[/REPLICA]*FACTOR@SECONDSs")
    kind = found["kind"] or "drift"
    stage = next((each for each in plan.stages if each.name == found["stage"]), None)
    if stage is None:
        names = ", ".join(each.name for each in plan.stages)
        raise _wrong(word, f"the plan has no stage `{found['stage']}`; its stages are {names}")
    index = None if found["index"] is None else int(found["index"])
    if index is not None and index >= len(stage.replicas):
        raise _wrong(word, f"`{stage.name}` has {len(stage.replicas)} replicas, numbered from 0")
    factor = float(found["factor"] or 1.0)
    if kind in ("drift", "straggle") and (found["factor"] is None or factor <= 0):
        raise _wrong(word, "it needs a factor above 0, such as *1.8")
    if kind != "straggle" and found["at"] is None:
        raise _wrong(word, "it needs a time, such as @20s")
    if (kind == "straggle") != (found["chance"] is not None):
        raise _wrong(word, "a percentage belongs to straggle:, and only there")
    return Injection(
        kind=kind,
        stage=stage.name,
        index=index,
        factor=factor,
        at_s=float(found["at"] or 0.0),
        ramp_s=float(found["ramp"] or 0.0),
        chance=float(found["chance"] or 100.0) / 100.0,
    )


def _cores(word: str, percent: float, at_s: float) -> Injection:
    if not 0 < percent < 100:
        raise _wrong(word, "between 0 and 100 % of the cores can go")
    return Injection(kind="cores", at_s=at_s, chance=percent / 100.0)


def _device(plan: Plan, word: str, named: re.Match[str], rest: str) -> Injection:
    """A device of the plan's cluster, by its number on its node."""
    found = _AFTER.fullmatch(rest)
    if found is None or float(found["factor"]) <= 0:
        raise _wrong(word, "it needs a factor above 0 and a time, such as gpu3*2@20s")
    nodes = [(name, each) for name, each in nodes_of(plan).items() if each.devices]
    node, device = int(named["node"] or 0), int(named["device"])
    if node >= len(nodes) or device >= nodes[node][1].devices:
        most = nodes[node][1].devices if node < len(nodes) else 0
        raise _wrong(word, f"node {node} of `{plan.cluster.text}` has {most} GPUs, from gpu0 on")
    return Injection(
        kind="device",
        device=f"{nodes[node][0]}/{device}",
        factor=float(found["factor"]),
        at_s=float(found["at"]),
        ramp_s=float(found["ramp"] or 0.0),
    )


def _wrong(word: str, why: str) -> RunError:
    return RunError(
        "inject",
        why,
        where=f"--inject {word}",
        hint="for example: simulate*1.8@20s, train*1.5@30s+60s, gpu3*2@20s, cores-25%@20s, "
        "straggle:simulate*20%0.5, crash:generate/1@15s",
    )
