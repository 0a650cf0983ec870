"""Gain after costs, and patience: neither noise nor swings make a run change its plan again and
again."""

from __future__ import annotations

import math

import msgspec
import pytest

from ebrl.planner.plan import Plan
from ebrl.runtime.watch.decide import Decision, Patience, Policy, decide
from ebrl.runtime.watch.drift import Detector, Finding
from ebrl.runtime.watch.learn import updated
from ebrl.runtime.watch.planning import ANEW, STAY, TUNE, Candidate, Question, answer
from ebrl.runtime.watch.switch import between
from tests.runtime.watch.worlds import World, plan

DRIFT = Finding(kind="drift", factors={"simulate": 2.0}, text="simulate takes 2.00 times as long")


def candidate(name: str, throughput: float) -> Candidate:
    made = plan()
    prediction = msgspec.structs.replace(made.prediction, throughput_env_steps_per_s=throughput)
    return Candidate(name=name, plan=msgspec.structs.replace(made, prediction=prediction))


def decided(stay: float, tune: float, anew: float, *, left_s: float = math.inf, **policy: object):
    return decide(
        DRIFT,
        [candidate(STAY, stay), candidate(TUNE, tune), candidate(ANEW, anew)],
        {TUNE: (0.1, "a batch"), ANEW: (20.0, "other workers")},
        Policy(**policy),  # type: ignore[arg-type]
        at_s=60.0,
        left_s=left_s,
    )


def test_a_gain_below_the_least_is_not_worth_it_and_the_line_says_so():
    decision = decided(100, 104, 104)
    assert decision.chosen is None
    assert "tune would gain 4.0%, less than 5%" in decision.line()
    assert "simulate takes 2.00 times as long" in decision.line()
    assert "stay 100.0, tune 104.0, anew 104.0" in decision.line()


def test_the_better_plan_after_its_cost_is_taken():
    assert decided(100, 110, 120).chosen == ANEW  # 20 of 600 seconds are 3 %
    assert decided(100, 118, 120).chosen == TUNE
    assert decided(100, 106, 130, left_s=60).chosen == TUNE  # 20 of 60 seconds are a third
    assert decided(100, 100, 130, left_s=60).chosen is None
    assert decided(100, 110, 120, min_gain=0.3).chosen is None


def test_a_plan_in_force_that_fits_no_more_is_left_at_any_gain():
    assert decided(0, 1, 2).chosen is not None


def test_patience_grows_with_switches_and_comes_back():
    patience = Patience(30)
    assert patience.ready(0)
    patience.decided(0, switched=True)
    assert not patience.ready(29)
    assert patience.ready(30)
    patience.decided(30, switched=True)
    assert patience.cooldown_s == 60
    patience.decided(90, switched=False)
    assert not patience.ready(109)
    assert patience.ready(110)  # a third, where nothing was changed
    patience.decided(1e6, switched=True)
    assert patience.cooldown_s == 30


def _seats(plan: Plan) -> dict[str, int]:
    replicas = plan.of_kind("simulate")[0].replicas
    return {f"simulate {r.index}": r.environments[1] - r.environments[0] for r in replicas}


class Loop:
    """Detector, planner and patience as in a run, by a clock of its own."""

    def __init__(self, world: World, policy: Policy) -> None:
        self.world, self.policy = world, policy
        self.plan, self.points = world.plan, world.plan.profile
        self.detector = Detector(self.plan, self.points, window_s=1.0)
        self.patience = Patience(policy.cooldown_s)
        self.decisions: list[Decision] = []
        self.lost_s = 0.0

    def second(self) -> None:
        window = self.world.window()
        self.detector.add(window)
        if not self.patience.ready(self.world.at_s):
            return
        finding = self.detector.finding()
        if not finding.tested or finding.kind == "none":
            return
        self.points = updated(
            self.plan, self.points, finding.factors, window.stages, slowdown=finding.common
        )
        environments = self.plan.environments.count
        told = answer(Question(plan=self.plan, points=self.points, environments=environments))
        seats = _seats(self.plan)
        switches = {c.name: between(self.plan, c.plan, seats) for c in told.candidates if c.plan}
        costs = {
            name: (8.0 if switch.respawn else 0.1, switch.words())
            for name, switch in switches.items()
            if switch.changes and not switch.impossible
        }
        decision = decide(
            finding,
            told.candidates,
            costs,
            self.policy,
            at_s=self.world.at_s,
            left_s=math.inf,
        )
        self.decisions.append(decision)
        switched = decision.chosen is not None
        if switched:
            self.plan = next(c.plan for c in told.candidates if c.name == decision.chosen)
            self.lost_s += costs[decision.chosen][0]
        self.patience.decided(self.world.at_s, switched=switched)
        self.detector.rebase(self.plan, self.points, finding.foreign)

    @property
    def switches(self) -> int:
        return sum(decision.chosen is not None for decision in self.decisions)


def test_an_hour_of_noise_of_twenty_percent_switches_at_most_once():
    loop = Loop(World(plan(), sigma=0.2, seed=5), Policy())
    for _ in range(3600):
        loop.second()
    assert loop.switches <= 1
    assert len(loop.decisions) <= 2


@pytest.mark.parametrize("period", [20, 50])
def test_a_square_wave_faster_than_the_cooldown_costs_less_than_three_percent(period: int):
    world = World(plan(), sigma=0.05)
    loop = Loop(world, Policy(cooldown_s=60))
    for second in range(1800):
        world.factors["generate"] = 3.0 if second // (period // 2) % 2 else 1.0
        loop.second()
    assert loop.lost_s <= 0.03 * 1800
    assert loop.switches <= 6


def test_a_policy_that_became_dear_is_answered_with_larger_batches():
    made = plan(generate=2e-5)
    stage = made.stage("generate")
    small = msgspec.structs.replace(
        stage, replicas=(msgspec.structs.replace(stage.replicas[0], batch=1),)
    )
    stages = tuple(small if each is stage else each for each in made.stages)
    in_force = msgspec.structs.replace(made, stages=stages)
    points = updated(in_force, made.profile, {"generate": 40.0}, {})
    told = answer(Question(plan=in_force, points=points, environments=made.environments.count))
    stay, tune, anew = told.candidates
    assert stay.plan.stage("generate").replicas[0].batch == 1
    assert tune.plan.stage("generate").replicas[0].batch > 1
    assert tune.throughput > 1.5 * stay.throughput
    assert anew.throughput >= 0.999 * tune.throughput
    seats = _seats(made)
    assert not between(in_force, tune.plan, seats).respawn
