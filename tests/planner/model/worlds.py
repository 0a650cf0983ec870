"""Small random planning problems, as spaces of options."""

from __future__ import annotations

import random

from ebrl.planner.hardware import NodeClass
from ebrl.planner.model.demand import demands
from ebrl.planner.model.learning import Mode
from ebrl.planner.model.options import Option
from ebrl.planner.model.space import ClassSpace, Space
from tests.planner.model.cases import GB, device, pipeline

STAGES = ("simulate", "generate", "train")


def space(seed: int, *, devices: int | None = None, options: int = 4) -> Space:
    """One node with at most three devices of four SMs; three stages of at most four options."""
    chance = random.Random(seed)
    count = devices or chance.randint(1, 3)
    kind = device(sms=4, memory=10 * GB)
    batch = 64
    most = chance.choice([8, 16, 1000])
    wanted = demands(pipeline(batch=batch, envs=(1, most)))
    overhead = chance.choice([0.0, 0.05])
    on_device: list[Option] = []
    for stage in STAGES:
        base = chance.uniform(0.01, 0.2)
        seen = set()
        for _ in range(chance.randint(1, options)):
            sms, size = chance.choice([1, 2, 3, 4, 4]), chance.choice([1, 2, 4])
            if (sms, size) in seen:
                continue
            seen.add((sms, size))
            size = batch // size if stage == "train" else size
            on_device.append(
                Option(
                    stage=stage,
                    device="dev",
                    sms=sms,
                    cores=1.0,
                    batch=size,
                    seconds=base * (0.3 + size / min(sms, chance.randint(1, 4))),
                    memory_bytes=chance.choice([1, 3, 5]) * GB,
                    ram_bytes=0,
                    source="measured",
                    resident=2 * size if stage == "simulate" else 0,
                )
            )
    return Space(
        demands=wanted,
        classes=(
            ClassSpace(
                node=NodeClass(
                    name="devx", count=1, cores=64, ram_bytes=64 * GB, device=kind, devices=count
                ),
                on_cores=(),
                on_device=tuple(on_device),
            ),
        ),
        mode=Mode(
            hardware="gpu", span="node", shards=1, ranks=count, overhead_s=overhead, batch=batch
        ),
        schedule="asynchronous",
        environments=(1, most),
        groups=2,
        in_flight=chance.choice([4.0, 1000.0]),
    )
