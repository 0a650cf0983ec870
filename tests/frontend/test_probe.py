"""What only a running environment can tell: asked once, in another process, in bounded time."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from ebrl.errors import GraphError
from ebrl.frontend.cache import cache_folder, recall, remember
from ebrl.frontend.check import check, diagnose
from ebrl.frontend.load import load_graph

PROBED = """
import os
import os
import time
from pathlib import Path


class Probed(Reach):
    probed = True

    def describe(self):
        {body}
        return super().describe()
"""


def asked(pipeline, body: str) -> Path:
    return pipeline(simulate="Probed(), envs=8", classes=PROBED.format(body=body))


def test_an_environment_is_asked_in_another_process_and_only_once(pipeline, tmp_path):
    log = tmp_path / "pids"
    file = asked(pipeline, f"open({str(log)!r}, 'a').write(str(os.getpid()) + ' ')")
    first, second = check(load_graph(file)), check(load_graph(file))
    assert first == second
    assert first.environment is not None
    pids = log.read_text().split()
    assert len(pids) == 1
    assert int(pids[0]) != os.getpid()


def test_editing_the_class_asks_again(pipeline, tmp_path):
    log = tmp_path / "calls"
    file = asked(pipeline, f"open({str(log)!r}, 'a').write('x')")
    check(load_graph(file))
    file.write_text(file.read_text() + "\n# a change of the file that holds the class\n")
    check(load_graph(file))
    assert log.read_text() == "xx"


def test_a_cache_that_is_damaged_or_cannot_be_written_costs_only_time(
    pipeline, monkeypatch, tmp_path
):
    file = asked(pipeline, "pass")
    program = check(load_graph(file))
    for entry in (cache_folder() / "probe").iterdir():
        entry.write_bytes(b"{")
    assert check(load_graph(file)) == program
    (tmp_path / "a file").write_text("")
    monkeypatch.setenv("EBRL_CACHE", str(tmp_path / "a file" / "below"))
    assert check(load_graph(file)) == program


def test_an_environment_that_says_nothing_in_time_is_killed_with_its_children(pipeline, tmp_path):
    child = tmp_path / "child"
    body = (
        "import subprocess; "
        f"Path({str(child)!r}).write_text(str(subprocess.Popen(['sleep', '600']).pid)); "
        "import sys; print('waiting for a display', file=sys.stderr, flush=True); time.sleep(600)"
    )
    started = time.monotonic()
    program, found = diagnose(load_graph(asked(pipeline, body)), probe_limit_s=8)
    assert program is None
    assert time.monotonic() - started < 60
    assert [each.code for each in found] == ["probe-timeout"]
    assert "waiting for a display" in found[0].message
    assert not _runs(int(child.read_text()))


def _runs(pid: int) -> bool:
    status = Path(f"/proc/{pid}/stat")
    return status.exists() and status.read_text().split()[2] != "Z"


@pytest.mark.parametrize(
    ("body", "code", "said"),
    [
        ("raise OSError('no Vulkan driver')", "probe-failed", "OSError: no Vulkan driver"),
        ("os.write(2, b'Segmentation, as they say'); os.abort()", "probe-failed", "SIGABRT"),
        ("os.write(2, b'giving up'); os._exit(7)", "probe-failed", "giving up"),
        ("return None", "environment-invalid", "describe() returned None"),
        ("import imaginary_simulator", "probe-failed", "imaginary_simulator"),
    ],
)
def test_an_environment_that_fails_is_a_diagnostic(pipeline, body: str, code: str, said: str):
    program, found = diagnose(load_graph(asked(pipeline, body)))
    assert program is None
    assert [each.code for each in found] == [code]
    assert said in found[0].message
    assert "Traceback" not in found[0].message
    assert "pipeline.py:" in found[0].where


def test_a_failed_probe_is_not_remembered(pipeline):
    file = asked(pipeline, "raise OSError")
    diagnose(load_graph(file))
    assert not (cache_folder() / "probe").exists()


def test_other_faults_are_told_beside_a_failed_probe(pipeline):
    file = pipeline(
        simulate="Probed(), envs=8",
        generate="Linear(chunk=0)",
        classes=PROBED.format(body="raise OSError"),
    )
    codes = {each.code for each in diagnose(load_graph(file))[1]}
    assert codes == {"probe-failed", "chunk-invalid"}


def test_the_cache_follows_its_variables(monkeypatch, tmp_path):
    assert cache_folder() == tmp_path / "cache"
    monkeypatch.delenv("EBRL_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_folder() == tmp_path / "xdg" / "ebrl"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder() == tmp_path / ".cache" / "ebrl"


def test_the_cache_gives_back_what_it_was_given():
    assert recall("things", "key") is None
    remember("things", "key", b"value")
    assert recall("things", "key") == b"value"


def test_the_error_of_a_probe_is_raised_by_check(pipeline):
    with pytest.raises(GraphError):
        check(load_graph(asked(pipeline, "raise OSError('gone')")))


def test_a_slow_machine_may_be_given_more_or_less_time(pipeline, monkeypatch):
    monkeypatch.setenv("EBRL_PROBE_LIMIT_S", "0.05")
    _, found = diagnose(load_graph(asked(pipeline, "pass")))
    assert [each.code for each in found] == ["probe-timeout"]
    assert "within 0.05 s" in found[0].message
    assert "EBRL_PROBE_LIMIT_S" in found[0].hint
