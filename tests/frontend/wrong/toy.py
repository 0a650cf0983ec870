"""Stages that need no simulator and no torch: what they are is declared."""

from __future__ import annotations

import ebrl
from ebrl.frontend.program import ActionProgram


class Reach(ebrl.Simulator):
    """A point that moves in the plane."""

    probed = False

    def __init__(self, size=3, dtype="float32"):
        self.size = size
        self.dtype = dtype

    def describe(self):
        action = ActionProgram(kind="box", dtype="float32", shape=(2,), low=(-1, -1), high=(1, 1))
        return ebrl.Spec(self.dtype, (self.size,)), action, 50


class Linear(ebrl.Policy):
    def __init__(self, chunk=1):
        self.chunk = chunk


class Learn(ebrl.Learner):
    def __init__(self, horizon=16, batch=256, **more):
        self.horizon = horizon
        self.batch = batch
        vars(self).update(more)


class Score(ebrl.Stage):
    """A reward model."""

    kind = "reward"
    frames = ebrl.In(ebrl.Spec("float32", (3,)))
    score = ebrl.Out(ebrl.Spec("float32"))


class ScoredLearn(Learn):
    """A learner that takes a score for every environment step, too."""

    score = ebrl.In(ebrl.Spec("float32"))
