"""Quantities as people read and write them: "64GB", "1.5 TiB", "200 Gbit/s"."""

from __future__ import annotations

import re

_DECIMAL = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "p": 10**15}
_BINARY = {"k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40, "p": 2**50}
_NUMBER = r"(?P<number>\d{1,15}(?:\.\d{1,9})?)"
_BYTES = re.compile(rf"{_NUMBER}\s*(?P<prefix>[kmgtp]?)(?P<binary>i?)b?", re.IGNORECASE)
_RATE = re.compile(
    rf"{_NUMBER}\s*(?P<prefix>[kmgt]?)(?P<binary>i?)(?P<unit>bit|b)(?:/s|ps)", re.IGNORECASE
)


def read_bytes(text: str) -> int | None:
    """Bytes of "64GB", "64GiB", "64G" or "64"; None where it is none of these, or zero."""
    match = _BYTES.fullmatch(text.strip())
    return None if match is None else round(_scaled(match)) or None


def read_bytes_per_s(text: str) -> float | None:
    """Bytes/s of "200Gbit/s" or "25GB/s"; None where it is neither, or zero."""
    match = _RATE.fullmatch(text.strip())
    if match is None:
        return None
    rate = _scaled(match)
    return (rate / 8 if match["unit"].lower() == "bit" else rate) or None


def three_digits(value: float) -> str:
    """A number with about three digits and no exponent: 1.25, 12.5, 1,250."""
    text = f"{value:.3g}"
    return f"{float(text):,.0f}" if "e" in text and abs(value) >= 1 else text


def write_bytes(value: float) -> str:
    """Bytes with three digits and the unit that suits them."""
    for factor, unit in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if value >= factor * 0.9995:
            return f"{value / factor:.3g} {unit}"
    return f"{value:.0f} B"


def _scaled(match: re.Match[str]) -> float:
    prefix, binary = match["prefix"].lower(), bool(match["binary"])
    if binary and not prefix:
        return 0.0
    return float(match["number"]) * (_BINARY[prefix] if binary else _DECIMAL[prefix])
