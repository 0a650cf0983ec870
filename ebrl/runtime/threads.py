"""How many threads torch may start in this process.

Invariant: as many as the plan says, in every role; left alone, each process would start one a core.
"""

from __future__ import annotations

import sys


def set_threads(count: int) -> None:
    import torch

    torch.set_num_threads(count)


def single_thread() -> None:
    """A simulator that brought torch along must not start a thread a core beside the others."""
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.set_num_threads(1)
