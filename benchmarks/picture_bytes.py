"""How often the bytes of a picture are copied between the simulator and the network.

    python -m benchmarks.picture_bytes [--transitions 6400] [-o FILE]

The real loops of a run (loops.py) around a simulator of 64 × 64 pictures, `CNNPolicy` and PPO with
four epochs. Counted are the bytes of pictures that are written anywhere as they are: by the adapter
into the slab, from the end of a segment to the beginning of the next, by numpy's `take` for the
policy, and by any operation of torch. Told beside it is what the network converts into its own
floats, each time it looks at a picture: that is its work, wherever the bytes lie. A second run has
a network that takes gathered tensors, as one of a user's own would.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from benchmarks.loops import Loops, program
from benchmarks.machine import describe
from ebrl.frontend.program import ActionProgram
from ebrl.frontend.spec import Tensor
from ebrl.stages import PPO, CNNPolicy
from ebrl.stages.protocols import Array, StepResult

SHAPE = (64, 64, 3)
PICTURE = int(np.prod(SHAPE))
ENVIRONMENTS, HORIZON, BATCH, EPISODE = 16, 25, 800, 50
EPOCHS = 4
TARGET = 2.0
SIMULATOR, SEGMENT = (
    "the adapter, into the slab",
    "from a segment's end to the next one's beginning",
)
POLICY, LEARNER = "gathered for the policy", "gathered for the learner"
FLOATS = "read, as floats, by the network"


class Pictures:
    """A simulator that hands over pictures it keeps, as an adapter does: one copy each."""

    def __init__(self, counts: Counter[str]) -> None:
        self._made = np.random.default_rng(0).integers(0, 256, (8, *SHAPE), np.uint8)
        self._counts = counts
        self._at = 0

    def reset(self, seed: int | None, obs: Any) -> None:
        del seed
        self._at = 0
        self._give(obs)

    def step(self, action: Array, obs: Any) -> StepResult:
        del action
        self._at += 1
        self._give(obs)
        return StepResult(1.0, False, self._at == EPISODE, None)

    def close(self) -> None:
        pass

    def _give(self, obs: Any) -> None:
        obs[""][...] = self._made[self._at % 8]
        self._counts[SIMULATOR] += PICTURE
        self._counts["produced"] += PICTURE


class Watch(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Bytes of pictures that torch's operations write, and that they read as floats."""

    def __init__(self, counts: Counter[str]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._counts = counts

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        del types
        answer = func(*args, **(kwargs or {}))
        if not func.is_view:
            name = func.overloadpacket.__name__
            given = [each for each in _flat(args) if _pictures(each)]
            if _pictures(answer) and name not in ("empty", "detach"):
                self._counts[LEARNER] += answer.numel()
            elif given and name in ("_to_copy", "copy_", "_foreach_copy_"):
                self._counts[FLOATS] += sum(each.numel() for each in given)
            elif given:  # nothing that is not known may pass for nothing
                self._counts[f"torch: {name}"] += sum(each.numel() for each in given)
        return answer


def _flat(args: Any) -> Iterator[Any]:
    for each in args:
        if isinstance(each, list | tuple):
            yield from _flat(each)
        else:
            yield each


def _pictures(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.dtype == torch.uint8 and value.dim() >= 3


@contextmanager
def counted(counts: Counter[str]) -> Iterator[None]:
    """numpy's `take` and `copyto` of pictures: the policy's side, and a segment's end."""
    take, copyto = np.take, np.copyto

    def takes(array: Any, *args: Any, **options: Any) -> Any:
        answer = take(array, *args, **options)
        if answer.dtype == np.uint8 and answer.ndim >= 3:
            counts[POLICY] += answer.nbytes
        return answer

    def copies(into: Any, value: Any, **options: Any) -> None:
        copyto(into, value, **options)
        if into.dtype == np.uint8 and into.ndim >= 3:
            counts[SEGMENT] += into.nbytes

    watched: Any = np
    watched.take, watched.copyto = takes, copies
    try:
        with Watch(counts):
            yield
    finally:
        watched.take, watched.copyto = take, copyto


def measure(transitions: int, *, in_place: bool, batch: int = BATCH) -> dict[str, float]:
    """Bytes by kind over bytes produced."""
    counts: Counter[str] = Counter()
    of = program(
        environments=ENVIRONMENTS,
        obs={"": Tensor("uint8", SHAPE)},
        action=ActionProgram(kind="discrete", dtype="int64", n=3),
        horizon=HORIZON,
        batch=batch,
    )
    policy = CNNPolicy(channels=(8, 16, 16), features=32)
    learner = PPO(horizon=HORIZON, batch=batch, epochs=EPOCHS, minibatch=batch // 4)
    options: dict[str, Any] = {"seed": 0, "device": "cpu"}
    assert of.training is not None
    of = msgspec.structs.replace(
        of, training=msgspec.structs.replace(of.training, epochs=EPOCHS, minibatch=batch // 4)
    )
    assert of.environment is not None
    assert of.training is not None
    acting: Any = policy.build(of.environment, **options)
    learning: Any = learner.build(
        policy, of.environment, of.training, total_updates=None, **options
    )
    if not in_place:
        acting.in_place = learning.network.in_place = frozenset()
    loops = Loops(
        of,
        environment=lambda: Pictures(counts),
        policy=acting,
        learner=learning,
        serve=ENVIRONMENTS // 2,
    )
    with counted(counts):
        loops.go(transitions // 4)
        counts.clear()
        loops.go(transitions)
    loops.close()
    produced = counts.pop("produced")
    return {kind: count / produced for kind, count in counts.items()}


def copied(found: dict[str, float]) -> float:
    return sum(ratio for kind, ratio in found.items() if kind != FLOATS)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--transitions", type=int, default=6400)
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    told: dict[str, Any] = {"machine": describe()}
    for name, in_place in (("CNNPolicy", True), ("a network that takes tensors", False)):
        found = measure(options.transitions, in_place=in_place)
        told[name] = {"copied": copied(found), **found}
        met = "" if not in_place else f"; at most {TARGET:g} is asked for"
        print(f"{name}: {copied(found):.2f} bytes copied for each byte produced{met}")
        for kind, ratio in sorted(found.items(), key=lambda row: (row[0] == FLOATS, -row[1])):
            print(f"  {ratio:6.2f}  {kind}")
    if options.output:
        options.output.write_text(json.dumps(told, indent=2) + "\n")


if __name__ == "__main__":
    main()
