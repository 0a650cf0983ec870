"""The loop that closes: a run looks at itself, and when what it sees is not what was planned, it
asks the planner and takes its answer.

A second is a window. Windows go to `stages.jsonl`, to the drift test, and to nobody else until
there is a finding; then the profile is brought up to date, the planner is asked in a process of its
own, the decision is written (`decisions.jsonl`, a line for people, the plan in `plans/`), and, if
it is to switch, carried out. A switch after which less is trained than before is taken back.

Invariant: the workers are never waited for and never told anything but through the slab; whatever
fails in here is told and leaves the run as it is.
"""

from __future__ import annotations

import time
from collections import deque
from pathlib import Path
from typing import Any

import msgspec

from ebrl.planner.plan import Plan, encode
from ebrl.planner.profile import Point
from ebrl.runtime.posts import Phase
from ebrl.runtime.watch import apply
from ebrl.runtime.watch.around import fewer_cores, on_cores
from ebrl.runtime.watch.decide import Decision, Patience, Policy, decide
from ebrl.runtime.watch.drift import Detector, Finding
from ebrl.runtime.watch.host import Host, left_s, rows_of, seats_of
from ebrl.runtime.watch.learn import updated
from ebrl.runtime.watch.planning import STAY, Answer, Planning, Question
from ebrl.runtime.watch.switch import IN_PLACE_S, Switch, between
from ebrl.runtime.watch.window import StageWindow, Viewer, Window, merged

WINDOW_S = 1.0
SETTLE_S = 3.0  # after the first update, or a switch: not looked at
RECENT = 8  # windows that a profile is brought up to date by
PROVE_S = 20.0  # after a switch, until it is judged
WORSE = 0.95  # of what was trained before: the switch is taken back
WINDOWS, DECISIONS, PLANS = "stages.jsonl", "decisions.jsonl", "plans"


class Watcher:
    """Of one run. `tick` is called often and never waits."""

    def __init__(
        self,
        host: Host,
        folder: Path,
        policy: Policy,
        *,
        cores: frozenset[int],
        speed: float = 1.0,
    ) -> None:
        """`speed`: seconds of the plan in one real one; all times in here are the plan's. At η = 0
        a run is reproducible bit for bit, so nothing about it is changed."""
        if host.made.max_staleness == 0:
            policy = msgspec.structs.replace(policy, enabled=False)
        self._host, self._folder, self._policy, self._speed = host, folder, policy, speed
        self.plan = host.made
        self.points: tuple[Point, ...] = host.made.profile
        self.switches = 0
        self._applier = apply.Applier(host, cores)
        played = not host.playing.real
        self._viewer = Viewer(
            host.slab, cores, taken=(lambda: host.playing.taken(self._at())) if played else None
        )
        self._detector = Detector(self.plan, self.points, window_s=WINDOW_S)
        self._patience = Patience(policy.cooldown_s)
        self._believed = self._detector.finding()
        self._seats = seats_of(self.plan)
        self._capacity = self.plan.environments.count
        self._recent: deque[Window] = deque(maxlen=RECENT)
        self._planning: tuple[Planning, Finding, tuple[Point, ...]] | None = None
        self._proving: tuple[float, float, Plan] | None = None  # since, rate before, plan before
        self._quiet_until = float("inf")
        self._window_at = 0.0
        self._ready_s: dict[str, float] = {}
        self._seen: set[int] = set()
        self._plans = 0
        self._windows = (folder / WINDOWS).open("ab", buffering=0)
        self._decisions = (folder / DECISIONS).open("ab", buffering=0)
        self._keep(self.plan)

    def tick(self) -> None:
        """Look; once a second, think."""
        now = self._now()
        self._note_births(now)
        if self._applier.busy:
            self._applier.tick()
            self._settle(now)
            if not self._applier.busy:
                self._host.events.add("switched", at_s=round(self._at(), 2))
            return
        if self._host.progress.first_step_at is None:
            return
        if self._quiet_until == float("inf") and self._host.progress.first_update_at is not None:
            self._settle(now)
        self._viewer.look()
        if self._planning is not None:
            self._hear(now)
        if now - self._window_at < WINDOW_S:
            return
        self._window_at = now
        window = self._viewer.take(
            rows_of(self._host, self.plan), self._pids(), self._at(), speed=self._speed
        )
        settling = now < self._quiet_until or self._host.supervisor.unsettled
        self._write(self._windows, msgspec.structs.replace(window, settling=settling))
        if settling:
            return
        self._recent.append(window)
        self._detector.add(window)
        if self._proving is not None and now - self._proving[0] > PROVE_S:
            self._prove(now)
        elif self._policy.enabled and self._planning is None and self._patience.ready(now):
            finding = self._detector.finding()
            if finding.kind != "none":
                self._ask(finding)

    def close(self) -> None:
        if self._planning is not None:
            self._planning[0].close()
        for file in (self._windows, self._decisions):
            file.close()

    # -- deciding ----------------------------------------------------------------------------------

    def _ask(self, finding: Finding) -> None:
        """Bring the profile up to date and ask the planner. Cores that others took are gone from
        the machine; where there are few of them, all that runs on cores is slower instead. That is
        asked and not believed: the clocks of stages count what they work, not what they wait."""
        made = self._host.made.cluster
        slowdown, lately = finding.common, self._lately()
        points = updated(self.plan, self.points, finding.factors, lately, slowdown=slowdown)
        slower = on_cores(made, finding.foreign)
        question = Question(
            plan=self.plan,
            points=updated(self.plan, points, {}, {}, on_cores=slower),
            environments=self._capacity,
            cluster=fewer_cores(made, finding.foreign),
            slow=finding.slow,
            uneven=not self._host.playing.real,
        )
        self._planning = (Planning(question), finding, points)

    def _hear(self, now: float) -> None:
        """The planner's answer, if it is there: decide, write it down, act."""
        assert self._planning is not None
        planning, finding, points = self._planning
        answer = planning.poll()
        if answer is None:
            return
        self._planning = None
        if isinstance(answer, str):
            self._host.events.add("warning", f"replanning failed: {answer}")
            self._patience.decided(now, switched=False)
            return
        self._decide(now, finding, points, answer)

    def _decide(
        self, now: float, finding: Finding, points: tuple[Point, ...], answer: Answer
    ) -> None:
        plans = {each.name: each.plan for each in answer.candidates if each.plan is not None}
        switches = {name: self._way_to(plan) for name, plan in plans.items()}
        costs = {
            name: (self._cost_s(switch), switch.words())
            for name, switch in switches.items()
            if switch.changes and not switch.impossible
        }
        decision = decide(
            finding,
            answer.candidates,
            costs,
            self._policy,
            at_s=self._at(),
            left_s=left_s(self._host, self._speed),
        )
        acts = decision.chosen is not None and not self._policy.dry_run
        if decision.chosen is not None:
            name = self._keep(plans[decision.chosen], taken=acts)
            decision = msgspec.structs.replace(decision, applied=acts, plan=name)
        self._note(decision)
        self._patience.decided(now, switched=acts)
        if acts:
            assert decision.chosen is not None
            before = self.plan
            # What is remembered may be from before the change: the plan is to beat what it replaced
            # under the new times.
            stay = next((each.throughput for each in answer.candidates if each.name == STAY), 0.0)
            rate = min(self._rate(), stay) if stay else self._rate()
            self._take(plans[decision.chosen], switches[decision.chosen])
            self._proving = (now, rate, before)
        elif "stay" in plans:
            self.plan = msgspec.structs.replace(
                self.plan,
                profile=plans["stay"].profile,
                profile_sha256=plans["stay"].profile_sha256,
                prediction=plans["stay"].prediction,
            )
            self._keep(self.plan)
        self._believe(points, finding)

    def _believe(self, points: tuple[Point, ...], finding: Finding) -> None:
        self.points, self._believed = points, finding
        self._recent.clear()
        self._detector.rebase(self.plan, points, finding.foreign, finding.slow)

    def _way_to(self, plan: Plan) -> Switch:
        return between(
            self.plan,
            plan,
            self._seats,
            room=self._host.room.most(),
            plays=self._host.playing.plays,
        )

    def _take(self, plan: Plan, switch: Switch) -> None:
        self._applier.apply(switch, plan)
        self.plan = plan
        self.switches += 1
        if "simulate" in switch.roles:
            self._seats = seats_of(plan)
        self._settle(self._now())

    def _prove(self, now: float) -> None:
        """Was the switch any good? Less than before is taken back, unless something has changed
        again meanwhile, which is another question."""
        assert self._proving is not None
        _, before, plan = self._proving
        self._proving = None
        rate = self._rate()
        if before <= 0 or rate >= WORSE * before or not self._recent:
            return
        if self._detector.finding().kind != "none":
            return
        believed = self._believed
        switch = self._way_to(plan)
        decision = Decision(
            at_s=self._at(),
            drifted=f"{rate:,.1f} steps/s after the switch, {before:,.1f} before it",
            factors={},
            common=1.0,
            foreign=believed.foreign,
            slow=believed.slow,
            considered=(),
            chosen="back",
            why=f"takes the switch back: {switch.words()}",
            applied=not switch.impossible,
        )
        self._note(decision)
        self._patience.decided(now, switched=True)
        if not switch.impossible:
            self._take(plan, switch)
            self._believe(self.points, believed)

    # -- what is known -----------------------------------------------------------------------------

    def _cost_s(self, switch: Switch) -> float:
        """Seconds of throughput that a switch costs: as the last respawn was measured, or what the
        workers needed to be born, and the time to fill what is being filled."""
        if not switch.respawn:
            return IN_PLACE_S
        if self._applier.respawn_s is not None:
            return self._applier.respawn_s * self._speed
        rate = max(self._rate(), 1e-9)
        environment = self.plan.program.environment
        chunk = 1 if environment is None else environment.action.chunk
        drain = self._capacity * self.plan.buffers.horizon * chunk / rate / 2
        if "simulate" not in switch.roles:
            drain = 0.0
        return drain + max(self._ready_s.get(role, 1.0) for role in switch.roles)

    def _rate(self) -> float:
        seconds = sum(window.seconds for window in self._recent)
        return sum(w.trained for w in self._recent) / seconds if seconds else 0.0

    def _lately(self) -> dict[str, StageWindow]:
        return dict(merged(list(self._recent)))

    def _pids(self) -> list[int]:
        children = [post.child for post in self._host.supervisor.posts]
        found = [child.pid for child in children if child is not None and child.pid is not None]
        return found + ([self._planning[0].pid] if self._planning is not None else [])

    def _note_births(self, now: float) -> None:
        for post in self._host.supervisor.posts:
            child = post.child
            if child is None or child.pid is None or child.pid in self._seen:
                continue
            if post.phase is Phase.RUNNING:
                self._seen.add(child.pid)
                self._ready_s[post.boot.role] = now - child.began * self._speed

    def _settle(self, now: float) -> None:
        self._quiet_until = now + SETTLE_S
        self._recent.clear()

    def _now(self) -> float:
        return time.monotonic() * self._speed

    def _at(self) -> float:
        first = self._host.progress.first_step_at
        return 0.0 if first is None else self._now() - first * self._speed

    # -- what is written ---------------------------------------------------------------------------

    def _keep(self, plan: Plan, *, taken: bool = True) -> str:
        """Into the history of plans; returns its name there."""
        self._plans += 1
        name = f"{PLANS}/{self._plans:04d}{'' if taken else '-considered'}.json"
        try:
            (self._folder / PLANS).mkdir(exist_ok=True)
            (self._folder / name).write_bytes(encode(plan))
        except OSError as error:
            self._host.events.add("warning", f"{name} is not written: {error}")
        return name

    def _note(self, decision: Decision) -> None:
        self._write(self._decisions, decision)
        word = "info" if decision.benign else "warning"
        self._host.events.add("decision", decision.line(), word=word)

    def _write(self, file: Any, what: msgspec.Struct) -> None:
        try:
            file.write(msgspec.json.encode(what) + b"\n")
        except OSError as error:
            if self._policy.enabled:
                self._host.events.add("warning", f"watching is not written down: {error}")
            self._policy = msgspec.structs.replace(self._policy, enabled=False)
