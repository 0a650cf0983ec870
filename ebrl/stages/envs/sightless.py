"""Building a scene that nobody sees without touching the renderer.

ManiSkill gives every object a `RenderMaterial` even with `render_backend="none"`, where visuals are
dropped right afterwards. SAPIEN then starts Vulkan for it: an error where there is no driver, 40 MB
and a second where there is one. Within `sightless()` a material is an inert stand-in, under every
name that a module of SAPIEN or ManiSkill knows the class by.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from types import ModuleType

import sapien

LIBRARIES = ("sapien", "mani_skill")
_real = sapien.render.RenderMaterial


class _Kind(type):
    """A material made before, by the library, is one too."""

    def __instancecheck__(cls, instance: object) -> bool:
        return type.__instancecheck__(cls, instance) or isinstance(instance, _real)


class Material(metaclass=_Kind):
    """Takes whatever a material is made of and set to; nothing reads it."""

    def __init__(self, *args: object, **settings: object) -> None:
        del args
        self.__dict__.update(settings)

    def __getattr__(self, name: str) -> Callable[..., None]:
        if name.startswith("set_"):
            return _nothing
        raise AttributeError(f"a material that nobody sees has no {name!r}")


def _nothing(*_: object) -> None:
    """What a setter does."""


@contextmanager
def sightless() -> Iterator[None]:
    """For scenes with `render_backend="none"` only."""
    modules = _who_knows_it(len(sys.modules))
    for module in modules:
        module.RenderMaterial = Material  # type: ignore[attr-defined]
    try:
        yield
    finally:
        for module in modules:
            module.RenderMaterial = _real  # type: ignore[attr-defined]


@lru_cache(maxsize=1)
def _who_knows_it(_count: int) -> tuple[ModuleType, ...]:
    """Looked for again only where something was imported (`_count` modules): every reset asks."""
    return tuple(
        module
        for name, module in list(sys.modules.items())
        if name.split(".")[0] in LIBRARIES and vars(module).get("RenderMaterial") is _real
    )
