"""Stacked horizontal bars as data; the template draws them in percent of the width it has.

Invariant: the segments of a bar are never wider than its scale, whatever rounding did to them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from ebrl.planner.plan import Plan

LETTER, AROUND = 7.4, 8.0  # pixels of a label, on the safe side
LEAST, NARROW = 525.0, 330.0  # pixels of a bar: on a screen at its smallest, on a phone or on paper


class Segment(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a bar: where it begins and how wide it is, in percent of the bar's room."""

    name: str
    value: str  # what it stands for, in words
    colour: str
    start: float
    width: float
    short: str  # the same, shorter
    label: str  # what fits into it; perhaps nothing
    tight: bool  # the label does not fit on a phone


class Bar(msgspec.Struct, frozen=True, kw_only=True):
    """One bar. `mark` is a tick, in percent, with what it says."""

    name: str
    segments: tuple[Segment, ...]
    total: str = ""
    note: str = ""
    mark: float | None = None
    mark_says: str = ""

    @property
    def detail(self) -> str:
        """All values, for where one of the parts has no room for its own."""
        return " · ".join(f"{each.name} {each.short}" for each in self.segments)

    @property
    def needs_detail(self) -> bool:
        return any(each.short not in each.label for each in self.segments)

    @property
    def tight(self) -> bool:
        return any(each.tight for each in self.segments)

    @property
    def says(self) -> str:
        """The bar in words, for those who do not see it."""
        parts = [f"{each.name} {each.value}" for each in self.segments]
        return f"{self.name}: " + ", ".join([*parts, *filter(None, [self.mark_says])])


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """What a segment is made of."""

    name: str
    amount: float
    value: str
    colour: str
    short: str = ""  # the value, where there is little room


def bar(
    name: str,
    parts: Sequence[Part],
    scale: float,
    *,
    total: str = "",
    note: str = "",
    mark: float | None = None,
    mark_says: str = "",
) -> Bar:
    """Parts side by side, `scale` being the whole width."""
    whole = max(scale, sum(part.amount for part in parts), 1e-300)
    segments, at = [], 0.0
    for part in parts:
        width = 100 * part.amount / whole
        if width > 0:
            label = _label(part, width)
            segments.append(
                Segment(
                    name=part.name,
                    value=part.value,
                    short=part.short or part.value,
                    colour=part.colour,
                    start=round(at, 3),
                    width=round(min(width, 100 - at), 3),
                    label=label,
                    tight=not _fits(label, width, NARROW),
                )
            )
        at += width
    return Bar(
        name=name,
        segments=tuple(segments),
        total=total,
        note=note,
        mark=None if mark is None else round(min(100 * mark / whole, 100), 3),
        mark_says=mark_says,
    )


def _label(part: Part, width: float) -> str:
    """The longest of the texts that has room."""
    texts = [f"{part.name} {part.short or part.value}", part.name]
    return next((text for text in texts if _fits(text, width, LEAST)), "")


def _fits(text: str, width: float, pixels: float) -> bool:
    """Does a label fit into `width` percent of a bar?"""
    return not text or len(text) * LETTER + AROUND <= width / 100 * pixels


def colours(plan: Plan) -> Mapping[str, str]:
    """The colour of each stage: that of its kind for the first of a kind, others in turn."""
    found: dict[str, str] = {}
    others = 0
    for stage in plan.stages:
        if stage.kind in ("simulate", "generate", "train") and stage.kind not in found.values():
            found[stage.name] = stage.kind
        else:
            found[stage.name] = f"other-{others % 3 + 1}"
            others += 1
    return found
