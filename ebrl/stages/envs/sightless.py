"""Building a scene that nobody sees without touching the renderer.

ManiSkill gives every object a `RenderMaterial` even with `render_backend="none"`, where visuals are
dropped right afterwards. SAPIEN then starts Vulkan for it: an error where there is no driver, 40 MB
and a second where there is one. Within `sightless()` a material is an inert stand-in.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import sapien


class Material:
    """Takes whatever a material is made of and set to; nothing reads it."""

    def __init__(self, *args: object, **settings: object) -> None:
        del args
        self.__dict__.update(settings)


@contextmanager
def sightless() -> Iterator[None]:
    """For scenes with `render_backend="none"` only."""
    modules = (sapien.render, sapien.pysapien.render)
    real = sapien.render.RenderMaterial
    for module in modules:
        module.RenderMaterial = Material
    try:
        yield
    finally:
        for module in modules:
            module.RenderMaterial = real
