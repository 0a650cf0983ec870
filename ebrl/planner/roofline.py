"""An analytic stage time where nothing was measured; whatever comes from here is `estimated`.

On a device, with b items in the batch and s of the S multiprocessors (Williams, Waterman and
Patterson, "Roofline", 2009, with a fixed cost added):

    t(b, s) = t0 + max( (flops/F + fp32_flops/F32)·b / (s/S · MFU),
                        (weights·reads + activations·b) / (B · e · min(1, s / (σ·S))),
                        core_seconds·b / cores )

F is the dense 16-bit rate, F32 the 32-bit one, B the memory bandwidth. On cores alone, c of them:

    t(b, c) = t0 / min(1, c) + core_seconds·b / min(c, b) + (flops + fp32_flops)·b / (c · R)

Invariants: t grows with b and falls with s or c, and throughput b/t is concave in s.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ebrl.frontend.program import Work
from ebrl.planner.hardware import DeviceKind
from ebrl.planner.profile import CPU, Point

# What a well-made model reaches of a device's dense rate: Megatron-LM 44 to 52 % (Narayanan et al.,
# 2021), PaLM 46 % (Chowdhery et al., 2022), both in training.
FLOPS_REACHED = 0.45
# STREAM-like copies reach 80 to 90 % of the specified bandwidth.
BANDWIDTH_REACHED = 0.8
# Assumed: half the multiprocessors are enough to keep the memory busy.
BANDWIDTH_SATURATION = 0.5
# Assumed: one core, 32-bit, with vector units: a third of 32 FLOP a cycle at 3 GHz.
CORE_FLOPS = 3.2e10


def seconds(
    work: Work,
    device: DeviceKind | None,
    quota: ArrayLike,
    batch: ArrayLike,
    cores: ArrayLike = 1.0,
) -> NDArray[np.float64]:
    """Time of one batch; `quota` is SMs on a device, cores where `device` is None. Broadcasts.

    `cores` is what the host side of a stage on a device has; without a device it is not used.
    """
    q = np.asarray(quota, dtype=np.float64)
    b = np.asarray(batch, dtype=np.float64)
    if device is None:
        spread = work.core_seconds * b / np.minimum(q, b)
        arithmetic = (work.flops + work.fp32_flops) * b / (q * CORE_FLOPS)
        return np.asarray(work.kernel_s / np.minimum(1.0, q) + spread + arithmetic)
    share = np.minimum(q, device.sms) / device.sms
    per_item = work.flops / device.bf16_flops + work.fp32_flops / device.fp32_flops
    compute = per_item * b / (share * FLOPS_REACHED)
    bandwidth = device.memory_bytes_per_s * BANDWIDTH_REACHED
    moved = work.weight_bytes * work.weight_reads + work.activation_bytes * b
    memory_s = moved / (bandwidth * np.minimum(1.0, share / BANDWIDTH_SATURATION))
    host = work.core_seconds * b / np.asarray(cores, dtype=np.float64)
    return np.asarray(work.kernel_s + np.maximum(np.maximum(compute, memory_s), host))


def memory(work: Work, device: DeviceKind | None, batch: ArrayLike) -> NDArray[np.int64]:
    """Resident bytes of one replica at that batch, on its device (or in RAM, on cores)."""
    once = work.weight_bytes + work.state_bytes + work.scratch_bytes
    if device is None:
        once += work.ram_bytes
    b = np.asarray(batch, dtype=np.float64)
    return np.ceil(once + work.activation_bytes * b).astype(np.int64)


def points(
    stage: str,
    work: Work,
    device: DeviceKind | None,
    batches: tuple[int, ...],
    quotas: tuple[float, ...] | None = None,
    cores: float = 1.0,
) -> tuple[Point, ...]:
    """Estimated points over a grid: every SM quota of the device by default, or these cores."""
    if quotas is None:
        quotas = (1.0,) if device is None else tuple(float(each) for each in device.quotas())
    q, b = np.meshgrid(np.array(quotas), np.array(batches), indexing="ij")
    t, resident = seconds(work, device, q, b, cores), memory(work, device, b)
    return tuple(
        Point(
            stage=stage,
            device=CPU if device is None else device.name,
            sms=0 if device is None else int(quota),
            cores=float(quota) if device is None else cores,
            batch=batch,
            median_s=float(t[i, j]),
            p95_s=float(t[i, j]),
            bytes=int(resident[i, j]),
            ram_bytes=0 if device is None else int(work.ram_bytes),
            source="estimated",
            origin=f"roofline: {work.note}" if work.note else "roofline",
        )
        for i, quota in enumerate(quotas)
        for j, batch in enumerate(batches)
    )
