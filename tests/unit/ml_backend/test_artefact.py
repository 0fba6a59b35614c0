import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from common.errors import Hint
from ml_backend import artefact
from ml_backend.artefact import list_versions, read_manifest, verify, version_folder, write_version
from ml_backend.errors import ModelFileCorrupt, ModelFileNotWritable, ModelNotFound
from ml_backend.targets.loading import load_target
from ml_backend.targets.torch_runtime import open_network, open_tokenizer, save_network
from templates.spec import TrainingSettings
from tests.unit.ml_backend.conftest import visible

Save = Callable[[Path], None]


def content(**changed: Any) -> dict[str, Any]:
    """A manifest but for what writing adds."""
    labels = ("positive", "negative")
    figures = {"precision": 50.0, "recall": 50.0, "f1": 50.0, "support": 1}
    return {
        "format": 1,
        "task": "sentiment",
        "kind": "classification",
        "labels": list(labels),
        "model_input": ["text"],
        "max_length": 64,
        "doc_stride": 64,
        "longest_answer": 30,
        "mode": "full",
        "parent": None,
        "base": "tiny",
        "base_sha256": "0" * 64,
        "training": TrainingSettings().model_dump(mode="json"),
        "train": {"sha256": "1" * 64, "rows": 8},
        "held_out": {"sha256": "2" * 64, "rows": 2},
        "metrics": {"accuracy": 50.0, "macro_f1": 50.0, "labels": dict.fromkeys(labels, figures)},
        "code_version": "0",
        "created_at": "2027-03-01T12:00:00+00:00",
        **changed,
    }


@pytest.fixture(scope="module")
def save(tiny_base: Path) -> Save:
    """Writes a tiny classifier."""
    network = open_network(tiny_base, "classification", ["positive", "negative"]).network
    tokenizer = open_tokenizer(tiny_base)
    return lambda folder: save_network(folder, network, tokenizer)


@pytest.fixture
def stored(save: Save, tmp_path: Path) -> Path:
    return write_version(tmp_path, content(), save)[0]


def edit(directory: Path, change: Callable[[dict[str, Any]], None]) -> None:
    file = directory / "model.json"
    manifest = json.loads(file.read_text())
    change(manifest)
    file.write_text(json.dumps(manifest))


def test_a_stored_version_is_complete_and_described(stored: Path, tmp_path: Path) -> None:
    manifest = verify(stored)
    assert stored == tmp_path / "sentiment" / manifest.version
    assert {"config.json", "model.safetensors", "tokenizer.json", "README.md"} <= manifest.files.keys()
    assert manifest.version in (stored / "README.md").read_text()
    assert load_target(stored).version == manifest.version
    assert all(path.stat().st_mode & 0o044 == 0o044 for path in stored.iterdir()), "a server may run as another user"


def test_no_path_is_written(stored: Path, tiny_base: Path) -> None:
    for path in stored.iterdir():
        assert str(tiny_base.parent).encode() not in path.read_bytes()
        assert sys.prefix.encode() not in path.read_bytes()


def test_the_same_content_is_the_same_version_and_the_first_one_stays(save: Save, tmp_path: Path) -> None:
    first, _ = write_version(tmp_path, content(), save)
    later = content(created_at="2028-01-01T00:00:00+00:00", code_version="1")
    again, manifest = write_version(tmp_path, later, save)
    assert again == first
    assert manifest.created_at == "2027-03-01T12:00:00+00:00"
    assert visible(tmp_path) == [first.name]


@pytest.mark.parametrize(
    "other",
    [{"max_length": 32}, {"train": {"sha256": "3" * 64, "rows": 8}}, {"mode": "head"}, {"base_sha256": "4" * 64}],
)
def test_other_content_is_another_version(save: Save, tmp_path: Path, other: dict[str, Any]) -> None:
    first, _ = write_version(tmp_path, content(), save)
    second, _ = write_version(tmp_path, content(**other), save)
    assert first != second


@pytest.mark.parametrize("failing", ["_record", "flush", "card_of", "version_of"])
def test_a_write_that_fails_anywhere_leaves_nothing(
    save: Save, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    def full_disk(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(artefact, failing, full_disk)
    with pytest.raises(ModelFileNotWritable):
        write_version(tmp_path, content(), save)
    assert list((tmp_path / "sentiment").iterdir()) == []


def test_a_rename_that_fails_leaves_nothing(save: Save, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Path, target: Path) -> Path:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "rename", refuse)
    with pytest.raises(ModelFileNotWritable):
        write_version(tmp_path, content(), save)
    assert list((tmp_path / "sentiment").iterdir()) == []


def test_a_killed_writer_leaves_no_visible_version(tmp_path: Path) -> None:
    program = (
        "import sys, time\n"
        "from pathlib import Path\n"
        "from ml_backend.artefact import write_version\n"
        "def save(folder):\n"
        "    (folder / 'model.safetensors').write_bytes(b'half')\n"
        "    print('writing', flush=True)\n"
        "    time.sleep(600)\n"
        f"write_version(Path({str(tmp_path)!r}), {content()!r}, save)\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "writing\n"
        os.kill(writer.pid, signal.SIGKILL)
    (left,) = (tmp_path / "sentiment").iterdir()
    assert left.name.startswith(".")
    assert list_versions(tmp_path) == []


def test_drafts_of_killed_writers_are_removed_after_a_day(save: Save, tmp_path: Path) -> None:
    for name, age in ((".writing-old", 25 * 3600), (".writing-new", 3600)):
        left = tmp_path / "sentiment" / name
        left.mkdir(parents=True)
        (left / "model.safetensors").write_bytes(b"half")
        os.utime(left, (time.time() - age,) * 2)
    write_version(tmp_path, content(), save)
    assert not (tmp_path / "sentiment" / ".writing-old").exists()
    assert (tmp_path / "sentiment" / ".writing-new").exists(), "its writer may still be at it"


@pytest.mark.parametrize("file", ["model.safetensors", "config.json", "tokenizer.json", "README.md"])
def test_a_changed_file_is_refused(stored: Path, file: str) -> None:
    data = bytearray((stored / file).read_bytes())
    data[-2] ^= 1
    (stored / file).write_bytes(data)
    with pytest.raises(ModelFileCorrupt):
        load_target(stored)


def test_an_extra_file_is_refused(stored: Path) -> None:
    (stored / "more.txt").write_text("hello")
    with pytest.raises(ModelFileCorrupt):
        verify(stored)


def test_a_missing_file_is_refused(stored: Path) -> None:
    (stored / "tokenizer_config.json").unlink()
    with pytest.raises(ModelFileCorrupt):
        verify(stored)


def test_a_link_in_place_of_a_file_is_refused(stored: Path, tmp_path: Path) -> None:
    card = stored / "README.md"
    card.rename(tmp_path / "elsewhere.md")
    card.symlink_to(tmp_path / "elsewhere.md")
    with pytest.raises(ModelFileCorrupt):
        verify(stored)


def test_swapped_labels_are_noticed(stored: Path) -> None:
    edit(stored, lambda manifest: manifest["labels"].reverse())
    with pytest.raises(ModelFileCorrupt):
        read_manifest(stored)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("format", 2),
        ("format", None),
        ("version", "../../etc"),
        ("task", "Not A Name"),
        ("labels", "positive"),
        ("max_length", -1),
        ("max_length", 10**9),
        ("files", {}),
        ("files", {"../secret": {"sha256": "0" * 64, "size": 1}}),
        ("created_at", "yesterday"),
        ("kind", "poetry"),
        ("surprise", 1),
    ],
)
def test_a_manifest_with_an_invalid_value_is_refused(stored: Path, key: str, value: object) -> None:
    edit(stored, lambda manifest: manifest.__setitem__(key, value))
    with pytest.raises(ModelFileCorrupt) as caught:
        read_manifest(stored)
    assert "\n" not in str(caught.value)
    assert "model.json" in str(caught.value)


@pytest.mark.parametrize("text", ["", "[]", "{", "[" * 50_000, "\ufeff{}", '{"format": NaN}', "x" * 2_000_000])
def test_an_invalid_manifest_is_refused(stored: Path, text: str) -> None:
    (stored / "model.json").write_text(text, encoding="utf-8")
    with pytest.raises(ModelFileCorrupt):
        read_manifest(stored)


def test_versions_are_listed_newest_first_and_by_task(save: Save, tmp_path: Path) -> None:
    days = [datetime(2027, 3, day, tzinfo=UTC).isoformat() for day in (1, 2, 3)]
    old, _ = write_version(tmp_path, content(created_at=days[0]), save)
    new, _ = write_version(tmp_path, content(created_at=days[2], max_length=32), save)
    write_version(tmp_path, content(created_at=days[1], task="other"), save)
    assert [manifest.created_at for manifest in list_versions(tmp_path)] == days[::-1]
    assert [manifest.version for manifest in list_versions(tmp_path, "sentiment")] == [new.name, old.name]
    assert version_folder(tmp_path, "sentiment") == new
    assert version_folder(tmp_path, "sentiment", old.name) == old


def test_one_broken_version_does_not_hide_the_others(save: Save, tmp_path: Path) -> None:
    kept, _ = write_version(tmp_path, content(), save)
    broken, _ = write_version(tmp_path, content(max_length=32), save)
    (broken / "model.json").write_text("{")
    kept.parent.joinpath("notes").mkdir()
    assert [manifest.version for manifest in list_versions(tmp_path)] == [kept.name]


def test_a_folder_under_a_wrong_name_is_not_that_version(stored: Path, tmp_path: Path) -> None:
    stored.rename(stored.with_name("mffffffffffff"))
    assert list_versions(tmp_path) == []


def test_a_missing_version_is_not_found_and_has_a_hint(stored: Path, tmp_path: Path) -> None:
    with pytest.raises(ModelNotFound) as unknown:
        version_folder(tmp_path, "sentiment", "mffffffffffff")
    assert unknown.value.hint == Hint("list_models", task="sentiment")
    with pytest.raises(ModelNotFound) as none_yet:
        version_folder(tmp_path, "nli")
    assert none_yet.value.hint == Hint("train_model", task="nli")


def test_no_models_at_all_is_an_empty_list(tmp_path: Path) -> None:
    assert list_versions(tmp_path / "nothing") == []
