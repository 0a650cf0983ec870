"""Numbers as a reader takes them in: few digits, a unit, and the error against a prediction.

Invariant: every number of the page is written by these functions, so that text, tables and pictures
never disagree about one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from ebrl.planner.telling.table import seconds as time

__all__ = (
    "Error",
    "count",
    "duration",
    "error",
    "exact_bytes",
    "gap",
    "join",
    "number",
    "percent",
    "plural",
    "size",
    "time",
)

CLOSE, NEAR = 0.10, 0.25  # of a prediction: as good as it gets, and still useful
MINUS, SPACE = "\u2212", "\u00a0"


class Error(msgspec.Struct, frozen=True, kw_only=True):
    """How far a measurement is from what was predicted."""

    text: str  # "+3 %"
    tone: str  # "good", "fair" or "poor"


def number(value: float) -> str:
    """Three digits or so: 0.0123, 4.5, 78.9, 1,234."""
    if not math.isfinite(value):
        return "not a number" if math.isnan(value) else "∞"
    size_of = abs(value)
    if size_of >= 100:
        text = f"{size_of:,.0f}"
    elif size_of >= 10:
        text = f"{size_of:.1f}".removesuffix(".0")
    elif size_of >= 1 or value == 0:
        text = f"{size_of:.2f}".rstrip("0").rstrip(".")
    else:
        text = f"{size_of:.3g}"
    return MINUS + text if value < 0 else text


def count(value: float) -> str:
    """A whole number with separators, or what a share of one comes to: 12, 1,024, 0.76."""
    return f"{value:,.0f}" if float(value).is_integer() else number(value)


def percent(value: float, digits: int = 0) -> str:
    """0.914 → "91 %"."""
    return f"{100 * value:.{digits}f}{SPACE}%"


def gap(value: float) -> str:
    """A gap to a bound: 0 %, or enough digits to see that it is not."""
    if value < 5e-7:
        return f"0{SPACE}%"
    return f"{100 * value:.2g}{SPACE}%" if value < 0.1 else percent(value)


def error(measured: float, predicted: float) -> Error | None:
    """The measurement against the prediction; None where nothing was predicted."""
    if predicted <= 0 or not math.isfinite(measured):
        return None
    off = measured / predicted - 1
    tone = "good" if abs(off) <= CLOSE else "fair" if abs(off) <= NEAR else "poor"
    if off >= 9.995:
        return Error(text=f"{measured / predicted:,.0f}×", tone=tone)
    rounded = round(100 * off)
    sign = "+" if rounded > 0 else MINUS if rounded < 0 else "±"
    return Error(text=f"{sign}{abs(rounded)}{SPACE}%", tone=tone)


def duration(value: float) -> str:
    """Time of a run: 9.3 s, 274 s, 12 min 30 s, 3 h 12 min."""
    if value < 600:
        return f"{value:.3g} s" if value < 10 else f"{value:.0f} s"
    minutes, rest = divmod(round(value), 60)
    if minutes < 180:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


def size(value: float) -> str:
    """Bytes with three digits: 512 B, 53.5 kB, 2.06 TB."""
    for factor, unit in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if value >= 0.9995 * factor:
            return f"{number(value / factor)} {unit}"
    return f"{value:.0f} B"


def exact_bytes(value: int) -> str:
    """To the byte, with what it comes to: "53,512 B (53.5 kB)"."""
    return f"{value:,} B" + (f" ({size(value)})" if value >= 1000 else "")


def join(parts: Sequence[str]) -> str:
    """a, b and c."""
    return " and ".join([*filter(None, [", ".join(parts[:-1])]), *parts[-1:]])


def plural(value: float, word: str) -> str:
    """1 replica, 3 replicas."""
    return f"{count(value)} {word}{'' if value == 1 else 's'}"
