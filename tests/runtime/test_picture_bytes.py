"""A picture is copied into shared memory and hardly ever again."""

from __future__ import annotations

import torch

from benchmarks.picture_bytes import FLOATS, LEARNER, POLICY, copied, measure


def test_at_most_two_bytes_are_copied_for_each_byte_of_a_picture() -> None:
    torch.set_num_threads(1)
    found = measure(300, in_place=True, batch=100)
    assert copied(found) <= 1.1
    assert found[FLOATS] > 3  # it was acted and learned on, and the counters saw it
    gathered = measure(300, in_place=False, batch=100)
    assert gathered[POLICY] > 0.8
    assert gathered[LEARNER] > 3
