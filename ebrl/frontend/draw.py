"""A checked graph as text: a listing for the terminal, or dot for Graphviz.

The words that all drawings share (how a spec, a rate or a bound is written) are here too, so that
text, dot and svg never say different things.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from ebrl.frontend.program import EdgeProgram, Program, StageProgram
from ebrl.frontend.rates import smallest
from ebrl.frontend.spec import Tensor


def spec_lines(spec: Mapping[str, Tensor], most: int = 4) -> list[str]:
    """A spec, one tensor a line, `most` lines; a scalar without brackets."""
    lines = [
        f"{path}: {_tensor(tensor)}" if path else _tensor(tensor) for path, tensor in spec.items()
    ]
    if len(lines) <= most:
        return lines or ["parameters"]
    return [*lines[: most - 1], f"and {len(lines) - most + 1} more tensors"]


def _tensor(tensor: Tensor) -> str:
    return str(tensor).removesuffix("[]")


def rate_text(edge: EdgeProgram) -> tuple[str, str]:
    """Tokens given and taken in a firing, at the two ends of the edge."""
    consume = "newest" if edge.keep == "latest" else edge.consume
    return grouped(edge.produce), grouped(consume)


def policy_text(edge: EdgeProgram) -> str:
    """What is special about an edge: how stale, how often reused, converted, primed, bounded."""
    parts = []
    if edge.max_staleness is not None and edge.keep != "latest":
        parts.append(stale_text(edge.max_staleness))
    if edge.keep == "latest":
        parts.append("newest wins")
    if edge.reuse > 1:
        parts.append(f"used {edge.reuse}×")
    if edge.cast:
        parts.append("cast")
    if edge.capacity is not None and edge.keep != "latest":
        parts.append(f"holds {number_text(edge.capacity)}")
    return " · ".join(parts)


def stale_text(versions: int) -> str:
    """A staleness bound in words."""
    return f"≤ {versions} version{'s' * (versions != 1)} old" if versions else "never stale"


def number_text(number: int) -> str:
    """With thin separators from five digits on."""
    return f"{number:,}".replace(",", "\u202f") if number >= 10_000 else str(number)


def grouped(number: str) -> str:
    """A rate as it is written in a program ("1/65536"), with separators."""
    return "/".join(
        number_text(int(each)) if each.isdigit() else each for each in number.split("/")
    )


def stage_type(stage: StageProgram) -> str:
    return stage.type.rpartition(".")[2]


def summary(program: Program) -> str:
    """The whole in one line."""
    parts = []
    if program.environment is not None:
        low, high = program.environment.min_count, program.environment.max_count
        count = number_text(low) if low == high else f"{number_text(low)} to {number_text(high)}"
        parts.append(f"{count} environments")
    if program.training is not None:
        training = program.training
        parts.append(f"{number_text(training.batch)} environment steps an update")
        parts.append(f"segments of {training.horizon}")
        parts.append(f"training data {stale_text(training.max_staleness)}")
    return " · ".join(parts)


def as_text(program: Program) -> str:
    """Stage by stage, what each gives and to whom."""
    firings = smallest({each.name: Fraction(each.rate) for each in program.stages})
    wide = max((len(edge.source.partition(".")[2]) for edge in program.edges), default=0)
    far = max((len(edge.target) for edge in program.edges), default=0)
    ratio = max((len(" → ".join(rate_text(edge))) for edge in program.edges), default=0)
    typed = max((len(line) for edge in program.edges for line in spec_lines(edge.spec)), default=0)
    lines = [program.name, summary(program), ""]
    for stage in program.stages:
        kind = "" if stage.kind == stage.name else f" · {stage.kind}"
        times = f"{number_text(firings[stage.name])} of each iteration"
        lines.append(
            f"{stage.name}  {stage_type(stage)}{kind} · {grouped(stage.rate)} a step · {times}"
        )
        for edge in program.edges:
            source, _, port = edge.source.partition(".")
            if source != stage.name:
                continue
            first, *rest = spec_lines(edge.spec)
            rates = " → ".join(rate_text(edge))
            head = f"  {port:<{wide}} ─▶ {edge.target:<{far}}  {rates:>{ratio}}  "
            primed = edge.initial > 0 and edge.keep != "latest"
            held = [f"{number_text(edge.initial)} at the start"] * primed
            rest_of_it = " · ".join([*held, *filter(None, [policy_text(edge)])])
            lines.append(f"{head}{first:<{typed}}  {rest_of_it}".rstrip())
            lines += [" " * len(head) + line for line in rest]
        lines.append("")
    return "\n".join(lines)


def as_dot(program: Program) -> str:
    """For Graphviz: `dot -Tpdf`."""
    lines = [
        f"digraph {_quoted(program.name)} {{",
        "  rankdir=LR; nodesep=0.6; ranksep=1.4;",
        '  node [shape=box, style="rounded,filled", fillcolor="#f6f8fa", fontname="Helvetica"];',
        '  edge [fontname="Helvetica", fontsize=10];',
    ]
    for stage in program.stages:
        label = (
            f"{stage.name}\n{stage_type(stage)} ({stage.kind})\n{grouped(stage.rate)} per env step"
        )
        lines.append(f"  {_quoted(stage.name)} [label={_quoted(label)}];")
    for edge in program.edges:
        source, _, port = edge.source.partition(".")
        target, _, taken = edge.target.partition(".")
        names = port if port == taken else f"{port} → {taken}"
        parts = [names, *spec_lines(edge.spec), policy_text(edge)]
        if edge.initial and edge.keep != "latest":
            parts.append(f"● {edge.initial}")
        given, consumed = rate_text(edge)
        back = edge.keep == "latest" or any(
            edge.target.startswith(f"{each.name}.") and each.kind == "simulate"
            for each in program.stages
        )
        more = ", constraint=false" if back else ""
        more += ", style=dashed" if edge.keep == "latest" else ""
        label = "\n".join(part for part in parts if part)
        lines.append(
            f"  {_quoted(source)} -> {_quoted(target)} [label={_quoted(label)}, "
            f"taillabel={_quoted(given)}, headlabel={_quoted(consumed)}{more}];"
        )
    return "\n".join([*lines, "}"]) + "\n"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
