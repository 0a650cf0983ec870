"""What a simulator's import may do to the process that everybody is forked from."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.runtime.support import GRAPHS, plan_of
from tests.runtime.test_run import balanced, run, write

RESTLESS = """
import threading
import time

threading.Thread(target=time.sleep, args=(3600,), daemon=True).start()
"""


def test_an_import_that_starts_a_thread_is_left_to_the_workers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "restless.py").write_text(RESTLESS)
    text = (GRAPHS / "cartpole.py").read_text()
    text = text.replace('Gymnasium("CartPole-v1")', 'Restless("CartPole-v1")').replace(
        'graph = ebrl.Graph("cartpole-test")',
        'class Restless(Gymnasium):\n    imports = ("restless",)\n\n\n'
        'graph = ebrl.Graph("restless")',
    )
    graph = tmp_path / "graph.py"
    graph.write_text(text)
    search = [str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(search))
    told = run(write(plan_of(graph), tmp_path), tmp_path / "run", "--steps", "2000")
    assert told["env_steps"] >= 2000
    assert balanced(told)
    (log,) = (tmp_path / "run").rglob("nursery*")
    said = log.read_text()
    assert said.count("not forking: an import has started 1 threads") == 1  # of four workers
    assert "Traceback" not in said
