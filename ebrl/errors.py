"""What a user is told when something is wrong: what, where, why and what to do.

Every fault that a user can cause is an `EbrlError`; the command line prints it without a traceback
and exits with `exit_code`. An `assert` elsewhere means a mistake of our own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import msgspec


class Diagnostic(msgspec.Struct, frozen=True, kw_only=True):
    """One fault: a stable code, the message, the place (`file:line`, or in a file) and a hint."""

    code: str
    message: str
    where: str = ""
    hint: str = ""

    def __str__(self) -> str:
        place = f"{self.where}: " if self.where else ""
        hint = f"\n  hint: {self.hint}" if self.hint else ""
        return f"{place}{self.code}: {self.message}{hint}"


class EbrlError(Exception):
    """A fault of the user's, with its diagnostics (at least one)."""

    exit_code: ClassVar[int] = 1

    def __init__(self, code: str, message: str, *, where: str = "", hint: str = "") -> None:
        self.diagnostics: tuple[Diagnostic, ...] = (
            Diagnostic(code=code, message=message, where=where, hint=hint),
        )
        super().__init__(str(self.diagnostics[0]))

    @classmethod
    def of(cls, diagnostics: Sequence[Diagnostic]) -> EbrlError:
        """One error that carries several diagnostics, in the order given."""
        if not diagnostics:
            raise ValueError("an error needs at least one diagnostic")
        first = diagnostics[0]
        error = cls(first.code, first.message, where=first.where, hint=first.hint)
        error.diagnostics = tuple(diagnostics)
        error.args = ("\n".join(str(each) for each in diagnostics),)
        return error

    @property
    def code(self) -> str:
        return self.diagnostics[0].code


class GraphError(EbrlError):
    """The graph, or the file that declares it, is wrong."""


class PlanError(EbrlError):
    """A cluster, profile, pin or plan is wrong or cannot be read."""


class InfeasibleError(PlanError):
    """Everything is well-formed, but no plan fits the hardware."""

    exit_code: ClassVar[int] = 3


class RunError(EbrlError):
    """The run could not start, or ended before its work was done."""


class DivergedError(RunError):
    """An update made something of the learner non-finite; a run bears a few of them, left out."""
