"""Which worker has grown so large that it must be replaced, before the machine has no memory left.

Invariant: a limit that the user has set holds for every worker; without one only a machine (or its
control group) that is nearly full is a reason, and then the worker that grew most since it was
ready, if it grew at all.
"""

from __future__ import annotations

from collections.abc import Sequence

from ebrl.runtime.posts import Post

GROWN_BYTES = 200 << 20
LOW_MEMORY = 0.05  # part that is free


def too_large(posts: Sequence[Post], limit: int | None, free: float) -> list[tuple[Post, str]]:
    """Running posts to replace, with what they did. `free`: part of the memory that is free."""
    sizes = [(post, post.child.resident_bytes()) for post in posts if post.child is not None]
    if limit is not None:
        return [
            (post, f"{_grew(post, size)}, more than the {_mb(limit)} that it may have")
            for post, size in sizes
            if size > limit
        ]
    if free >= LOW_MEMORY or not sizes:
        return []
    post, size = max(sizes, key=lambda each: each[1] - each[0].resident_at_ready)
    if size - post.resident_at_ready < GROWN_BYTES:
        return []
    return [(post, f"{_grew(post, size)}, and the machine has no memory left")]


def _grew(post: Post, size: int) -> str:
    return f"grew from {_mb(post.resident_at_ready)} to {_mb(size)} of memory of its own"


def _mb(size: int) -> str:
    return f"{size / 1e6:,.0f} MB"
