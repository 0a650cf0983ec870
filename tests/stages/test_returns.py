"""Advantages and targets against plain recursions, straight from the definitions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ebrl.stages.learners.gae import gae
from ebrl.stages.learners.returns import decisions
from ebrl.stages.learners.vtrace import vtrace


@dataclass
class Segments:
    """N segments with the slab's layout: after an ended row one without a decision."""

    reward: np.ndarray  # [N, T, k]
    steps: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    value: np.ndarray  # [N, T + 1]
    ratio: np.ndarray


def segments(seed: int, n: int = 3, horizon: int = 9, k: int = 1, ends: float = 0.3) -> Segments:
    rng = np.random.default_rng(seed)
    steps = np.full((n, horizon), k, np.uint8)
    terminated, truncated = np.zeros((2, n, horizon), bool)
    for s in range(n):
        t = 0
        while t < horizon:
            if rng.random() < ends:
                (terminated if rng.random() < 0.5 else truncated)[s, t] = True
                steps[s, t] = rng.integers(1, k + 1)
                if t + 1 < horizon:
                    steps[s, t + 1] = 0
                t += 1
            t += 1
    return Segments(
        # Rows without a decision and unexecuted actions hold whatever was there before.
        reward=rng.normal(size=(n, horizon, k)).astype(np.float32),
        steps=steps,
        terminated=terminated,
        truncated=truncated,
        value=rng.normal(size=(n, horizon + 1)).astype(np.float32),
        ratio=np.exp(rng.normal(size=(n, horizon)) * 0.5).astype(np.float32),
    )


def known(given: Segments, gamma: float, **more: Any) -> Any:
    return decisions(
        given.reward, given.steps, given.terminated, given.truncated, gamma=gamma, **more
    )


def plain_gae(given: Segments, s: int, t: int, gamma: float, lam: float) -> float:
    """A_t by recursion, in double precision, of one decision."""
    k = int(given.steps[s, t])
    reward = sum(gamma**j * float(given.reward[s, t, j]) for j in range(k))
    ended = given.terminated[s, t] or given.truncated[s, t]
    follows = 0.0 if given.terminated[s, t] else gamma**k * float(given.value[s, t + 1])
    delta = reward + follows - float(given.value[s, t])
    if ended or t + 1 == given.steps.shape[1]:
        return delta
    return delta + gamma**k * lam * plain_gae(given, s, t + 1, gamma, lam)


def plain_vtrace(
    given: Segments, s: int, t: int, gamma: float, lam: float, rho: float, c: float
) -> float:
    """v_t by recursion, in double precision, of one decision."""
    k = int(given.steps[s, t])
    value, ratio = float(given.value[s, t]), float(given.ratio[s, t])
    reward = sum(gamma**j * float(given.reward[s, t, j]) for j in range(k))
    after = float(given.value[s, t + 1])
    discount = 0.0 if given.terminated[s, t] else gamma**k
    found = value + min(rho, ratio) * (reward + discount * after - value)
    if given.terminated[s, t] or given.truncated[s, t] or t + 1 == given.steps.shape[1]:
        return found
    following = plain_vtrace(given, s, t + 1, gamma, lam, rho, c)
    return found + discount * lam * min(c, ratio) * (following - after)


seeds = st.integers(0, 2**32 - 1)
unit = st.floats(0, 1)


@given(seeds, unit, unit, st.integers(1, 4))
@settings(deadline=None, max_examples=60)
def test_gae_equals_the_recursion_of_its_definition(
    seed: int, gamma: float, lam: float, k: int
) -> None:
    made = segments(seed, k=k)
    advantage, target = gae(known(made, gamma), made.value, lam)
    for s, t in np.argwhere(made.steps > 0):
        assert advantage[s, t] == pytest.approx(plain_gae(made, s, t, gamma, lam), abs=1e-4)
    assert (advantage[made.steps == 0] == 0).all()
    np.testing.assert_allclose(target, advantage + made.value[:, :-1], rtol=1e-6)


@given(seeds, unit, unit, st.integers(1, 4), st.floats(0.1, 1), st.floats(1, 3))
@settings(deadline=None, max_examples=60)
def test_vtrace_equals_the_recursion_of_its_definition(
    seed: int, gamma: float, lam: float, k: int, c: float, rho: float
) -> None:
    made = segments(seed, k=k)
    given = known(made, gamma)
    _, target = vtrace(given, made.value, made.ratio, rho_clip=rho, c_clip=c, trace_lambda=lam)
    for s, t in np.argwhere(made.steps > 0):
        expected = plain_vtrace(made, s, t, gamma, lam, rho, c)
        assert target[s, t] == pytest.approx(expected, abs=1e-3)


@given(seeds, unit)
@settings(deadline=None, max_examples=40)
def test_vtrace_with_every_ratio_one_is_the_n_step_return(seed: int, gamma: float) -> None:
    made = segments(seed)
    ones = np.ones_like(made.ratio)
    advantage, target = vtrace(known(made, gamma), made.value, ones)
    for s, t in np.argwhere(made.steps > 0):
        total, factor, u = 0.0, 1.0, int(t)
        while True:
            total += factor * float(made.reward[s, u, 0])
            factor *= gamma
            if made.terminated[s, u]:
                break
            if made.truncated[s, u] or u + 1 == made.steps.shape[1]:
                total += factor * float(made.value[s, u + 1])
                break
            u += 1
        assert target[s, t] == pytest.approx(total, abs=1e-4)
        assert advantage[s, t] == pytest.approx(total - float(made.value[s, t]), abs=1e-4)


def test_gae_with_a_constant_critic_has_its_closed_form() -> None:
    """r = 1, V = v: A_t = (1 + gamma v - v) (1 - (gamma lambda)^(T - t)) / (1 - gamma lambda)."""
    horizon, gamma, lam, v = 12, 0.97, 0.9, 3.0
    made = segments(0, n=1, horizon=horizon, ends=0)
    made.reward[:], made.value[:] = 1, v
    advantage, _ = gae(known(made, gamma), made.value, lam)
    x = gamma * lam
    closed = [(1 + gamma * v - v) * (1 - x ** (horizon - t)) / (1 - x) for t in range(horizon)]
    np.testing.assert_allclose(advantage[0], closed, rtol=1e-5)


@given(seeds)
@settings(deadline=None, max_examples=30)
def test_concatenated_segments_give_the_results_of_each(seed: int) -> None:
    parts = [segments(seed, n=1), segments(seed + 1, n=2)]
    joined = Segments(
        *(
            np.concatenate([getattr(p, name) for p in parts])
            for name in ("reward", "steps", "terminated", "truncated", "value", "ratio")
        )
    )
    for function in (
        lambda m: gae(known(m, 0.9), m.value, 0.8),
        lambda m: vtrace(known(m, 0.9), m.value, m.ratio),
    ):
        whole = function(joined)
        each = [function(part) for part in parts]
        for i in range(2):
            np.testing.assert_array_equal(whole[i], np.concatenate([e[i] for e in each]))


@pytest.mark.parametrize("kind", ["gae", "vtrace"])
@pytest.mark.parametrize("end", ["terminated", "truncated"])
def test_nothing_after_an_end_reaches_what_was_before_it(kind: str, end: str) -> None:
    made = segments(0, n=1, ends=0)
    getattr(made, end)[0, 3] = True
    made.steps[0, 4] = 0

    def before(m: Segments) -> np.ndarray:
        given = known(m, 0.99)
        found = gae(given, m.value, 0.95) if kind == "gae" else vtrace(given, m.value, m.ratio)
        return np.stack([each[0, :4] for each in found])

    expected = before(made)
    made.value[0, 5:] += 100  # the next episode
    made.reward[0, 4:] -= 100
    np.testing.assert_array_equal(before(made), expected)
    made.value[0, 4] += 100  # the final observation's value
    changed = not np.array_equal(before(made), expected)
    assert changed == (end == "truncated")


def test_a_chunk_is_discounted_by_environment_step() -> None:
    reward = np.array([[[1.0, 2.0, 4.0], [8.0, 99.0, 99.0]]], np.float32)
    steps = np.array([[3, 1]], np.uint8)
    ended = np.array([[False, True]])
    given = decisions(reward, steps, ended, ~ended & False, gamma=0.5)
    assert given.reward.tolist() == [[1 + 1 + 1, 8]]
    assert given.discount.tolist() == [[0.125, 0]]


@pytest.mark.parametrize(
    ("terminal", "expected"),
    [("zero", 2.0), ("bootstrap", 2 + 0.9 * 7), ("absorb", 2 / (1 - 0.9))],
)
def test_what_follows_a_terminated_episode_is_chosen(terminal: Any, expected: float) -> None:
    made = segments(0, n=1, horizon=1, ends=0)
    made.reward[:], made.terminated[:] = 2, True
    made.value[0] = 5, 7
    _, target = gae(known(made, 0.9, terminal=terminal), made.value, 0.95)
    assert target[0, 0] == pytest.approx(expected)


def test_rubbish_in_rows_without_a_decision_changes_nothing() -> None:
    made = segments(3)
    expected = gae(known(made, 0.9), made.value, 0.9)
    made.reward[made.steps == 0] = np.nan
    for wanted, found in zip(expected, gae(known(made, 0.9), made.value, 0.9), strict=True):
        np.testing.assert_array_equal(wanted, found)
