"""Building a registered Gymnasium environment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium

from ebrl.errors import GraphError


def make(id: str, max_episode_steps: int | None, kwargs: Mapping[str, object]) -> Any:
    """`gymnasium.make` without its checker: the adapter checks every step, and cheaper."""
    try:
        return gymnasium.make(
            id, max_episode_steps=max_episode_steps, disable_env_checker=True, **kwargs
        )
    except gymnasium.error.UnregisteredEnv as error:
        raise GraphError(
            "environment",
            f"Gymnasium knows no environment {id!r}: {error}",
            hint="gymnasium.pprint_registry() lists them; 'module:id' imports what registers it",
        ) from error
    except (gymnasium.error.Error, TypeError, ImportError) as error:
        raise GraphError(
            "environment",
            f"Gymnasium could not make {id!r}: {type(error).__name__}: {error}",
            hint="check the keywords given, and that the environment's own packages are installed",
        ) from error
