"""Updates that make something non-finite: they do not count, and too many of them end a run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from ebrl.errors import DivergedError, RunError
from ebrl.runtime import checkpoint, learning
from ebrl.runtime.attempt import LeftOut, attempt
from ebrl.runtime.ledger import read as read_ledger
from ebrl.runtime.segments import FREE
from ebrl.runtime.train import Diverged, Train, Update
from tests.runtime.one_process import OneProcess
from tests.runtime.support import GRAPHS, plan_of, pool, program
from tests.runtime.test_faults import lines, weights
from tests.runtime.test_run import balanced, run, start, write
from tests.runtime.test_segments import fill

GRAPH = GRAPHS / "stumbles.py"


class Body:
    """A learner of three weights, which come to what it is given."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)

    def update(self, batch, should_stop):
        self.answer = self.answers.pop(0)
        if isinstance(self.answer, Exception):
            raise self.answer
        return {}

    def write_weights(self, flat):
        flat[:] = self.answer


def stand_in(*answers: Any) -> Any:
    return Body(*answers)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_weights_that_are_not_finite_are_found_out_and_large_ones_are_not(value: float) -> None:
    into = np.zeros(3, np.float32)
    largest = np.finfo(np.float32).max
    assert attempt(stand_in([largest] * 3), None, bool, into) == ({}, "")
    _, why = attempt(stand_in([1.0, value, 2.0]), None, bool, into)
    assert why == "the update made 1 of 3 weights non-finite"


def test_an_update_that_does_not_count_is_thrown_away_and_not_published() -> None:
    slab, segments = pool(program(), environments=4, weights_bytes=12)
    learner = stand_in(
        [1.0] * 3, [np.nan] * 3, DivergedError("diverged", "the loss is nan"), [2.0] * 3
    )
    train = Train(slab, segments, learner, version=0)
    learner.answer = 0.0
    train.publish()
    told: list[Any] = []
    for _ in range(4):
        for _ in range(segments.per_batch):
            segment = segments.start(0)
            assert segment is not None
            fill(slab, segment, train.version)
            segments.finish(segment)
        told.append(train.update(bool))
    assert [type(each) for each in told] == [Update, Diverged, Diverged, Update]
    assert [each.why for each in told[1:3]] == [
        "the update made 3 of 3 weights non-finite",
        "the loss is nan",
    ]
    assert train.version == slab["weights/version"][0] == 2
    assert slab["weights"][0].tolist() == [2.0] * 3
    ledger = read_ledger(slab, segments)
    assert ledger.balance == 0
    assert (ledger.trained, ledger.discarded["diverged"]) == (32, 32)
    assert (slab["segment/state"] == FREE).all()


def test_the_bound_is_on_updates_in_a_row() -> None:
    left_out = LeftOut(3)
    for _ in range(4):
        left_out.add("ppo", 5, "nan")
        left_out.add("ppo", 5, "nan")
        left_out.counted()
    left_out.add("ppo", 5, "nan")
    left_out.add("ppo", 5, "nan")
    with pytest.raises(RunError, match="version 5 was left out 3 times in a row"):
        left_out.add("ppo", 5, "nan")


def test_and_on_many_within_an_hour() -> None:
    left_out = LeftOut(3)
    for _ in range(29):
        left_out.counted()
        left_out.add("ppo", 5, "nan")
    left_out.counted()
    with pytest.raises(RunError, match="30 times within"):
        left_out.add("ppo", 5, "nan")


class NonFinite:
    """Around a learner: rewards are infinite at its fourth update."""

    def __init__(self, body: Any) -> None:
        self._body, self._asked = body, 0

    def update(self, batch, should_stop):
        self._asked += 1
        if self._asked == 4:
            batch.reward[batch.segment] = np.inf
        return self._body.update(batch, should_stop)

    def __getattr__(self, name):
        return getattr(self._body, name)


@pytest.mark.filterwarnings("ignore:invalid value")  # infinities, times nothing
@pytest.mark.parametrize("often", [True, False])
def test_the_state_gone_back_to_is_the_newest_there_is_and_what_it_lacks_is_counted(
    often: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not often:  # as with a network that is dear to copy
        monkeypatch.setattr(learning, "SHARE", 1e-9)
    one = OneProcess(tmp_path, dress=NonFinite)
    body = one.learning._body
    states = [body.state()[0]]
    for _ in range(3):
        one.go(1)
        states.append(body.state()[0])
    one.go(1)
    expected = states[3 if often else 0]
    for name, tensor in body.state()[0].items():
        assert torch.equal(tensor, expected[name]), name
    assert body.updates == (3 if often else 0)
    ledger = read_ledger(one.slab, one.segments)
    assert ledger.balance == 0
    assert ledger.discarded["diverged"] > 400
    assert (ledger.trained > 0) == often
    assert (ledger.discarded["learner-lost"] > 1200) == (not often)
    assert one.slab["weights/version"][0] == (3 if often else 4)  # never twice the same
    one.go(2)
    assert one.slab["weights/version"][0] == (5 if often else 6)
    one.close()


STEPS = ("--steps", "3500", "--seed", "3")


def test_a_run_goes_on_over_updates_that_diverge_with_one_learner_as_with_two(
    tmp_path: Path,
) -> None:
    path = write(plan_of(GRAPH, max_staleness=0), tmp_path)
    one = run(path, tmp_path / "one", *STEPS)
    path = write(plan_of(GRAPH, max_staleness=0, learners=2), tmp_path)
    two = run(path, tmp_path / "two", *STEPS)
    for name, told in (("one", one), ("two", two)):
        assert told["skipped_updates"] == 3
        assert balanced(told)
        assert told["restarts"] == 0
        events = lines(tmp_path / name / "events.jsonl")
        skipped = [each for each in events if each["event"] == "update-skipped"]
        assert [each["version"] for each in skipped] == [2, 2, 4]
        assert sum(each["steps"] for each in skipped) == told["ledger"]["discarded"]["diverged"]
        assert all("non-finite" in each["message"] for each in skipped)
        assert torch.isfinite(weights(tmp_path / name)).all()
    torch.testing.assert_close(
        weights(tmp_path / "two"), weights(tmp_path / "one"), rtol=1e-3, atol=1e-4
    )


def test_a_learner_that_diverges_again_and_again_ends_the_run_with_a_verdict(
    tmp_path: Path,
) -> None:
    graph = tmp_path / "graph.py"
    graph.write_text(GRAPH.read_text().replace("AT = (3, 4, 7)", "AT = range(3, 999)"))
    process = start(write(plan_of(graph), tmp_path), tmp_path / "run", "--patience", "4")
    out, err = process.communicate(timeout=90)
    assert process.returncode == 1, err
    (diagnostic,) = json.loads(out)["diagnostics"]
    assert diagnostic["code"] == "diverged"
    assert diagnostic["where"] == "stage `train`"
    for words in ("from version 2", "4 times in a row", "non-finite"):
        assert words in diagnostic["message"]
    assert "learning rate" in diagnostic["hint"]
    assert err.count("is left out") == 4
    assert "Traceback" not in err
    told = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert balanced(told)
    assert told["skipped_updates"] == 4
    tensors, state = checkpoint.load(tmp_path / "run")
    # The newest state that was kept: on a busy machine a copy may have been too dear at version 2.
    assert state.version in (1, 2)
    assert state.learner["updates"] == state.version
    assert all(torch.isfinite(each.float()).all() for each in tensors.values())
