"""What is wrong with a stage by itself: its settings, its numbers, what it says of its work.

Settings are plain data (None, bool, int, float, str, lists and mappings of those), because they
make the stage's fingerprint, travel in the plan, and must mean the same in every process.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from ebrl.errors import Diagnostic
from ebrl.frontend.declaration import Declaration
from ebrl.frontend.passes.tokens import whole
from ebrl.frontend.place import near
from ebrl.frontend.program import Work

ENVIRONMENTS_LIMIT = 65_536  # when the user leaves the number to the planner


def plain(value: object) -> object:
    """As JSON reads it back: tuples become lists. Only of what `not_plain` finds nothing in."""
    if isinstance(value, Mapping):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    return value


def not_plain(value: object, path: str) -> Iterator[tuple[str, str]]:
    """Path and reason for everything in `value` that is not plain data."""
    if isinstance(value, float) and not math.isfinite(value):
        yield path, f"{value} cannot be written down; use None"
    elif type(value) in (bool, int, float, str, type(None)):
        return
    elif isinstance(value, Mapping):
        for key, each in value.items():
            if not isinstance(key, str):
                yield f"{path}[{key!r}]", "its key is no string"
            yield from not_plain(each, f"{path}[{key!r}]")
    elif isinstance(value, (list, tuple)):
        for number, each in enumerate(value):
            yield from not_plain(each, f"{path}[{number}]")
    else:
        yield path, f"it is a {type(value).__module__}.{type(value).__qualname__}"


def stage_faults(declaration: Declaration) -> Iterator[Diagnostic]:
    """Everything that is wrong with one declared stage alone."""
    stage = declaration.stage
    if stage is None:
        return

    def fault(code: str, message: str, hint: str) -> Diagnostic:
        return Diagnostic(
            code=code, message=f"{declaration.name}: {message}", where=declaration.where, hint=hint
        )

    try:
        settings, work, key = stage.settings(), stage.work(), stage.profile_key()
    except Exception as error:
        text = f"{type(stage).__name__} failed while it was asked: {type(error).__name__}: {error}"
        yield fault("stage-broken", text, "settings(), work() and profile_key() only compute")
        return
    for path, why in not_plain(settings, "settings"):
        name = path.removeprefix("settings")
        hint = "keep plain data in self.x, and what is built from it in self._x"
        yield fault("settings-not-plain", f"the setting {name} is not plain data: {why}", hint)
    if work is not None and not isinstance(work, Work):
        yield fault("stage-broken", f"work() returned {work!r}", "return a Work(…), or None")
    if not isinstance(key, str):
        yield fault("stage-broken", f"profile_key() returned {key!r}", "return a name")
    runs_on = stage.runs_on
    if not isinstance(runs_on, tuple) or not runs_on or set(runs_on) - {"cpu", "gpu"}:
        hint = '("cpu",), ("gpu",) or both; a tuple of one needs its comma'
        yield fault("stage-runs-on", f"runs_on = {runs_on!r}", hint)
    if declaration.kind == "simulate" and environments(declaration) is None:
        text = f"envs = {declaration.envs!r}"
        yield fault(
            "environments-invalid", text, "a positive number, or (lo, hi) with 1 <= lo <= hi"
        )
    if declaration.kind == "generate" and not whole(getattr(stage, "chunk", 1)):
        text = f"chunk = {getattr(stage, 'chunk', 1)!r}"
        yield fault("chunk-invalid", text, "the number of actions answered at once: 1 or more")
    if declaration.kind == "train":
        for message, hint in _learner(declaration):
            yield fault("learner-setting-invalid", message, hint)
        if not whole(staleness(declaration), 0):
            text = f"max_staleness = {declaration.max_staleness!r}"
            yield fault("staleness-invalid", text, "policy versions: 0 (synchronous), 1, 2, …")


def environments(declaration: Declaration) -> tuple[int, int] | None:
    """Least and most environments, or None where `envs` makes no sense."""
    envs = declaration.envs
    if envs is None:
        return 1, ENVIRONMENTS_LIMIT
    if isinstance(envs, int) and whole(envs):
        return envs, envs
    if isinstance(envs, (tuple, list)) and len(envs) == 2:
        low, high = envs
        if whole(low) and whole(high) and low <= high:
            return low, high
    return None


def staleness(declaration: Declaration) -> object:
    """What the learner allows, as stated, else 1."""
    return 1 if declaration.max_staleness is None else declaration.max_staleness


def _learner(declaration: Declaration) -> Iterator[tuple[str, str]]:
    """Message and hint for each number of a learner that is missing or makes no sense."""
    stage = declaration.stage
    for name, meaning in (
        ("horizon", "decisions in a segment"),
        ("batch", "environment steps an update"),
    ):
        value = getattr(stage, name, None)
        if value is None:
            close = near(name, vars(stage))
            hint = close if close.startswith("did you mean") else f"set self.{name} ({meaning})"
            yield f"a learner without {name}", hint
        elif not whole(value):
            yield f"{name} = {value!r}", f"{meaning}: a positive whole number"
    for name in ("epochs", "minibatch"):
        value = getattr(stage, name, None)
        if value is not None and not whole(value):
            yield f"{name} = {value!r}", "a positive whole number"
    batch, minibatch = getattr(stage, "batch", None), getattr(stage, "minibatch", None)
    if isinstance(batch, int) and whole(batch) and isinstance(minibatch, int) and minibatch > batch:
        yield f"minibatch = {minibatch} is more than batch = {batch}", f"at most {batch}"
