"""What a stage is: a declaration with typed, rated ports. It does no work and imports nothing
heavy.

Invariant: declaring, checking and planning a graph never builds a stage; only a worker process
calls the `build`/`make` methods that the kinds (`ebrl.stages.base`) add.
"""

from __future__ import annotations

import hashlib
import json
from fractions import Fraction
from typing import ClassVar, Literal

from ebrl.errors import Diagnostic
from ebrl.frontend.place import here
from ebrl.frontend.program import Hardware, Work
from ebrl.frontend.spec import Spec, Tensor


class Port:
    """A typed port of a stage class. `spec=None` is decided by the stage it is connected to.

    `rate` is the number of tokens per firing of the stage.
    """

    direction: ClassVar[Literal["in", "out"]]

    def __init__(
        self, spec: Spec | Tensor | None = None, *, rate: int | Fraction = 1, doc: str = ""
    ) -> None:
        self.faults: list[Diagnostic] = []  # for `check` to report, so that all come out at once
        self.spec: Spec | None = None
        if isinstance(spec, Tensor):
            self.spec = Spec({"": spec})
        elif isinstance(spec, Spec):
            self.spec = spec
        elif spec is not None:
            self._fault(
                "port-spec", f"a port has a Spec, not {spec!r}", 'ebrl.Spec("float32", (3,))'
            )
        self.rate = Fraction(1)
        if isinstance(rate, (int, Fraction)) and not isinstance(rate, bool) and rate > 0:
            self.rate = Fraction(rate)
        else:
            hint = "tokens per firing of the stage: a positive int, or a fractions.Fraction"
            self._fault("port-rate", f"a port has the rate {rate!r}", hint)
        self.doc = doc

    def _fault(self, code: str, message: str, hint: str) -> None:
        self.faults.append(Diagnostic(code=code, message=message, where=here(), hint=hint))


class In(Port):
    """An input. `latest=True`: a firing reads the newest token and consumes none (weights)."""

    direction = "in"

    def __init__(
        self,
        spec: Spec | Tensor | None = None,
        *,
        rate: int | Fraction = 1,
        latest: bool = False,
        optional: bool = False,
        doc: str = "",
    ) -> None:
        super().__init__(spec, rate=rate, doc=doc)
        self.latest = latest
        self.optional = optional


class Out(Port):
    """An output."""

    direction = "out"


class Stage:
    """A stage of any kind: subclass, set `kind`, and declare ports as class attributes.

        class RewardModel(ebrl.Stage):
            kind = "reward"
            frames = ebrl.In(ebrl.Spec("uint8", (128, 128, 3)), rate=16)
            score = ebrl.Out(ebrl.Spec("float32"))

    Instance attributes whose names do not begin with "_" are its settings: they must be plain data,
    and they make its fingerprint.
    """

    kind: ClassVar[str] = "stage"
    runs_on: ClassVar[tuple[Hardware, ...]] = ("cpu",)
    spans_devices: ClassVar[bool] = False

    def ports(self) -> dict[str, Port]:
        """Ports by name, as declared; a subclass may compute them from its settings."""
        found: dict[str, Port] = {}
        for cls in reversed(type(self).__mro__):
            found.update((name, port) for name, port in vars(cls).items() if isinstance(port, Port))
        return found

    def settings(self) -> dict[str, object]:
        """Plain data that decides what the stage does."""
        return {name: value for name, value in vars(self).items() if not name.startswith("_")}

    def work(self) -> Work | None:
        """Cost of one firing by arithmetic, or None where it must be measured."""
        return None

    def accepts(self, port: str, spec: Spec) -> str | None:
        """Why this stage cannot take `spec` at its input `port`, in words; None when it can."""
        del port, spec
        return None

    def profile_key(self) -> str:
        """Name under which a profile knows this stage; "" for the stage's name in the graph."""
        return ""

    def fingerprint(self) -> str:
        """sha256 over type and settings."""
        body = json.dumps([dotted_name(type(self)), self.settings()], sort_keys=True, default=str)
        return hashlib.sha256(body.encode()).hexdigest()


MODULE_PREFIX = "ebrl_graph_"  # of the modules that hold users' graph files, see `load`


def dotted_name(cls: type) -> str:
    """Module and name; a class of a graph file is named by the file, wherever that lies."""
    module = cls.__module__
    if module.startswith(MODULE_PREFIX):
        module = module.removeprefix(MODULE_PREFIX).rpartition("_")[0]
    return f"{module}.{cls.__qualname__}"
