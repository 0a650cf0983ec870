"""What the frontend's tests share: a cache of their own, and graphs written in a few lines."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

TOYS = Path(__file__).parent / "wrong"

PIPELINE = """\
import ebrl
from toy import Learn, Linear, Reach, Score, ScoredLearn

{classes}
graph = ebrl.Graph("reach")
sim = graph.simulate({simulate})
act = graph.generate({generate})
ppo = graph.train({train})
sim.obs >> act.obs
act.action >> sim.action
sim.transition >> ppo.transition
act.behaviour >> ppo.behaviour
ppo.weights >> act.weights
{more}
"""


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EBRL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(sys, "path", [str(TOYS), *sys.path])


Write = Callable[..., Path]


@pytest.fixture
def pipeline(tmp_path: Path) -> Write:
    """Writes a graph of three toy stages; parts can be replaced, classes and lines added."""

    def write(
        *,
        simulate: str = "Reach(), envs=8",
        generate: str = "Linear()",
        train: str = "Learn()",
        classes: str = "",
        more: str = "",
        name: str = "pipeline.py",
    ) -> Path:
        file = tmp_path / name
        file.write_text(
            PIPELINE.format(
                simulate=simulate,
                generate=generate,
                train=train,
                classes=textwrap.dedent(classes),
                more=textwrap.dedent(more),
            )
        )
        return file

    return write
