"""Numbers in a row, each as near to a wish as the least distances between them allow."""

from __future__ import annotations

import itertools
from collections.abc import Sequence


def spread(wanted: Sequence[float], weights: Sequence[float], gaps: Sequence[float]) -> list[float]:
    """Minimise `Σ weight · (x − wanted)²` with `x[i] ≥ x[i − 1] + gaps[i]` for i > 0.

    Isotonic regression by pooling adjacent violators, exact (Barlow et al., 1972).
    """
    shift = list(itertools.accumulate(gaps, initial=-gaps[0]))[1:] if gaps else []
    pools: list[tuple[float, float, int]] = []  # mean, weight, members
    for wish, weight, offset in zip(wanted, weights, shift, strict=True):
        mean, total, count = wish - offset, weight, 1
        while pools and pools[-1][0] > mean:
            before, heavy, members = pools.pop()
            mean = (mean * total + before * heavy) / (total + heavy)
            total, count = total + heavy, count + members
        pools.append((mean, total, count))
    means = itertools.chain.from_iterable([mean] * count for mean, _, count in pools)
    return [mean + offset for mean, offset in zip(means, shift, strict=True)]
