"""One self-contained page about a plan and, once it ran, about its run: predicted beside measured.

Invariant: the page needs nothing but itself (no network, no script, no font), and the same plan and
run make the same page, byte for byte: it says when the plan was made, not when it was looked at.
"""

from __future__ import annotations

from pathlib import Path

from ebrl.errors import EbrlError
from ebrl.planner import plan as plans
from ebrl.planner.report import ahead, page, rundir


def write(plan_path: Path, run: Path | None, output: Path, compare: Path | None = None) -> str:
    """Write the page and return its verdict. `compare`: what `ebrl compare --json` printed.

    Raises PlanError for a plan that cannot be read; EbrlError for a run directory that is damaged,
    not there or of another plan, and where the page cannot be written.
    """
    plan = plans.read(plan_path)
    record = None if run is None else rundir.read(run, plan)
    compared = None if compare is None else ahead.read_comparison(compare)
    text = page.render(plan, record, compared)
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise EbrlError(
            "report-unwritable",
            f"cannot write the report: {error.strerror}",
            where=str(output),
            hint="name another file with -o",
        ) from error
    return page.verdict(plan, record)
