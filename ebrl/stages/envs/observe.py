"""Copying an observation into the slab, checked on the way.

A writer is built once for an environment's spec; what it does per step is a dtype and shape
comparison, one copy, and one sum, which is finite only if every number is (where it is not, the
exact test decides). That is a microsecond for a small vector.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import isfinite
from typing import Any

import numpy as np

from ebrl.frontend.spec import Spec, Tensor
from ebrl.stages.protocols import Array

FEW = 64  # numbers that Python adds faster than numpy begins to
Writer = Callable[[Any, Mapping[str, Array]], None]


class RefusedError(ValueError):
    """An observation that must not pass; the message says what is wrong with it."""


def writer(spec: Spec, *, batched: bool, cast: str | None) -> Writer:
    """A function that writes one observation of `spec` (as the environment declares it) into views.

    `batched`: the environment's arrays have a leading axis of one. `cast`: floating observations
    may go into views of this dtype; otherwise the views have the dtype of the spec.
    """
    if set(spec) == {""}:
        return _leaf("", spec[""], batched=batched, cast=cast)

    leaves = [
        (path.split("/"), _leaf(path, tensor, batched=batched, cast=cast))
        for path, tensor in spec.items()
    ]

    def nested(value: Any, views: Mapping[str, Array]) -> None:
        for keys, write in leaves:
            found = value
            try:
                for key in keys:
                    found = found[int(key)] if isinstance(found, tuple) else found[key]
            except (KeyError, IndexError, TypeError) as error:
                raise RefusedError(f"the observation has no {'/'.join(keys)!r}") from error
            write(found, views)

    return nested


def _leaf(path: str, tensor: Tensor, *, batched: bool, cast: str | None) -> Writer:
    dtype = np.dtype(tensor.dtype)
    shape = (1, *tensor.shape) if batched else tensor.shape
    floating = np.issubdtype(dtype, np.floating)
    ndarray = np.ndarray
    few = len(tensor.shape) == 1 and int(tensor.shape[0]) <= FEW

    def write(value: Any, views: Mapping[str, Array]) -> None:
        if type(value) is not ndarray:
            value = _array(value)
        if value.dtype is not dtype and value.dtype != dtype:
            raise RefusedError(
                f"{_named(path)}dtype {value.dtype}, but the space says {dtype}"
                + (f" (and cast={cast!r} covers the space's dtype only)" if cast else "")
            )
        if value.shape != shape:
            raise RefusedError(f"{_named(path)}shape {value.shape}, but the space says {shape}")
        if batched:
            value = value[0]
        if floating:
            total = sum(value.tolist()) if few else squares(value.ravel())
            if not isfinite(total) and not np.isfinite(value).all():
                where = np.argwhere(~np.isfinite(value))[0].tolist()
                raise RefusedError(f"{_named(path)}{value[tuple(where)]} at index {where}")
        views[path][...] = value

    return write


def _array(value: Any) -> Array:
    """numpy of a torch tensor or a number; torch is not imported for it."""
    convert = getattr(value, "numpy", None)
    if convert is not None:
        return np.asarray(convert() if value.device.type == "cpu" else value.cpu().numpy())
    if isinstance(value, np.generic | np.ndarray | int | float | bool):
        return np.asarray(value)
    raise RefusedError(f"a {type(value).__name__}, not an array")


def _named(path: str) -> str:
    return f"{path}: " if path else ""


def squares(line: Array) -> float:
    return float(line.dot(line))
