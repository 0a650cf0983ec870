"""The type of what flows along an edge: named tensors, each with a dtype and a per-item shape.

A `Spec` is a flat, ordered mapping from a path ("rgb", "agent/qpos", or "" for a bare tensor) to a
`Tensor`. Nesting is a way of writing it down, not a second representation, so comparing two specs
is comparing two mappings. A dimension may be a symbol, to be bound when specs meet along an edge.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import msgspec
import numpy as np

from ebrl.errors import GraphError
from ebrl.frontend.place import here, near

Dim = int | str
DTYPES = (
    *("bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64"),
    *("float16", "float32", "float64"),
)


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
    """Named tensors. `Spec("float32", (35,))` is a bare one, `Spec({"rgb": Spec(...)})` nests.

    A GraphError says what is wrong with a dtype, a dimension or a name.
    """

    __slots__ = ("_leaves",)

    def __init__(
        self,
        what: str | Mapping[str, Spec | Tensor | Mapping[str, object]],
        shape: tuple[Dim, ...] = (),
    ) -> None:
        if isinstance(what, str):
            self._leaves: dict[str, Tensor] = {"": Tensor(_dtype(what), _shape(shape))}
        elif isinstance(what, Mapping):
            self._leaves = dict(_flatten(what))
            if not self._leaves:
                raise _invalid("a spec without tensors", "name at least one")
        else:
            raise _invalid(
                f"a spec is a dtype name or a mapping, not {what!r}", 'Spec("float32", (3,))'
            )

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

    def under(self, name: str) -> Spec:
        """The same tensors, one level down: a bare tensor is then called `name`."""
        return Spec({name: self})

    def __or__(self, other: Spec) -> Spec:
        """Both together. Names may not meet."""
        assert not set(self) & set(other), f"{self} and {other} share a name"
        return Spec({**self._leaves, **other._leaves})

    def __str__(self) -> str:
        if set(self._leaves) == {""}:
            return str(self._leaves[""])
        return "{" + ", ".join(f"{path}: {tensor}" for path, tensor in self._leaves.items()) + "}"

    def __repr__(self) -> str:
        return f"Spec({self})"


def _invalid(message: str, hint: str) -> GraphError:
    return GraphError("spec-invalid", message, where=here(), hint=hint)


def _dtype(name: str) -> str:
    try:
        found = np.dtype(name).name
    except TypeError:
        found = ""
    if found not in DTYPES:
        raise _invalid(f"there is no dtype {name!r}", near(name, DTYPES))
    return found


def _shape(shape: object) -> tuple[Dim, ...]:
    if not isinstance(shape, (tuple, list)):
        raise _invalid(
            f"a shape is a tuple, not {shape!r}", f"({shape},) with a comma has one dimension"
        )
    for dim in shape:
        if isinstance(dim, str) and dim.isidentifier():
            continue
        if not isinstance(dim, (int, np.integer)) or isinstance(dim, bool) or dim < 1:
            raise _invalid(
                f"{dim!r} in the shape {tuple(shape)} is no dimension",
                "a dimension is a positive number, or a name to be bound; no batch dimension",
            )
    return tuple(dim if isinstance(dim, str) else int(dim) for dim in shape)


def _flatten(tree: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, Tensor]]:
    for name, value in tree.items():
        if not isinstance(name, str):
            raise _invalid(f"a tensor is named {name!r}", "a name is a string")
        path = f"{prefix}/{name}" if prefix else name
        if isinstance(value, Tensor):
            yield path, Tensor(_dtype(value.dtype), _shape(value.shape))
        elif isinstance(value, Spec):
            for inner, tensor in value.items():
                yield (f"{path}/{inner}" if path and inner else path or inner), tensor
        elif isinstance(value, Mapping):
            yield from _flatten(value, path)
        else:
            raise _invalid(
                f"{path}: a spec is made of specs, not of {value!r}", 'Spec("float32", (3,))'
            )
