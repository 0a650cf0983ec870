"""Everything that the page shows, put into its template."""

from __future__ import annotations

from ebrl import __version__
from ebrl.planner.plan import Plan
from ebrl.planner.report import ahead, curves, measured, picture, planned, shares, sources
from ebrl.planner.report.ahead import Compared
from ebrl.planner.report.bars import colours
from ebrl.planner.report.rundir import RunRecord


def render(plan: Plan, run: RunRecord | None, compared: Compared | None = None) -> str:
    """The page, as HTML; `compared`: other systems' schedules, where they were simulated."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("ebrl.planner", "templates"),
        undefined=jinja2.StrictUndefined,
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    points, more_points = sources.point_lines(plan)
    return environment.get_template("report.html.j2").render(
        plan=plan,
        run=run,
        version=__version__,
        verdict=verdict(plan, run),
        made=_made(plan),
        hardware=planned.hardware(plan),
        palette=colours(plan),
        picture=picture.draw(plan.program),
        picture_name=picture.NAME,
        file_remark=picture.file_remark(plan.program),
        edges=picture.edge_lines(plan.program),
        stages=planned.stage_lines(plan),
        facts=planned.facts(plan),
        alternatives=planned.alternatives(plan),
        buffers=planned.buffers(plan),
        shares=shares.shares(plan),
        ahead=ahead.ahead(plan),
        compared=None if compared is None else ahead.comparison(compared),
        best_other=None if compared is None else compared.best_other,
        ran=None if run is None else _ran(plan, run),
        bases=sources.bases(plan),
        points=points,
        more_points=more_points,
        hashes=sources.hashes(plan),
        pins=sources.pins(plan),
    )


def verdict(plan: Plan, run: RunRecord | None) -> str:
    """The page in one sentence."""
    if run is None or run.summary is None:
        return planned.verdict(plan)
    return measured.verdict(plan, run.summary)


def _made(plan: Plan) -> str:
    """When the plan was made: 2026-03-01 12:30 UTC."""
    date, _, rest = plan.made.created_at.partition("T")
    zone = " UTC" if rest.endswith(("+00:00", "Z")) else ""
    return f"{date} {rest[:5]}{zone}".strip()


def _ran(plan: Plan, run: RunRecord) -> dict[str, object]:
    """The run's part of the page; without a summary, only its curves."""
    found: dict[str, object] = {
        "path": run.path,
        "remarks": measured.remarks(run),
        "curves": curves.curves(plan, run),
        "metrics": curves.metrics(run),
        "facts": (),
        "compared": (),
        "spent": None,
        "ledger": None,
        "checkpoint": None,
        "weights": None,
    }
    if run.summary is not None:
        found |= {
            "facts": measured.facts(plan, run.summary),
            "compared": measured.compared(plan, run.summary),
            "spent": measured.spent(plan, run.summary),
            "ledger": measured.ledger(run.summary),
            "checkpoint": run.summary.checkpoint,
            "weights": run.summary.weights_sha256,
        }
    return found
