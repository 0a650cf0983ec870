"""Shipped profiles: published figures with their sources, and nothing that only looks like one."""

from __future__ import annotations

from pathlib import Path

import pytest

import ebrl.planner
from ebrl.frontend.check import check
from ebrl.frontend.load import load_graph
from ebrl.planner import devices, profile, shipped
from ebrl.planner.interpolate import for_stage

ROOT = Path(__file__).resolve().parents[3]
FOLDER = Path(ebrl.planner.__file__).parent / "data" / "profiles"
GRAPHS = ("openvla_oft_maniskill", "pi05_libero", "pi0_metaworld", "gr00t_robocasa")


def test_the_files_are_what_the_published_figures_give() -> None:
    built = {name: profile.encode(each) for name, each in shipped.build().items()}
    assert built == {file.name: file.read_bytes() for file in FOLDER.iterdir()}


def test_every_point_is_published_has_a_source_and_a_known_device() -> None:
    assert shipped.everything()
    for point in shipped.everything():
        assert point.source == "published"
        assert len(point.origin) > 20
        assert point.sms == devices.find(point.device).sms


def test_figures_of_unknown_hardware_are_kept_but_never_shipped() -> None:
    unknown = [each for each in shipped.figures() if each.device == "unknown"]
    assert unknown
    texts = {point.origin.partition(";")[0] for point in shipped.everything()}
    assert texts.isdisjoint(each.what for each in unknown)


def test_a_source_that_points_at_the_entry_before_is_spelled_out() -> None:
    assert all(not each.source.startswith("same") for each in shipped.figures())


def test_every_figure_of_known_hardware_is_shipped() -> None:
    known = {(each.what, each.device) for each in shipped.figures() if each.device != "unknown"}
    assert known == set(shipped.KEYS)


def test_what_was_not_stated_is_noted() -> None:
    point = next(each for each in shipped.everything() if each.stage == "gr00t/act")
    assert "host cores not stated" in point.note
    assert "device memory not stated" in point.note
    assert point.bytes == 0


@pytest.mark.parametrize("name", GRAPHS)
def test_a_workload_is_checked_and_timed_on_every_device(name: str) -> None:
    program = check(load_graph(ROOT / "graphs" / f"{name}.py"))
    points = shipped.shipped(program)
    assert points
    assert {point.stage for point in points} <= {stage.profile_key for stage in program.stages}
    for stage in program.stages:
        kinds = devices.catalogue() if "gpu" in stage.runs_on else (None,)
        for kind in kinds:
            time = for_stage(stage, kind, points).seconds(kind.sms if kind else 0, 1.0, 1)
            assert 1e-4 < time.median_s < 1e3
            published = any(
                point.stage == stage.profile_key
                and kind is not None
                and (point.device, point.batch) == (kind.name, 1)
                for point in points
            )
            assert str(time.source) == ("published" if published else "estimated")
