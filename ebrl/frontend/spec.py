"""The type of what flows along an edge: named tensors, each with a dtype and a per-item shape.

A `Spec` is a flat, ordered mapping from a path ("rgb", "agent/qpos", or "" for a bare tensor) to a
`Tensor`. Nesting is a way of writing it down, not a second representation, so comparing two specs is
comparing two mappings. A dimension may be a symbol, to be bound when specs meet along an edge.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import msgspec
import numpy as np

Dim = int | str


class Tensor(msgspec.Struct, frozen=True):
    """One tensor of a spec: numpy dtype name and the shape of one item (no batch dimension)."""

    dtype: str
    shape: tuple[Dim, ...] = ()

    @property
    def concrete(self) -> bool:
        return all(isinstance(dim, int) for dim in self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of one item; only of a concrete tensor."""
        dims = [dim for dim in self.shape if isinstance(dim, int)]
        assert len(dims) == len(self.shape), f"{self} has unbound dimensions"
        return math.prod(dims) * np.dtype(self.dtype).itemsize

    def __str__(self) -> str:
        return f"{self.dtype}[{', '.join(str(dim) for dim in self.shape)}]"


class Spec(Mapping[str, Tensor]):
    """Named tensors. `Spec("float32", (35,))` is a bare tensor; `Spec({"rgb": Spec(...), ...})` nests."""

    __slots__ = ("_leaves",)

    def __init__(
        self,
        what: str | Mapping[str, Spec | Tensor | Mapping[str, object]],
        shape: tuple[Dim, ...] = (),
    ) -> None:
        if isinstance(what, str):
            self._leaves: dict[str, Tensor] = {"": Tensor(np.dtype(what).name, tuple(shape))}
        else:
            self._leaves = dict(_flatten(what))

    def __getitem__(self, path: str) -> Tensor:
        return self._leaves[path]

    def __iter__(self) -> Iterator[str]:
        return iter(self._leaves)

    def __len__(self) -> int:
        return len(self._leaves)

    def __hash__(self) -> int:
        return hash(tuple(sorted(self._leaves.items(), key=lambda item: item[0])))

    @property
    def nbytes(self) -> int:
        """Bytes of one item, over all tensors."""
        return sum(tensor.nbytes for tensor in self._leaves.values())

    @property
    def concrete(self) -> bool:
        return all(tensor.concrete for tensor in self._leaves.values())

    def __str__(self) -> str:
        if set(self._leaves) == {""}:
            return str(self._leaves[""])
        return "{" + ", ".join(f"{path}: {tensor}" for path, tensor in self._leaves.items()) + "}"

    def __repr__(self) -> str:
        return f"Spec({self})"


def _flatten(tree: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, Tensor]]:
    for name, value in tree.items():
        path = f"{prefix}/{name}" if prefix else name
        if isinstance(value, Tensor):
            yield path, value
        elif isinstance(value, Spec):
            for inner, tensor in value.items():
                yield (f"{path}/{inner}" if inner else path), tensor
        elif isinstance(value, Mapping):
            yield from _flatten(value, path)
        else:
            raise TypeError(f"{path}: a spec is made of specs, not of {type(value).__name__}")
