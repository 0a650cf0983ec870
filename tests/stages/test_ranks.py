"""Two learners that share the work come to the weights of one."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.stages.one_rank import learn

ROOT = Path(__file__).parents[2]


def together(world: int, folder: Path, options: dict[str, Any], stop_at: int = 0) -> list[Any]:
    given = [str(folder / "meeting"), json.dumps(options), str(stop_at)]
    ranks = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.stages.one_rank", str(rank), str(world), *given],
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        for rank in range(world)
    ]
    return [json.loads(each.communicate(timeout=120)[0]) for each in ranks]


@pytest.mark.parametrize("options", [{}, {"target_kl": 0.002, "advantages": "vtrace"}])
def test_two_learners_come_to_the_weights_and_the_metrics_of_one(options, tmp_path: Path) -> None:
    alone, metrics, _ = learn(0, 1, "", options, 0)
    (first, told, _), (second, _, _) = together(2, tmp_path, options)
    assert np.array_equal(first, second)
    np.testing.assert_allclose(first, alone, rtol=2e-4, atol=2e-5)
    for name, value in metrics.items():
        assert told[name] == pytest.approx(value, rel=0.05, abs=2e-3), name


def test_all_of_them_stop_when_one_is_asked_to(tmp_path: Path) -> None:
    (first, _, asked), (second, _, others) = together(2, tmp_path, {}, stop_at=3)
    assert asked == others
    assert np.array_equal(first, second)
