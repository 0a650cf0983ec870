"""Where what was found out once is kept: $EBRL_CACHE, or $XDG_CACHE_HOME/ebrl, or ~/.cache/ebrl.

Invariant: an entry is written whole or not at all, and a cache that cannot be read or written costs
time, never a failure.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def cache_folder() -> Path:
    """The folder of all caches; it need not exist."""
    if own := os.environ.get("EBRL_CACHE"):
        return Path(own)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "ebrl"


def recall(kind: str, key: str) -> bytes | None:
    """The entry, or None."""
    try:
        return (cache_folder() / kind / key).read_bytes()
    except OSError:
        return None


def remember(kind: str, key: str, value: bytes) -> None:
    """Keep an entry; several processes may do so at once."""
    folder = cache_folder() / kind
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=folder, delete=False) as file:
            file.write(value)
        os.replace(file.name, folder / key)
    except OSError:
        return
