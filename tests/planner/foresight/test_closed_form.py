"""Where nothing varies and the closed form's premises hold, simulation and plan agree; where they
do not hold, the difference is what reasoning says."""

from __future__ import annotations

from fractions import Fraction

import pytest
from msgspec.structs import replace

from ebrl.planner.foresight.conditions import SYNCHRONOUS, Conditions
from ebrl.planner.foresight.simulate import simulate
from ebrl.planner.foresight.why import explain
from ebrl.planner.plan import Plan
from tests.planner.foresight.pipelines import planned, premises, random_plan
from tests.planner.model.cases import cpus, on_cores, pipeline

WANTED = 50
CLOSE = 0.03


def updates(plan: Plan, number: int) -> Conditions:
    training = plan.program.training
    assert training is not None
    pace = plan.prediction.throughput_env_steps_per_s
    return Conditions(seconds=number * training.batch / pace)


def test_fifty_random_pipelines_come_within_three_percent_of_the_plan():
    errors: dict[int, float] = {}
    bottlenecks = set()
    for seed in range(10 * WANTED):
        plan = random_plan(seed)
        if premises(plan):
            errors[seed] = simulate(plan, updates(plan, 30))[0].error_vs_plan
            bottlenecks.add(plan.prediction.bottleneck)
        if len(errors) == WANTED:
            break
    assert len(errors) == WANTED
    assert {seed: error for seed, error in errors.items() if abs(error) >= CLOSE} == {}
    assert bottlenecks >= {"simulate", "train"}


def alone(*, batch: int, eta: int, train: float, envs: int = 32) -> Plan:
    """One process each on cores of its own: one environment steps in 1 ms, answers are free."""
    points = on_cores(simulate=1e-3, generate=((1, 1e-6), (32, 1e-6)), train=train, batch=batch)
    program = pipeline(envs=(envs, envs), horizon=2, batch=batch, max_staleness=eta)
    plan = planned(program, cpus(cores=16), points)
    one = tuple(
        replace(
            stage,
            replicas=(
                replace(
                    stage.replicas[0], environments=None if stage.kind == "train" else (0, envs),
                    core_set=(number,), cores=1.0, share=batch if stage.kind == "train" else 0,
                    batch=batch if stage.kind == "train" else stage.replicas[0].batch,
                ),
            ),
        )
        for number, stage in enumerate(plan.stages)
    )  # fmt: skip
    return replace(plan, stages=one)


@pytest.mark.parametrize("eta", [1, 3])
@pytest.mark.parametrize("batch", [128, 512])
def test_admission_a_batch_at_a_time_costs_what_the_timeline_says(eta: int, batch: int):
    """A batch may start when the version η before the last one is out, so that updates end
    (L + T)/(η + 1) apart at best, where T is an update and L what a batch takes from its start."""
    update = batch * 1e-3  # as long as its rollout
    plan = alone(batch=batch, eta=eta, train=update)
    outcome, _ = simulate(plan, replace(updates(plan, 60), transport=False))
    period = batch / outcome.throughput_env_steps_per_s
    assert period >= update * (1 - 1e-6)
    lap = 32 * 1e-3  # each environment steps once: what is begun and not full
    assert period <= update + 2 * lap / (eta + 1) + 1e-3


def test_without_staleness_rollout_and_training_alternate():
    plan = alone(batch=512, eta=1, train=0.3)
    plan = replace(plan, schedule="synchronous", max_staleness=0)
    conditions = replace(updates(plan, 40), transport=False)
    outcome, _ = simulate(plan, conditions, discipline=SYNCHRONOUS)
    assert outcome.throughput_env_steps_per_s == pytest.approx(512 / (0.512 + 0.3), rel=0.01)
    assert outcome.staleness == {"0": 1.0}


def test_the_terms_add_up_to_the_difference():
    plan = random_plan(0)
    conditions = replace(updates(plan, 20), spread=0.5, stragglers=0.02)
    outcome, _ = simulate(plan, conditions)
    terms = {term.cause: term.env_steps_per_s for term in explain(plan, outcome, conditions)}
    lost = sum(value for cause, value in terms.items() if cause != "start-up")
    gap = outcome.predicted_env_steps_per_s - outcome.throughput_env_steps_per_s
    assert lost == pytest.approx(gap, abs=5e-4 * outcome.predicted_env_steps_per_s)
    assert abs(terms["variance"]) > 0


def test_a_stage_beyond_the_loop_holds_back_a_learner_that_waits_for_it():
    program = pipeline(envs=(32, 32), horizon=2, batch=512, max_staleness=4, reward=Fraction(1))
    points = on_cores(simulate=1e-3, batch=512, train=0.05)
    from tests.planner.model.cases import point

    reward = tuple(point("reward", b, 2e-3 * b) for b in (1, 8))
    plan = planned(program, cpus(cores=4), points + reward)
    outcome, _ = simulate(plan, updates(plan, 30))
    busy = {stage.name: stage.busy * stage.replicas for stage in outcome.stages}
    assert busy["reward"] == pytest.approx(2 * busy["simulate"], rel=0.1)
