"""What the workers' clocks say: who was busy for how long, with how much.

Invariant: a clock belongs to a post, not to a process; it goes on when another worker takes over.
"""

from __future__ import annotations

from collections.abc import Sequence

from ebrl.runtime.posts import Post
from ebrl.runtime.slab import Slab


def by_stage(slab: Slab, posts: Sequence[Post], elapsed_s: float) -> dict[str, dict[str, float]]:
    """By stage: busy seconds, firings, items, mean batch and share of the time busy."""
    clock = slab["clock"]
    found: dict[str, dict[str, float]] = {}
    for post in posts:
        busy, firings, items = (float(value) for value in clock[post.boot.worker, :3])
        entry = found.setdefault(
            post.boot.stage, {"busy_s": 0.0, "firings": 0.0, "items": 0.0, "workers": 0.0}
        )
        entry["busy_s"] += busy / 1e9
        entry["firings"] += firings
        entry["items"] += items
        entry["workers"] += 1
    for entry in found.values():
        entry["busy"] = entry["busy_s"] / entry["workers"] / elapsed_s
        entry["batch"] = entry["items"] / max(entry["firings"], 1.0)
        entry["seconds"] = entry["busy_s"] / max(entry["firings"], 1.0)
    return found
