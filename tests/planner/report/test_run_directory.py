"""Run directories: read as the runtime leaves them, and refused clearly when damaged or foreign."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from ebrl.cli.main import run as ebrl
from ebrl.errors import EbrlError
from ebrl.planner.plan import encode
from ebrl.planner.report import page, rundir
from tests.planner.report import material
from tests.planner.report.material import Page


def refused(folder: Path) -> EbrlError:
    with pytest.raises(EbrlError) as caught:
        rundir.read(folder, material.plan())
    return caught.value


def test_a_directory_that_is_not_there_is_named(tmp_path: Path):
    error = refused(tmp_path / "none")
    assert error.code == "run-missing"
    assert str(tmp_path / "none") in str(error)


def test_a_directory_without_a_run_is_refused(tmp_path: Path):
    assert refused(tmp_path).code == "run-empty"


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (b"", "truncated"),
        (b'{"env_steps": 5', "truncated"),
        (b"\xff\xfe", "malformed"),
        (b"[1, 2]", "Expected `object`, got `array`"),
        (b'{"env_steps": "many"}', "$.env_steps"),
        (b"{}", "missing required field `env_steps`"),
    ],
)
def test_a_damaged_summary_is_one_clear_error(damage: bytes, said: str, tmp_path: Path):
    folder = material.run_directory(tmp_path)
    (folder / "summary.json").write_bytes(damage)
    error = refused(folder)
    assert error.code == "run-malformed"
    assert "summary.json" in error.diagnostics[0].where
    assert said in error.diagnostics[0].message


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("not json", "malformed"),
        ("[]", "Expected `object`"),
        ('{"seconds": 1.0}', "`env_steps` is not a number"),
        ('{"seconds": null, "env_steps": 5}', "`seconds` is not a number"),
        ('{"seconds": 1.0, "env_steps": true}', "`env_steps` is not a number"),
    ],
)
def test_a_damaged_line_is_named_by_its_number(line: str, said: str, tmp_path: Path):
    folder = material.run_directory(tmp_path)
    lines = [json.dumps(each) for each in material.rows(5)]
    lines[2] = line
    (folder / "progress.jsonl").write_text("\n".join(lines) + "\n")
    error = refused(folder)
    assert error.code == "run-malformed"
    assert error.diagnostics[0].where.endswith("progress.jsonl: line 3")
    assert said in error.diagnostics[0].message


def test_a_run_of_another_plan_is_refused_with_the_way_to_the_right_one(tmp_path: Path):
    other = material.plan(max_staleness=3)
    error = refused(material.run_directory(tmp_path, other))
    assert error.code == "run-of-another-plan"
    assert other.digest()[:12] in str(error)
    assert f"ebrl report {tmp_path / 'plan.json'} --run {tmp_path}" in str(error)


def test_a_plan_made_again_with_equal_inputs_is_the_same_plan(tmp_path: Path):
    plan = material.plan()
    later = msgspec.structs.replace(plan.made, created_at="2027-01-01T00:00:00+00:00", solve_s=9.0)
    folder = material.run_directory(tmp_path, msgspec.structs.replace(plan, made=later))
    assert rundir.read(folder, plan).remarks == ()


def test_the_torn_last_line_of_a_killed_run_is_left_out_and_said(tmp_path: Path):
    folder = material.run_directory(tmp_path)
    text = (folder / "progress.jsonl").read_text()
    (folder / "progress.jsonl").write_text(text[:-20])
    record = rundir.read(folder, material.plan())
    assert len(record.rows) == 49
    assert any("cut short" in each for each in record.remarks)


def test_a_run_without_a_summary_still_has_its_curves(tmp_path: Path):
    folder = material.run_directory(tmp_path)
    (folder / "summary.json").unlink()
    plan = material.plan()
    found = Page(page.render(plan, rundir.read(folder, plan)))
    assert "still going on, or was killed" in found.text
    assert "Throughput over time, with the prediction" in found.text
    assert "Ledger" not in found.text


def test_a_run_that_ended_before_its_first_update_is_told_without_curves(tmp_path: Path):
    summary = material.summary(
        updates=0,
        env_steps=0,
        env_steps_per_s=None,
        steady_env_steps_per_s=None,
        episodes=0,
        ep_rew_mean=None,
        success_once=None,
        start_to_first_step_s=None,
        start_to_first_update_s=None,
        memory_bytes=0,
        stages={},
        checkpoint=None,
        weights_sha256=None,
    )
    folder = material.run_directory(tmp_path, summed=summary, lines=[])
    plan = material.plan()
    found = Page(page.render(plan, rundir.read(folder, plan)))
    assert found.faults == []
    assert "No update ended, so there are no curves." in found.text
    assert "Curves" not in [text for _, text in found.headings]


def test_the_seconds_of_a_resumed_run_go_on(tmp_path: Path):
    before = material.rows(5)
    after = material.rows(5, begin=before[-1]["env_steps"])
    folder = material.run_directory(tmp_path, lines=[*before, *after])
    record = rundir.read(folder, material.plan())
    assert [row["seconds"] for row in record.rows] == [2.0 * n for n in range(1, 11)][:5] + [
        10.0 + 2.0 * n for n in range(1, 6)
    ]
    assert record.remarks == ()


def test_of_a_directory_that_was_used_twice_the_latest_run_is_shown(tmp_path: Path):
    folder = material.run_directory(tmp_path, lines=[*material.rows(9), *material.rows(4)])
    record = rundir.read(folder, material.plan())
    assert list(record.rows) == material.rows(4)
    assert any("latest run" in each for each in record.remarks)


def test_the_command_writes_the_page_and_says_where(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    folder = material.run_directory(tmp_path / "run")
    output = tmp_path / "deep" / "report.html"
    arguments = [str(folder / "plan.json"), "--run", str(folder), "-o", str(output)]
    assert ebrl(["report", *arguments, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"path": str(output)}
    assert Page(output.read_text()).headings[0] == (1, "pi05-libero")
    assert ebrl(["report", *arguments]) == 0
    told = capsys.readouterr().out.splitlines()
    assert told[0].startswith("Trained 61,200 environment steps")
    assert told[1] == f"written to {output}"


def test_the_command_refuses_without_a_traceback(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    path = tmp_path / "plan.json"
    assert ebrl(["report", str(path)]) == 1
    assert "plan-unreadable" in capsys.readouterr().err
    path.write_bytes(encode(material.plan()))
    assert ebrl(["report", str(path), "--run", str(tmp_path / "no"), "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["diagnostics"][0]["code"] == "run-missing"
    assert ebrl(["report", str(path), "-o", str(tmp_path)]) == 1
    assert "report-unwritable" in capsys.readouterr().err
