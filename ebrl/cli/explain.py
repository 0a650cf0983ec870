"""`ebrl explain`: why a plan is as fast as it is, and what would make it faster."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    app.command()(explain)


def explain(
    plan: Annotated[Path, typer.Argument(metavar="PLAN", help="plan.json of `ebrl plan`.")],
    marginal: Annotated[
        bool, typer.Option(help="Plan again with one more of each resource.")
    ] = True,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
) -> None:
    """Tell a plan's bottleneck, how full each resource is, and what one more of each would bring.

    \b
    Examples:
      ebrl explain plan.json
      ebrl explain plan.json --no-marginal --json
    """
    from ebrl.planner.plan import read
    from ebrl.planner.proof.verify import sound
    from ebrl.planner.telling.explain import explain as reason
    from ebrl.planner.telling.explain import worth_in_words

    found = sound(read(plan), str(plan))
    told = reason(found, marginals=marginal)
    if as_json:
        import msgspec

        body = {
            "bottleneck": told.bottleneck,
            "why": told.why,
            "utilisation": {use.name: use.share for use in told.uses},
            "marginal": {each.name: each.gain for each in told.marginal},
            "alternatives": found.alternatives,
        }
        print(msgspec.json.encode(body).decode())
        return
    print(f"bottleneck  {told.bottleneck}: {told.why}\n")
    for use in told.uses:
        print(f"{use.name:14} {use.share:6.1%}  {use.used:,.4g} of {use.there:,.4g} {use.unit}")
    if told.marginal:
        saves = "" if found.objective == "throughput" else " saves"
        print(f"\nbeside {worth_in_words(found)}, planning again{saves} with")
        for each in sorted(told.marginal, key=lambda each: -each.gain):
            print(f"  {each.step:32} {each.gain:+12,.2f}  {each.relative:+.2%}")
    if found.alternatives:
        print("\nconsidered and not chosen")
        for other in found.alternatives:
            value = other.throughput_env_steps_per_s
            text = "does not fit" if value is None else f"{value:,.1f} steps/s"
            print(f"  {other.name:16} {text:>18}  {other.why}")
