"""Checkpoints are whole or not there, and what was altered is refused."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import msgspec
import pytest
import torch

from ebrl.errors import RunError
from ebrl.runtime import checkpoint


def state(version: int, **changes: object) -> checkpoint.State:
    made = checkpoint.State(
        version=version,
        trained=version * 10,
        graph="g",
        program_sha256="p" * 64,
        plan_sha256="q" * 64,
        weights_sha256="w",
        seed=3,
        learner={"rate": 0.5},
    )
    return msgspec.structs.replace(made, **changes)


def tensors(value: float = 1.0) -> bytes:
    return checkpoint.bytes_of({"a": torch.full((3,), value)})


def test_what_was_saved_is_what_is_loaded(tmp_path: Path) -> None:
    kept = {"a": torch.arange(6.0).reshape(2, 3), "b": torch.tensor([1, 2])}
    checkpoint.save(tmp_path, checkpoint.bytes_of(kept), state(4))
    loaded, told = checkpoint.load(tmp_path)
    assert all(torch.equal(loaded[name], kept[name]) for name in kept)
    assert (told.version, told.trained, told.learner) == (4, 40, {"rate": 0.5})


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("v*"))


def test_the_newest_few_are_kept_and_latest_names_the_last(tmp_path: Path) -> None:
    for version in range(1, 6):
        checkpoint.save(tmp_path, tensors(), state(version), keep=2)
    assert names(tmp_path) == ["v00000004", "v00000005"]
    assert checkpoint.resolve(tmp_path).name == "v00000005"


def test_the_best_and_the_newest_to_continue_exactly_from_are_kept_too(tmp_path: Path) -> None:
    for version in range(1, 8):
        checkpoint.save(tmp_path, tensors(), state(version, anew=version in (2, 3)), keep=2)
        if version == 1:
            checkpoint.point(tmp_path, checkpoint.BEST, "v00000001")
    assert names(tmp_path) == ["v00000001", "v00000003", "v00000006", "v00000007"]
    assert checkpoint.exact(tmp_path).name == "v00000003"
    assert checkpoint.exact(tmp_path / "v00000006").name == "v00000006"  # asked for by name


def test_a_disk_that_fills_in_the_middle_leaves_the_one_before_it(tmp_path: Path) -> None:
    """In a process whose files may not grow beyond a limit, as on a disk that is full."""
    checkpoint.save(tmp_path, tensors(1.0), state(1))
    script = """
        import resource, sys
        from pathlib import Path
        from tests.runtime.test_checkpoint import checkpoint, state
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
        try:
            checkpoint.save(Path(sys.argv[1]), bytes(100_000), state(2))
        except OSError as error:
            print("told", error.errno)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script), str(tmp_path)],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[2],
        check=True,
    )
    assert done.stdout.startswith("told")
    loaded, told = checkpoint.load(tmp_path)
    assert told.version == 1
    assert loaded["a"].tolist() == [1, 1, 1]
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


@pytest.mark.parametrize("call", range(1, 30))
def test_one_that_is_killed_at_any_call_to_the_disk_loses_nothing(tmp_path: Path, call) -> None:
    """The process dies at its n-th call that changes the folder; what `latest` names is whole."""
    checkpoint.save(tmp_path, tensors(1.0), state(1))
    child = os.fork()
    if child == 0:
        left = call

        def dies(event: str, arguments: tuple[object, ...]) -> None:
            nonlocal left
            if event in ("open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "shutil.rmtree"):
                left -= 1
                if left == 0:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(dies)
        checkpoint.save(tmp_path, tensors(2.0), state(2))
        os._exit(0)
    _, status = os.waitpid(child, 0)
    loaded, told = checkpoint.load(tmp_path)
    assert loaded["a"].tolist() == [told.version] * 3
    if os.WIFEXITED(status):
        assert told.version == 2
    checkpoint.save(tmp_path, tensors(3.0), state(3))  # and the next one cleans up
    assert not [each for each in tmp_path.iterdir() if each.name.startswith(".v")]


def test_a_checkpoint_of_another_graph_is_refused_unless_only_the_file_changed() -> None:
    told = state(1)
    where = Path("here")
    checkpoint.belongs(told, where, graph="g", program_sha256="p" * 64)
    checkpoint.belongs(told, where, graph="g", program_sha256=None)
    for graph, sha256 in (("g", "x" * 64), ("h", None)):
        with pytest.raises(RunError, match="another-graph") as caught:
            checkpoint.belongs(told, where, graph=graph, program_sha256=sha256)
        assert caught.value.diagnostics[0].hint


def _truncate(folder: Path) -> None:
    path = folder / checkpoint.TENSORS
    path.write_bytes(path.read_bytes()[:-5])


def _flip(folder: Path) -> None:
    path = folder / checkpoint.TENSORS
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(bytes(data))


def _rename_key(folder: Path) -> None:
    path = folder / checkpoint.STATE
    path.write_bytes(path.read_bytes().replace(b'"version"', b'"verse"'))


def _older(folder: Path) -> None:
    path = folder / checkpoint.STATE
    path.write_bytes(path.read_bytes().replace(b"checkpoint/2", b"checkpoint/1"))


def _edit(folder: Path) -> None:
    path = folder / checkpoint.STATE
    path.write_bytes(path.read_bytes().replace(b'"trained": 10', b'"trained": 90'))


def _empty(folder: Path) -> None:
    (folder / checkpoint.STATE).write_bytes(b"")


@pytest.mark.parametrize("harm", [_truncate, _flip, _rename_key, _older, _edit, _empty])
def test_what_was_cut_short_or_altered_is_refused_with_its_place(tmp_path: Path, harm) -> None:
    folder, _ = checkpoint.save(tmp_path, tensors(), state(1))
    harm(folder)
    with pytest.raises(RunError) as caught:
        checkpoint.load(tmp_path)
    assert str(folder) in caught.value.diagnostics[0].where
    assert caught.value.diagnostics[0].hint


def test_a_folder_without_a_checkpoint_says_what_to_give(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="run directory"):
        checkpoint.load(tmp_path)


def test_the_state_is_plain_json(tmp_path: Path) -> None:
    folder, complete = checkpoint.save(tmp_path, tensors(), state(1))
    assert msgspec.json.decode((folder / checkpoint.STATE).read_bytes())["version"] == 1
    assert complete.tensors_sha256
