"""The page: well-formed, self-contained, the same every time, and it says what plan and run say."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import msgspec
import pytest

from ebrl.planner.plan import Plan, Prediction
from ebrl.planner.report import page, rundir
from ebrl.runtime.ledger import Ledger
from ebrl.runtime.progress import Scores
from tests.planner.hardware import plans
from tests.planner.report import material
from tests.planner.report.material import Page

WICKED = '<img src=x onerror="alert(1)"> & </style></title><script>alert(2)</script>'


@pytest.fixture(scope="module")
def of_run(tmp_path_factory: pytest.TempPathFactory) -> str:
    plan = material.plan()
    folder = material.run_directory(tmp_path_factory.mktemp("run"))
    return page.render(plan, rundir.read(folder, plan))


def wicked() -> Plan:
    """Every text that a user or a file can put into a plan is markup."""
    plan = material.plan()
    program = plan.program
    stages = tuple(
        msgspec.structs.replace(each, type=f"graphs.{WICKED}") for each in program.stages
    )
    return msgspec.structs.replace(
        plan,
        program=msgspec.structs.replace(program, name=WICKED, path=WICKED, stages=stages),
        prediction=msgspec.structs.replace(plan.prediction, why=WICKED),
        notes=(WICKED,),
        profile=tuple(msgspec.structs.replace(each, origin=WICKED) for each in plan.profile),
        made=msgspec.structs.replace(plan.made, version=WICKED, created_at=WICKED),
    )


def test_the_page_of_a_run_is_well_formed(of_run: str):
    assert Page(of_run).faults == []


@pytest.mark.parametrize(
    "plan",
    [
        material.plan(),
        wicked(),
        plans.one_node(),
        plans.many_nodes(),
        plans.cores_alone(),
    ],
    ids=["with everything", "wicked", "without edges", "many nodes", "cores alone"],
)
def test_the_page_of_a_plan_is_well_formed(plan: Plan):
    assert Page(page.render(plan, None)).faults == []


def test_no_id_occurs_twice_and_every_reference_is_to_one(of_run: str):
    ids = [each["id"] for _, each in Page(of_run).elements if "id" in each]
    assert len(set(ids)) == len(ids)
    used = re.findall(r'(?:href="#|url\(#|aria-(?:labelledby|describedby)=")([\w.-]+)', of_run)
    assert set(used) - set(ids) == set()
    assert len(used) > 10


def test_the_page_loads_nothing_and_runs_nothing(of_run: str):
    found = Page(of_run)
    assert found.all("script", "iframe", "object", "embed", "img", "base", "form") == []
    for _, attributes in found.elements:
        for key, value in attributes.items():
            assert not key.startswith("on")
            if key in ("href", "src", "srcset", "data", "action", "xlink:href"):
                assert value.startswith(("#", "data:")), (key, value)
    assert re.findall(r"url\((?!#)", of_run) == []
    assert "@import" not in of_run
    # The one address there is stands in a source's origin, to be read.
    assert set(re.findall(r"https?://[^\s<;]*", of_run)) == {"https://example.org/paper?a=1&amp"}


def test_what_a_user_wrote_is_text_and_never_markup():
    found = Page(page.render(wicked(), None))
    assert found.all("img", "script") == []
    assert found.headings[0] == (1, WICKED)
    assert sum(WICKED in each for each in found.words) >= 5


def test_equal_plans_and_runs_make_equal_pages(of_run: str, tmp_path: Path):
    plan = material.plan()
    folder = material.run_directory(tmp_path / "again")
    again = page.render(plan, rundir.read(folder, plan))
    elsewhere = re.compile(r"<code>[^<]*</code>; last checkpoint")
    assert elsewhere.sub("", again) == elsewhere.sub("", of_run)


def test_headings_go_down_one_level_at_a_time(of_run: str):
    levels = [level for level, _ in Page(of_run).headings]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels))


def test_every_picture_says_what_it_shows(of_run: str):
    pictures = [each for each in Page(of_run).all("svg") if each.get("aria-hidden") != "true"]
    assert len(pictures) > 12
    for each in pictures:
        assert each["role"] == "img"
        assert each.get("aria-label") or each.get("aria-labelledby")


def test_the_verdict_of_a_run_is_one_sentence_with_predicted_beside_measured(of_run: str):
    assert (
        "Trained 61,200 environment steps in 112 s; success_once rose from 0.02 to 0.91; "
        "612 steps/s measured against 640 predicted (\u22124 %)."
    ) in Page(of_run).text


def test_the_verdict_of_a_plan_says_what_it_rests_on():
    plan = material.plan()
    assert (
        "640 environment steps/s predicted from published and estimated stage times, proven to be "
        "within 2.3 % of the fastest plan there can be; generate holds it back."
    ) in Page(page.render(plan, None)).text


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"gap": 0.0}, "as fast as any plan can be on this hardware; generate holds it back"),
        ({"status": "time limit"}, "within 2.3 % of a proven bound when the solver's time was up"),
        ({"bottleneck": "staleness"}, "; the staleness bound holds it back"),
        ({"bottleneck": "environments"}, "; the number of environments holds it back"),
    ],
)
def test_the_verdict_calls_a_prediction_what_it_is(changes: dict[str, object], said: str):
    plan = material.plan()
    prediction: Prediction = msgspec.structs.replace(plan.prediction, **changes)
    plan = msgspec.structs.replace(plan, prediction=prediction)
    assert said in Page(page.render(plan, None)).text


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"ended": "SIGINT"}, "Stopped by SIGINT, having trained 61,200 environment steps"),
        ({"ended": "time limit"}, "Up to its time limit, trained 61,200 environment steps"),
        ({"success_once": None}, "the mean return rose from 1.50 to 30"),
        ({"success_once": 0.02}, "success_once stayed at 0.02"),
        (
            {
                "first": Scores(episodes=9, ep_rew_mean=-5.0, ep_len_mean=1.0, success_once=None),
                "ep_rew_mean": -55.0,
            },
            "the mean return fell from \u22125.00 to \u221255",
        ),
        (
            {"steady_env_steps_per_s": None},
            "600 steps/s measured against 640 predicted (\u22126 %)",
        ),
        (
            {"updates": 0, "env_steps_per_s": None, "steady_env_steps_per_s": None},
            "Ended after 112 s, before its first update",
        ),
    ],
)
def test_the_verdict_tells_how_a_run_went(changes: dict[str, object], said: str, tmp_path: Path):
    plan = material.plan()
    folder = material.run_directory(tmp_path, summed=material.summary(**changes))
    assert said in Page(page.render(plan, rundir.read(folder, plan))).text


def test_stages_are_compared_by_the_time_of_an_item(of_run: str):
    # 60 s for 24,000 items are 2.5 ms each; generate was planned to serve 400 a second.
    text = Page(of_run).text
    assert "generate predicted 1 3,000 8 8 20 ms 20 ms 2.5 ms 2.5 ms ±0 % 60 % 80 %" in text
    # simulate's four replicas and train's two were planned at the same rate each.
    assert text.count("2.5 ms 2.5 ms") == 3


def test_a_ledger_that_does_not_balance_is_not_said_to(of_run: str, tmp_path: Path):
    assert "500 in flight at the end: it balances" in Page(of_run).text
    plan = material.plan()
    book = Ledger(produced=100, trained=60, discarded={"stale": 20}, in_flight=5)
    folder = material.run_directory(tmp_path, summed=material.summary(ledger=book))
    text = Page(page.render(plan, rundir.read(folder, plan))).text
    assert "5 in flight at the end: 15 missing." in text
    assert "it balances" not in text


def test_every_number_has_its_source_beside_it(of_run: str):
    text = Page(of_run).text
    assert "figures of the a100 108 SMs" in text
    assert "interference of generate and train 1.1 × the time, side by side estimated" in text
    assert "a paper, see https://example.org/paper?a=1&b=2" in text
    for digest in ("1" * 64, "2" * 64, "3" * 64, material.plan().digest()):
        assert digest in text
    assert "generate.batch=8" in text
    assert "a note of the planner's" in text
    assert "2026-03-01 12:30 UTC by ebrl 1.2.3" in text


def test_alternatives_stand_beside_the_plan_the_fastest_first(of_run: str):
    assert (
        "this plan 640 steps/s collocated 480 steps/s \u221225 % takes turns "
        "even split does not fit 3 GB too much"
    ) in Page(of_run).text


def test_buffers_are_told_to_the_byte(of_run: str):
    assert "131,072 B (131 kB) 64 of 2,048 B" in Page(of_run).text
    assert "150,000 B (150 kB)" in Page(of_run).text


def test_the_picture_is_of_what_was_planned_whatever_became_of_the_file(tmp_path: Path):
    plan = material.plan()
    assert "pi05_libero.py is unchanged since" in Page(page.render(plan, None)).text
    changed = tmp_path / "graph.py"
    changed.write_text("raise SystemExit('nobody runs this')")
    for path, said in (
        (str(changed), "has changed since it was planned"),
        (str(tmp_path / "gone.py"), "is not at hand now"),
    ):
        moved = msgspec.structs.replace(
            plan, program=msgspec.structs.replace(plan.program, path=path)
        )
        found = Page(page.render(moved, None))
        assert said in found.text
        assert "simulate.obs" in found.text
