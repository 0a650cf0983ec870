"""Checkpoints are whole or not there, and what was altered is refused."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
import torch

from ebrl.errors import RunError
from ebrl.runtime import checkpoint


def state(version: int) -> checkpoint.State:
    return checkpoint.State(
        version=version,
        trained=version * 10,
        graph="g",
        program_sha256="p",
        tensors_sha256="",
        weights_sha256="w",
        seed=3,
        learner={"rate": 0.5},
    )


def test_what_was_saved_is_what_is_loaded(tmp_path: Path) -> None:
    tensors = {"a": torch.arange(6.0).reshape(2, 3), "b": torch.tensor([1, 2])}
    checkpoint.save(tmp_path, tensors, state(4))
    loaded, told = checkpoint.load(tmp_path)
    assert all(torch.equal(loaded[name], tensors[name]) for name in tensors)
    assert (told.version, told.trained, told.learner) == (4, 40, {"rate": 0.5})


def test_the_newest_few_are_kept_and_latest_names_the_last(tmp_path: Path) -> None:
    for version in range(1, 6):
        checkpoint.save(tmp_path, {"a": torch.zeros(1)}, state(version), keep=2)
    assert sorted(path.name for path in tmp_path.glob("v*")) == ["v00000004", "v00000005"]
    assert checkpoint.resolve(tmp_path).name == "v00000005"


def test_one_that_fails_in_the_middle_leaves_the_one_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoint.save(tmp_path, {"a": torch.ones(3)}, state(1))

    def full_disk(path: Path) -> str:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(checkpoint, "_sha256", full_disk)
    with pytest.raises(OSError, match="No space"):
        checkpoint.save(tmp_path, {"a": torch.zeros(3)}, state(2))
    monkeypatch.undo()
    loaded, told = checkpoint.load(tmp_path)
    assert told.version == 1
    assert loaded["a"].tolist() == [1, 1, 1]
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".v")] == []


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


def _empty(folder: Path) -> None:
    (folder / checkpoint.STATE).write_bytes(b"")


@pytest.mark.parametrize("harm", [_truncate, _flip, _rename_key, _empty])
def test_what_was_cut_short_or_altered_is_refused_with_its_place(tmp_path: Path, harm) -> None:
    folder, _ = checkpoint.save(tmp_path, {"a": torch.ones(3)}, state(1))
    harm(folder)
    with pytest.raises(RunError) as caught:
        checkpoint.load(tmp_path)
    assert str(folder) in caught.value.diagnostics[0].where
    assert caught.value.diagnostics[0].hint


def test_a_folder_without_a_checkpoint_says_what_to_give(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="run directory"):
        checkpoint.load(tmp_path)


def test_the_state_is_plain_json(tmp_path: Path) -> None:
    folder, complete = checkpoint.save(tmp_path, {"a": torch.ones(3)}, state(1))
    assert msgspec.json.decode((folder / checkpoint.STATE).read_bytes())["version"] == 1
    assert complete.tensors_sha256
