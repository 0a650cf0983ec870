"""One environment behind the protocol: its habits change nothing, and nothing bad passes."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv
from gymnasium.wrappers import Autoreset, TimeLimit

from ebrl.errors import GraphError, RunError
from ebrl.stages import Gymnasium
from ebrl.stages.envs.adapter import GymnasiumEnvironment
from ebrl.stages.envs.describe import action_program, observation_spec, observed
from tests.stages.batches import blank
from tests.stages.worlds import Faulty, Nested, OneInAVector, Walk

LIMIT = 7


def cells(env: Any) -> dict[str, np.ndarray]:
    return blank(observation_spec(observed(env)[0]))


def plain() -> Any:
    return TimeLimit(Walk(), LIMIT)


def episodes(env: Any, count: int = 40) -> list[Any]:
    """Everything the protocol tells about `count` episodes, in plain numbers."""
    views, told = cells(env), []
    world = GymnasiumEnvironment(env)
    actions = np.random.default_rng(5)
    world.reset(11, views)
    for _ in range(count):
        episode = [views[""].tolist()]
        while True:
            result = world.step(actions.uniform(-2, 2, 1).astype(np.float32), views)
            episode.append((views[""].tolist(), *result))
            if result.terminated or result.truncated:
                break
        told.append(episode)
        world.reset(None, views)
    world.close()
    return told


@pytest.mark.parametrize(
    "make",
    [
        lambda: Autoreset(plain()),
        lambda: TimeLimit(Walk(reuse=True), LIMIT),
        lambda: SyncVectorEnv([plain], autoreset_mode=AutoresetMode.DISABLED),
        lambda: SyncVectorEnv([plain], autoreset_mode=AutoresetMode.NEXT_STEP),
        lambda: SyncVectorEnv([plain], autoreset_mode=AutoresetMode.SAME_STEP),
        lambda: SyncVectorEnv(
            [lambda: TimeLimit(Walk(reuse=True), LIMIT)], autoreset_mode=AutoresetMode.SAME_STEP
        ),
        lambda: AsyncVectorEnv([plain], autoreset_mode=AutoresetMode.SAME_STEP),
        lambda: AsyncVectorEnv([plain], autoreset_mode=AutoresetMode.NEXT_STEP),
        lambda: OneInAVector(Walk(reuse=True), AutoresetMode.DISABLED, LIMIT),
        lambda: OneInAVector(Walk(reuse=True), AutoresetMode.NEXT_STEP, LIMIT),
        lambda: OneInAVector(Walk(reuse=True), AutoresetMode.SAME_STEP, LIMIT),
    ],
    ids=[
        *(
            "autoreset-wrapper",
            "reused-buffer",
            "sync-disabled",
            "sync-next-step",
            "sync-same-step",
        ),
        *("sync-same-step-reused-buffer", "async-same-step", "async-next-step"),
        *("vector-disabled", "vector-next-step", "vector-same-step"),
    ],
)
def test_episodes_are_equal_in_every_autoreset_mode(make: Any) -> None:
    assert episodes(make()) == episodes(plain())


def test_the_reference_episodes_end_in_both_ways() -> None:
    last = [episode[-1] for episode in episodes(plain())]
    assert any(result[2] for result in last), "some terminate"
    assert any(result[3] and not result[2] for result in last), "some are only truncated"


def test_the_final_observation_is_not_the_one_after_the_reset() -> None:
    for episode, following in zip(*(lambda e: (e, e[1:]))(episodes(plain())), strict=False):
        assert episode[-1][0][1] == len(episode) - 1, "the time of the last observation"
        assert following[0][1] == 0


def test_the_sum_of_rewards_equals_the_environments_own() -> None:
    env = Walk()
    own: list[float] = []
    inner = env.step

    def counting(action: Any) -> Any:
        result = inner(action)
        own.append(result[1])
        return result

    env.step = counting  # type: ignore[method-assign]
    told = sum(step[1] for episode in episodes(TimeLimit(env, LIMIT)) for step in episode[1:])
    assert told == sum(own)


def test_dict_observations_are_copied_by_path() -> None:
    env = Nested()
    world, first, second = GymnasiumEnvironment(env), cells(env), cells(env)
    world.reset(0, first)
    world.step(np.array(0), second)
    assert list(first) == ["agent/qpos", "rgb"]
    assert first["agent/qpos"].tolist() == [0, 0, 0]
    assert second["agent/qpos"].tolist() == [1, 1, 1]
    assert first["rgb"].max() == 0
    assert second["rgb"].min() == 1


def test_a_discrete_action_is_shifted_to_the_start_of_its_space() -> None:
    env = Nested()
    world = GymnasiumEnvironment(env)
    world.reset(0, cells(env))
    world.step(np.array(2), cells(env))
    assert env.last_action == 1


def test_the_environment_gets_the_clipped_action_and_the_slab_keeps_the_raw_one() -> None:
    env = Walk()
    world = GymnasiumEnvironment(env)
    world.reset(0, cells(env))
    stored = np.array([3.5], np.float32)
    world.step(stored, cells(env))
    assert env.last_action.tolist() == [1.0]
    assert stored.tolist() == [3.5]
    assert not np.shares_memory(env.last_action, stored)


@pytest.mark.parametrize(
    ("fault", "port", "what"),
    [
        ({"obs": np.array([0, np.nan], np.float32)}, "obs", "nan at index [1]"),
        ({"obs": np.array([np.inf, 0], np.float32)}, "obs", "inf at index [0]"),
        ({"obs": np.zeros(2)}, "obs", "dtype float64, but the space says float32"),
        ({"obs": np.zeros(3, np.float32)}, "obs", "shape (3,), but the space says (2,)"),
        ({"obs": [0.0, 0.0]}, "obs", "a list, not an array"),
        ({"reward": float("nan")}, "transition", "the reward is nan"),
        ({"reward": -np.inf}, "transition", "the reward is -inf"),
        ({"reward": None}, "transition", "the reward is a NoneType"),
        ({"error": ValueError("arm out of reach")}, "action", "ValueError: arm out of reach"),
    ],
)
def test_a_fault_names_environment_port_episode_and_step(
    fault: dict[str, Any], port: str, what: str
) -> None:
    env = Faulty(**fault)
    world = GymnasiumEnvironment(env, name="simulate 1, environment 7")
    world.reset(0, cells(env))
    world.reset(None, cells(env))
    world.step(np.array(0), cells(env))
    world.step(np.array(0), cells(env))
    with pytest.raises(RunError) as caught:
        world.step(np.array(0), cells(env))
    told = str(caught.value)
    assert what in told
    assert f"simulate 1, environment 7, port {port}, episode 1, step 3" in told


@pytest.mark.filterwarnings("ignore:overflow")
def test_large_but_finite_numbers_pass() -> None:
    env = Faulty(obs=np.array([3e38, -3e38], np.float32))
    world, views = GymnasiumEnvironment(env), cells(env)
    world.reset(0, views)
    for _ in range(3):
        world.step(np.array(0), views)
    assert views[""].tolist() == np.array([3e38, -3e38], np.float32).tolist()


def test_a_step_after_the_end_is_refused_and_two_resets_are_not() -> None:
    env = TimeLimit(Walk(), 1)
    world, views = GymnasiumEnvironment(env), cells(env)
    world.reset(0, views)
    world.reset(0, views)
    assert world.step(np.zeros(1, np.float32), views).truncated
    with pytest.raises(RunError, match="the episode has ended"):
        world.step(np.zeros(1, np.float32), views)


def test_an_episode_ends_before_an_environment_that_raises_past_its_limit() -> None:
    class Metaworld(Walk):
        max_path_length = 4

        def __init__(self) -> None:
            super().__init__(width=np.inf)
            self.max_path_length = 4

        def step(self, action: Any) -> Any:
            if self.time >= self.max_path_length:
                raise ValueError("You must reset the env manually once truncate==True")
            return super().step(action)

    world, views = GymnasiumEnvironment(Metaworld()), {"": np.zeros(2, np.float32)}
    world.reset(0, views)
    ends = [world.step(np.zeros(1, np.float32), views).truncated for _ in range(4)]
    assert ends == [False, False, False, True]


def test_a_float64_observation_is_cast_only_where_the_declaration_says_so() -> None:
    made = Gymnasium("Pendulum-v1").make()
    made.unwrapped.observation_space = spaces.Box(-8, 8, (3,), np.float64)
    views = {"": np.zeros(3, np.float32)}
    with pytest.raises(RunError, match="dtype float32, but the space says float64"):
        GymnasiumEnvironment(made).reset(0, views)

    class Double(Walk):
        def __init__(self) -> None:
            super().__init__()
            self.observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float64)
            self._buffer = np.zeros(2)

    assert dict(observation_spec(Double().observation_space, "float32"))[""].dtype == "float32"
    GymnasiumEnvironment(Double(), cast="float32").reset(0, {"": np.zeros(2, np.float32)})


def test_streams_of_spawned_seeds_do_not_overlap() -> None:
    seeds = [int(s.generate_state(1)[0]) for s in np.random.SeedSequence(0).spawn(8)]
    seen = []
    for seed in seeds:
        world, views = Gymnasium("CartPole-v1").environment(), {"": np.zeros(4, np.float32)}
        for number in range(4):
            world.reset(seed if number == 0 else None, views)
            seen.append(tuple(views[""].tolist()))
    assert len(set(seen)) == len(seen)


@pytest.mark.parametrize(
    ("space", "kind", "shape"),
    [
        (spaces.Discrete(5), "discrete", ()),
        (spaces.Box(-1, 1, (3,), np.float32), "box", (3,)),
        (spaces.Box(-np.inf, np.inf, (2, 2), np.float64), "box", (2, 2)),
    ],
)
def test_actions_are_described(space: Any, kind: str, shape: tuple[int, ...]) -> None:
    program = action_program(space)
    assert (program.kind, program.shape) == (kind, shape)
    assert np.isfinite(program.low).all()
    assert len(program.low) == int(np.prod(shape)) * (kind == "box")


@pytest.mark.parametrize("space", [spaces.MultiDiscrete([2, 3]), spaces.Box(0, 9, (1,), np.int32)])
def test_an_action_that_cannot_be_sampled_is_refused_with_a_hint(space: Any) -> None:
    with pytest.raises(GraphError, match="hint: wrap the environment"):
        action_program(space)


def test_nested_spaces_become_paths_in_their_order() -> None:
    space = spaces.Dict({"a": spaces.Tuple([spaces.Discrete(4)]), "b": spaces.MultiBinary(3)})
    found = observation_spec(space)
    assert [(path, str(tensor)) for path, tensor in found.items()] == [
        ("a/0", "int64[]"),
        ("b", "int8[3]"),
    ]


def test_an_environment_gymnasium_does_not_know_is_a_graph_error() -> None:
    with pytest.raises(GraphError, match="NoSuchThing-v0"):
        Gymnasium("NoSuchThing-v0").make()


def test_a_vector_of_several_is_refused() -> None:
    with pytest.raises(GraphError, match="vector of 2"):
        GymnasiumEnvironment(SyncVectorEnv([plain, plain]))


def test_a_wrapper_of_the_users_is_kept_and_gymnasiums_own_are_peeled() -> None:
    class Negated(gymnasium.ObservationWrapper):
        def observation(self, observation: Any) -> Any:
            return -observation

    views, other = {"": np.zeros(2, np.float32)}, {"": np.zeros(2, np.float32)}
    GymnasiumEnvironment(TimeLimit(Negated(Walk()), 3)).reset(1, views)
    GymnasiumEnvironment(TimeLimit(Walk(), 3)).reset(1, other)
    assert views[""][0] == -other[""][0]
