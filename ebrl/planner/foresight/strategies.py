"""How other systems schedule the same pipeline, each as a restriction of ours: fewer ways to place
stages, and more waiting for each other in the loop.

Invariant: every strategy has the same graph, hardware, stage times and interference. None pays for
what it would pay for in practice beyond these (offloading between phases, resets, scheduling),
and each may choose its own ratio of devices, batches, number of environments, of simulating
processes and of pipeline stages.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from ebrl.planner.foresight import restrict
from ebrl.planner.foresight.conditions import RUNTIME, Discipline
from ebrl.planner.foresight.restrict import Restriction


class Strategy(msgspec.Struct, frozen=True, kw_only=True):
    """`restriction` None: every pattern. `counts`: "free", or "even" where every environment gives
    an update as many segments. `groups`: pipeline stages that may be chosen among."""

    name: str
    what: str
    source: str
    synchronous: bool = False
    restriction: Restriction | None = None
    discipline: Discipline = RUNTIME
    groups: tuple[int, ...] = (2,)
    counts: Literal["free", "even"] = "free"
    pooled: bool = True  # cores are shared by who is busy, not kept by processes


LOCKSTEP = Discipline(together="everybody", merge=False, rounds=True)


def collocated() -> Strategy:
    """Synchronous and collocated: every GPU holds every stage, and all switch phase together.

    Source: RLinf, "collocated" placement (RLinf, arXiv 2509.15965; its embodied examples place
    env, rollout and actor on all GPUs). Rollout is a lockstep over each policy's environments, as
    a vectorised environment steps them; moving weights out and in between phases is taken to cost
    nothing. One or two pipeline stages, whichever is faster.
    """
    return Strategy(
        name="collocated",
        what="every GPU holds all stages; rollout and training alternate",
        source="RLinf, arXiv 2509.15965",
        synchronous=True,
        restriction=restrict.everything_alike,
        discipline=LOCKSTEP,
        groups=(1, 2),
        counts="even",
    )


def disaggregated() -> Strategy:
    """Synchronous and disaggregated: each GPU belongs to one stage, at the best ratio.

    Source: RLinf, "disaggregated" placement (arXiv 2509.15965). The learner's GPUs idle while
    environments are stepped, and the others while it learns; every ratio is considered.
    """
    return Strategy(
        name="disaggregated",
        what="each GPU for one stage, best ratio; rollout and training alternate",
        source="RLinf, arXiv 2509.15965",
        synchronous=True,
        restriction=restrict.one_stage,
        discipline=LOCKSTEP,
        groups=(1, 2),
        counts="even",
    )


def hybrid() -> Strategy:
    """Synchronous, simulators and policies on GPUs of their own, the learner on all of them, the
    environments in two pipeline stages, so that one half is stepped while the other is answered.

    Source: RLinf-VLA, "hybrid" placement with fine-grained pipelining (arXiv 2510.06710; its
    maniskill_ppo_openvla example has env 0-3, rollout 4-7, actor 0-7, two pipeline stages).
    """
    return Strategy(
        name="hybrid",
        what="simulators | policies, the learner on both in its phase; two pipeline stages",
        source="RLinf-VLA, arXiv 2510.06710",
        synchronous=True,
        restriction=restrict.rollout_and_learner,
        discipline=LOCKSTEP,
        groups=(1, 2),
        counts="even",
    )


def async_barrier() -> Strategy:
    """Training overlaps with rollout, but rollout goes in rounds: nobody starts on the next batch
    before everybody has ended the last one, and within a round environments go in lockstep.

    Source: one-step-overlap systems, as AReaL describes them (arXiv 2505.24298, related work and
    its ablation without interruptible generation). The learner has whole GPUs of its own.
    """
    return Strategy(
        name="async-barrier",
        what="training beside rollout; rollout in rounds and in lockstep",
        source="one-step overlap, after AReaL, arXiv 2505.24298",
        restriction=restrict.rollout_apart,
        discipline=LOCKSTEP,
        groups=(1, 2),
        counts="even",
    )


def async_shards() -> Strategy:
    """Fully asynchronous at the level of environment shards: a shard is stepped in lockstep, its
    observations go to the policy as one, which batches whatever shards are there.

    Source: RL-VLA³ (asynchronous environments, rollout and training with dynamic batching), as
    described in D-VLA's comparison (arXiv 2605.13276). Whole GPUs; a shard is one simulating
    process's environments, in one or two halves; the same bound on staleness as ours.
    """
    return Strategy(
        name="async-shards",
        what="training beside rollout; shards of environments, batched as they come",
        source="RL-VLA³, after D-VLA, arXiv 2605.13276",
        restriction=restrict.rollout_apart,
        discipline=Discipline(together="worker", merge=True),
        groups=(1, 2),
    )


def ours_no_sm() -> Strategy:
    """Ours on whole GPUs: one stage, or several in turns, but no split of their SMs."""
    return Strategy(
        name="ours-no-sm",
        what="ours on whole GPUs",
        source="ablation",
        restriction=restrict.whole_devices,
        groups=(1, 2),
    )


def ours_no_per_env() -> Strategy:
    """Ours, but the environments of one simulating process are stepped and answered as one."""
    return Strategy(
        name="ours-no-per-env",
        what="ours, a process's environments in lockstep",
        source="ablation",
        discipline=Discipline(together="worker", merge=True),
        groups=(1, 2),
    )


def ours_no_core_pool() -> Strategy:
    """Ours, but every process keeps whole cores to itself, busy or not."""
    return Strategy(
        name="ours-no-core-pool",
        what="ours, every process on whole cores of its own",
        source="ablation",
        pooled=False,
        groups=(1, 2),
    )


def ours() -> Strategy:
    """Everything: SM quotas, each environment by itself, pooled cores, bounded staleness."""
    return Strategy(name="ours", what="SM quotas, single environments, pooled cores", source="ours")


OTHERS = (collocated, disaggregated, hybrid, async_barrier, async_shards)
ABLATIONS = (ours_no_sm, ours_no_per_env, ours_no_core_pool)


def all_strategies() -> tuple[Strategy, ...]:
    """In the order of the table."""
    return (*(make() for make in (*OTHERS, *ABLATIONS)), ours())
