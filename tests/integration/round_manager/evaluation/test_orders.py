"""Orders of evaluations: another machine does the same work, with files that only the first one had."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from ml_backend.targets.sources import ModelSource
from round_manager.errors import ArchiveCorrupt, EvaluationOrderNotFound
from round_manager.evaluation.data_sets import DataSet, seed_data_set
from round_manager.evaluation.orders import Resolver, read_order, write_order
from round_manager.evaluation.storage import EvaluationStore, open_evaluations
from round_manager.evaluation.work import Candidate, Work
from templates import Pack, find_pack

TOKEN = "durable-7"


@pytest.fixture
def pack() -> Pack:
    return find_pack("sentiment")


@pytest.fixture
def store(tmp_path: Path) -> EvaluationStore:
    return open_evaluations(str(tmp_path / "archives"), "sentiment")


@pytest.fixture(params=["folder", "bucket"])
def any_store(request: pytest.FixtureRequest, tmp_path: Path) -> EvaluationStore:
    place = request.getfixturevalue("bucket") if request.param == "bucket" else str(tmp_path / "archives")
    return open_evaluations(place, "sentiment")


def folder_with_model(folder: Path) -> Path:
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    (folder / "model.safetensors").write_bytes(b"weights")
    (folder / "onnx").mkdir()
    (folder / "onnx" / "data").write_bytes(b"more weights")
    (folder / ".git").write_text("not a part of the model")
    return folder


def source(kind: str, directory: Path, version: str, pack: Pack) -> ModelSource:
    labels = pack.spec.label_names
    return ModelSource(kind, str(directory), version, "classification", pack.spec.model_input, labels)  # type: ignore[arg-type]


def resolver(store: EvaluationStore, tmp_path: Path) -> Resolver:
    there = tmp_path / "there"
    return Resolver(store, lambda version: there / "registry" / version, "/their/archives", there / "cache")


def test_another_machine_gets_equal_work_with_paths_of_its_own(
    any_store: EvaluationStore, pack: Pack, tmp_path: Path
) -> None:
    store = any_store
    held_out = [row for row in pack.seed if row.split == "held_out"][:5]
    seed = seed_data_set("seed", held_out, pack.spec)
    rows, predictions = tmp_path / "rows.csv", tmp_path / "predictions.csv"
    rows.write_text("text,label\nA day,neutral\n")
    predictions.write_text("id,prediction\nrow-1,neutral\n")
    file = DataSet("rows.csv", "file", "b" * 64, 1, pack.spec, str(rows))
    foreign = folder_with_model(tmp_path / "model")
    models = [
        Candidate("m0123456789ab", "ours", "version", source("version", tmp_path / "fetched", "m0123456789ab", pack)),
        Candidate("hf-7", "theirs", "huggingface", source("huggingface", foreign, "hf-7", pack)),
        Candidate("file-7", "answers", "predictions", predictions=str(predictions)),
    ]
    work = [
        Work("sentiment", model, data, ("performance",), "/my/archives", "/my/cache")
        for model in models
        for data in (seed, file)
    ]
    write_order(store, TOKEN, work, lambda version: version == "m0123456789ab")
    shutil.rmtree(foreign)
    rows.unlink()
    predictions.unlink()

    there = resolver(store, tmp_path)
    found = [there.work(piece) for piece in read_order(store, TOKEN)]
    for mine, theirs in zip(work, found, strict=True):
        assert (theirs.place, theirs.cache) == ("/their/archives", str(tmp_path / "there" / "cache"))
        assert theirs.data == replace(mine.data, place=theirs.data.place)
        assert (theirs.model.id, theirs.model.name, theirs.axes) == (mine.model.id, mine.model.name, mine.axes)
    ours, foreigner, answers = (found[place].model for place in (0, 2, 4))
    assert ours.source is not None
    assert ours.source.directory == str(tmp_path / "there" / "registry" / "m0123456789ab")
    assert foreigner.source is not None
    copied = Path(foreigner.source.directory)
    names = sorted(path.relative_to(copied).as_posix() for path in copied.rglob("*") if path.is_file())
    assert names == ["config.json", "model.safetensors", "onnx/data"]
    assert Path(answers.predictions).read_text() == "id,prediction\nrow-1,neutral\n"
    assert Path(found[1].data.place).read_text() == "text,label\nA day,neutral\n"
    text = (store.order(TOKEN) or b"").decode()
    assert str(tmp_path) not in text, "paths of this machine mean nothing on another one"


def test_an_order_that_is_not_in_the_archives_of_this_machine_is_an_error(store: EvaluationStore) -> None:
    with pytest.raises(EvaluationOrderNotFound):
        read_order(store, TOKEN)


@pytest.mark.parametrize("damage", ["content", "name", "list"])
def test_a_damaged_upload_is_not_used(store: EvaluationStore, pack: Pack, tmp_path: Path, damage: str) -> None:
    foreign = folder_with_model(tmp_path / "model")
    model = Candidate("hf-7", "theirs", "huggingface", source("huggingface", foreign, "hf-7", pack))
    seed = seed_data_set("seed", [row for row in pack.seed if row.split == "held_out"][:1], pack.spec)
    write_order(store, TOKEN, [Work("sentiment", model, seed, ("performance",), "", "")], lambda version: False)
    uploads = tmp_path / "archives" / "sentiment" / "evaluations" / "uploads"
    files = json.loads((uploads / "hf-7.json").read_text())
    if damage == "content":
        (uploads / "hf-7" / "model.safetensors").write_bytes(b"other weights")
    elif damage == "name":
        (uploads / "hf-7.json").write_text(json.dumps({"../../escaped": files["config.json"]}))
    else:
        (uploads / "hf-7.json").write_text("[1]")
    (piece,) = read_order(store, TOKEN)
    with pytest.raises(ArchiveCorrupt):
        resolver(store, tmp_path).work(piece)
    assert not (tmp_path / "there" / "cache" / "uploads" / "hf-7").exists()
