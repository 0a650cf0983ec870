"""What docs/graphs.md shows is true: its stages work, its table lists every diagnostic."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from ebrl.frontend.check import check
from ebrl.frontend.load import load_graph

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/graphs.md").read_text()


@pytest.fixture
def page_graph(tmp_path: Path):
    """All of the page's Python, one after the other, as one graph file."""
    blocks = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    file = tmp_path / "page.py"
    file.write_text("\n\n".join(blocks))
    return load_graph(file)


def stage(graph, name: str):
    return next(each.stage for each in graph.declarations if each.name == name)


def test_the_stages_of_the_page_make_a_sound_graph(page_graph):
    pytest.importorskip("gymnasium")
    program = check(page_graph)
    rates = {each.name: each.rate for each in program.stages}
    assert rates == {"simulate": "1", "policy": "1", "judge": "1/16", "learner": "1/256"}
    assert program.environment is not None
    assert program.environment.max_episode_steps == 200
    assert program.stage("judge").work is not None


def test_the_policy_and_the_learner_of_the_page_work(page_graph):
    pytest.importorskip("torch")
    from ebrl.stages.protocols import Batch

    program = check(page_graph)
    policy, learner = stage(page_graph, "policy"), stage(page_graph, "learner")
    environment, training = program.environment, program.training
    rng = np.random.default_rng(0)
    pool, length = 3, 16
    batch = Batch(
        segment=np.array([0, 2]),
        obs={"": rng.normal(size=(pool, length + 1, 3)).astype(np.float32)},
        action=rng.normal(size=(pool, length, 1)).astype(np.float32),
        log_prob=np.zeros((pool, length), np.float32),
        version=np.zeros((pool, length), np.int64),
        reward=rng.normal(size=(pool, length, 1)).astype(np.float32),
        steps=np.ones((pool, length), np.uint8),
        terminated=np.zeros((pool, length), np.bool_),
        truncated=np.zeros((pool, length), np.bool_),
        trained_version=0,
    )
    body = learner.build(policy, environment, training, seed=0, device="cpu", total_updates=None)
    size = sum(int(np.prod(shape)) for shape in body.weights().values())
    before, after = np.zeros(size, np.float32), np.zeros(size, np.float32)
    body.write_weights(before)
    metrics = body.update(batch, lambda: False)
    body.write_weights(after)
    assert np.isfinite(metrics["train/loss"])
    assert not np.array_equal(before, after)
    body.load_state(*body.state())

    actor = policy.build(environment, seed=0, device="cpu")
    assert actor.weights() == body.weights()
    actor.load_weights(after)
    noise = rng.normal(size=(5, actor.noise_size)).astype(np.float32)
    action, log_prob = actor.act({"": np.zeros((5, 3), np.float32)}, noise)
    assert action.shape == (5, 1)
    assert log_prob.shape == (5,)


def test_the_table_lists_every_code_that_the_frontend_gives():
    families = {code.partition("-")[0] for code in table()}
    given: set[str] = set()
    for file in (ROOT / "ebrl/frontend").rglob("*.py"):
        given.update(re.findall(r'"([a-z]+(?:-[a-z]+)+)"', file.read_text()))
    assert {code for code in given if code.partition("-")[0] in families} - WORDS == table()


WORDS = {"stroke-dasharray"}


def table() -> set[str]:
    return set(re.findall(r"^\| `([a-z-]+)` \|", PAGE, re.MULTILINE)) - {"a"}


def test_the_wrong_graphs_cover_the_table_but_for_what_needs_no_graph():
    texts = [each.read_text() for each in (Path(__file__).parent / "wrong").glob("*.py")]
    covered = {code for text in texts for code in re.findall(r"[a-z]+(?:-[a-z]+)+", text)}
    elsewhere = {
        "drawing-unwritable",
        "file-changed",
        "file-missing",
        "file-not-python",
        "file-unreadable",
        "probe-timeout",
        "stage-unknown",
    }
    assert table() - covered == elsewhere
