"""`ebrl execute`: run exactly the plan that it is given."""

from __future__ import annotations

import contextlib
import hashlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from ebrl.errors import EbrlError

if TYPE_CHECKING:
    from ebrl.planner.plan import Plan
    from ebrl.runtime.run import Run, Watch
    from ebrl.runtime.summary import Summary
    from ebrl.runtime.tracing import Tracer


def register(app: typer.Typer) -> None:
    app.command()(execute)


def execute(
    plan_path: Annotated[Path, typer.Argument(metavar="PLAN", help="plan.json of `ebrl plan`.")],
    steps: Annotated[
        int | None, typer.Option(min=1, help="Environment steps to train on, then end.")
    ] = None,
    seconds: Annotated[
        float | None, typer.Option(min=0.0, help="End this long after the first step.")
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(min=0, help="Of everything random (default: 0, or that of --resume)."),
    ] = None,
    logdir: Annotated[
        Path | None, typer.Option(help="Run directory (default: runs/<graph>-<time>).")
    ] = None,
    resume: Annotated[
        Path | None, typer.Option(help="Go on from a run's or a folder's latest checkpoint.")
    ] = None,
    checkpoint_every: Annotated[
        float, typer.Option(min=1.0, help="Seconds between checkpoints.")
    ] = 60.0,
    checkpoint_updates: Annotated[
        int,
        typer.Option(min=1, help="Updates between checkpoints of a synchronous run."),
    ] = 100,
    patience: Annotated[
        int,
        typer.Option(min=1, help="Faults in a row of one environment or worker until it ends."),
    ] = 5,
    hang_after: Annotated[
        float | None,
        typer.Option(min=0.5, help="Seconds without a sign of life until a worker is replaced."),
    ] = None,
    worker_memory: Annotated[
        float | None,
        typer.Option(min=0.01, help="GB of its own at which a worker is replaced."),
    ] = None,
    recycle: Annotated[
        int | None,
        typer.Option(min=1, help="Build an environment anew after so many episodes (if it leaks)."),
    ] = None,
    emulate: Annotated[
        bool, typer.Option(help="Without its hardware: every stage waits its planned time.")
    ] = False,
    payload_scale: Annotated[
        float, typer.Option(help="Emulated: part of each tensor that is really moved.")
    ] = 1.0,
    speed: Annotated[
        float, typer.Option(help="Emulated: seconds of the plan that pass in one second.")
    ] = 1.0,
    inject: Annotated[
        list[str] | None,
        typer.Option(help="Emulated: what goes wrong, as simulate*1.8@20s or crash:act/0@9s."),
    ] = None,
    trace: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write a timeline for Perfetto: predicted, measured."),
    ] = None,
    quota: Annotated[
        Literal["auto", "mps", "none"],
        typer.Option(
            help="What holds stages that share a GPU to their SMs: MPS where it is (auto), MPS or "
            "no run (mps), nothing (none)."
        ),
    ] = "auto",
    replan: Annotated[
        bool, typer.Option(help="Take another plan when stage times have drifted.")
    ] = True,
    replan_dry_run: Annotated[
        bool, typer.Option("--replan-dry-run", help="Decide and write it down, but change nothing.")
    ] = False,
    min_gain: Annotated[
        float, typer.Option(min=0.0, help="Gain after its cost from which a plan is switched to.")
    ] = 0.05,
    allow_changed_graph: Annotated[
        bool, typer.Option(help="Run although the graph file changed since it was planned.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
) -> None:
    """Run a plan: start its workers, train, and leave a checkpoint, curves and a summary.

    \b
    Example:
      ebrl plan graphs/cartpole_ppo.py --cluster local -o plan.json
      ebrl execute plan.json --steps 150000

      ebrl execute plan.json --emulate --speed 10 --payload-scale 0.01 --seconds 30

    Ctrl-C (or SIGTERM) ends the run within five seconds, with a checkpoint; the exit code is then
    130 (or 143).
    """
    from ebrl.planner.plan import read, write
    from ebrl.runtime.emulation import setup
    from ebrl.runtime.emulation.setup import Emulation
    from ebrl.runtime.profiling.measure import weights_bytes
    from ebrl.runtime.run import Options, Run
    from ebrl.runtime.rundir import GIVEN, RunDirectory, default_path
    from ebrl.runtime.table import LiveTable
    from ebrl.runtime.tracing import Tracer
    from ebrl.runtime.watch.decide import Policy
    from ebrl.trace import check as check_trace

    plan = given = read(plan_path)
    if resume is not None and replan and not emulate:
        plan = _in_force(resume, given)
    if trace is not None:
        check_trace(trace)
    if emulate:
        emulation = Emulation(payload_scale=payload_scale, speed=speed, inject=tuple(inject or ()))
        graph, sha256 = Path(plan.program.path), None
        size = setup.weights_bytes(plan, emulation)
    else:
        emulation = None
        graph = _graph_of(plan, plan_path)
        sha256 = None if allow_changed_graph else _unchanged(plan, graph)
        size = plan.buffers.weights_bytes or weights_bytes(plan.program, graph, sha256)
    directory = RunDirectory(logdir or default_path(plan.program.name))
    if plan is not given:
        write(given, directory.path / GIVEN)
    tracer = None if trace is None else Tracer(directory.path, plan)
    run = Run(
        plan,
        graph=graph,
        graph_sha256=sha256,
        directory=directory,
        weights_bytes=size,
        emulation=emulation,
        options=Options(
            steps=steps,
            seconds=seconds,
            seed=seed,
            resume=None if resume is None else str(resume.resolve()),
            checkpoint_every_s=checkpoint_every,
            checkpoint_every_updates=checkpoint_updates,
            patience=patience,
            hang_after_s=hang_after,
            worker_memory_bytes=None if worker_memory is None else int(worker_memory * 1e9),
            recycle_every=recycle,
            trace_records=0 if tracer is None else tracer.records,
            quota=quota,
            replan=Policy(enabled=replan, dry_run=replan_dry_run, min_gain=min_gain),
        ),
    )
    with LiveTable() as table:
        if trace is None or tracer is None:
            summary = run.execute(table.show)
        else:
            summary = _traced(run, table.show, plan, tracer, trace)
    _report(plan, summary, trace, as_json)
    if run.signalled is not None:
        raise typer.Exit(128 + run.signalled)


def _traced(run: Run, show: Watch, plan: Plan, tracer: Tracer, path: Path) -> Summary:
    """Execute it and write its timeline, with what was predicted above it, however it ends."""

    def watch(run: Run) -> None:
        tracer.look(run)
        show(run)

    try:
        summary = run.execute(watch)
    except BaseException:
        with contextlib.suppress(EbrlError):  # the run's own fault is what is told
            _write_timeline(run, plan, tracer, path)
        raise
    _write_timeline(run, plan, tracer, path)
    return summary


def _write_timeline(run: Run, plan: Plan, tracer: Tracer, path: Path) -> None:
    from ebrl.planner.foresight.beside import predicted
    from ebrl.trace import merge

    measured = tracer.collect(run)
    lanes = {"measured": measured.trace}
    try:
        above = predicted(plan, measured.begin_s, measured.end_s, seed=run.seed)
    except EbrlError as error:
        print(f"warning: the trace shows no prediction: {error}", file=sys.stderr)
    else:
        lanes = {"predicted": above, **lanes}
    merge(lanes).write(path)
    part = "" if measured.whole else f", the last {measured.end_s - measured.begin_s:.0f} s"
    print(f"trace        {path}{part}; open it in ui.perfetto.dev", file=sys.stderr)


def _in_force(resume: Path, given: Plan) -> Plan:
    """The plan to go on with: the one that the run had gone over to, if it was begun with this."""
    from ebrl.runtime.resume import plan_in_force

    found = plan_in_force(resume, given)
    if found is None:
        return given
    typer.echo(
        f"going on with {found[0]}, the plan that run had gone over to; --no-replan keeps to the "
        "one given",
        err=True,
    )
    return found[1]


def _graph_of(plan: Plan, plan_path: Path) -> Path:
    """The graph file: where it was when planned, or beside the plan."""
    from ebrl.errors import RunError

    recorded = Path(plan.program.path)
    for candidate in (recorded, plan_path.parent / recorded.name):
        if candidate.is_file():
            return candidate.resolve()
    raise RunError(
        "graph-missing",
        "the graph file that the plan was made of is not there",
        where=str(recorded),
        hint=f"put {recorded.name} beside {plan_path}, or plan again",
    )


def _unchanged(plan: Plan, graph: Path) -> str:
    from ebrl.errors import RunError

    digest = hashlib.sha256(graph.read_bytes()).hexdigest()
    if digest != plan.program.sha256:
        raise RunError(
            "graph-changed",
            f"the graph changed since it was planned (sha256 {digest[:12]}…, planned "
            f"{plan.program.sha256[:12]}…)",
            where=str(graph),
            hint="plan again, or run it all the same with --allow-changed-graph",
        )
    return digest


def _report(plan: Plan, summary: Summary, trace: Path | None, as_json: bool) -> None:
    from ebrl.runtime import picture

    curve = None
    if summary.ended not in ("SIGINT", "SIGTERM"):  # who interrupts does not wait for a picture
        curve = picture.draw(
            Path(summary.run_dir),
            title=plan.program.name,
            predicted_env_steps_per_s=plan.prediction.throughput_env_steps_per_s,
        )
    if as_json:
        import msgspec

        told = msgspec.to_builtins(summary)
        told["curve"] = None if curve is None else str(curve)
        told["trace"] = None if trace is None else str(trace)
        print(msgspec.json.encode(told).decode())
        return
    for line in _lines(summary):
        print(line)
    if curve is not None:
        print(f"curve        {curve}")


def _lines(summary: Summary) -> list[str]:
    ledger = summary.ledger
    first = summary.first
    lines = [
        f"ended        {summary.ended} after {summary.seconds:.0f} s, {summary.updates} updates",
        f"trained      {summary.env_steps:,} environment steps, {summary.episodes:,} episodes",
    ]
    if summary.env_steps_per_s is not None:
        predicted = summary.predicted_env_steps_per_s
        steady = summary.steady_env_steps_per_s or summary.env_steps_per_s
        lines.append(
            f"steps/s      {steady:,.0f} measured, {predicted:,.0f} predicted "
            f"({100 * (steady / predicted - 1):+.0f} %); {summary.env_steps_per_s:,.0f} from the "
            "first step to the last update"
        )
    if summary.ep_rew_mean is not None and first.ep_rew_mean is not None:
        lines.append(
            f"return       {summary.ep_rew_mean:.2f} over the last 100 episodes, "
            f"{first.ep_rew_mean:.2f} over the first {first.episodes}"
        )
    if summary.success_once is not None and first.success_once is not None:
        lines.append(
            f"success_once {summary.success_once:.2f} over the last 100 episodes, "
            f"{first.success_once:.2f} over the first {first.episodes}"
        )
    lines += [
        f"staleness    {summary.staleness['mean']:.2f} mean, {summary.staleness['max']:.0f} max",
        f"ledger       {ledger.produced:,} produced = {ledger.trained:,} trained + "
        f"{sum(ledger.discarded.values()):,} discarded + {ledger.in_flight:,} in flight",
        f"memory       {summary.memory_bytes / 1e9:.2f} GB in all processes together",
        f"checkpoint   {summary.checkpoint or 'none: stopped before the policy was built'}",
        f"run          {summary.run_dir}",
    ]
    if summary.restarts or summary.rebuilds or summary.skipped_updates:
        lines.append(
            f"faults       workers replaced: {summary.restarts}, environments built anew: "
            f"{summary.rebuilds}, updates left out: {summary.skipped_updates}"
        )
    return lines
