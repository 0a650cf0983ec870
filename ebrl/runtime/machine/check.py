"""One finding about the machine. A gap that matters to someone always comes with its fix."""

from __future__ import annotations

import msgspec


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """`required` says whether nothing runs here without it, or only some plans need it."""

    name: str
    ok: bool
    detail: str
    fix: str = ""
    required: bool = False

    def __post_init__(self) -> None:
        assert self.ok or self.fix, f"{self.name}: a gap needs a fix"
