import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import Outfox

CopyOf = Callable[[str], Path]


@pytest.fixture
def small(copy_of: CopyOf) -> Path:
    """The sentiment pack with a tenth of its data, so that training takes a second."""
    folder = copy_of("sentiment")
    rows = (folder / "seed.jsonl").read_text(encoding="utf-8").splitlines()
    (folder / "seed.jsonl").write_text("\n".join(rows[:150]), encoding="utf-8")
    return folder


def test_a_model_is_trained_listed_measured_and_asked(outfox: Outfox, small: Path) -> None:
    trained = outfox("model", "train", small, "--mode", "head", "--json")
    assert trained.code == 0, trained.err
    version = json.loads(trained.out)["version"]

    listed = json.loads(outfox("model", "list", "--json").out)
    assert [(one["task"], one["version"], one["mode"]) for one in listed] == [("sentiment", version, "head")]

    measured = json.loads(outfox("model", "evaluate", small, "--json").out)
    assert measured["version"] == version
    assert measured["accuracy"] > 45, "three labels: a third is chance"

    text = "text=I loved every minute of it, a wonderful evening."
    (said,) = json.loads(outfox("model", "predict", small, text, "--target", "negative", "--json").out)
    assert said["prediction"] == "positive"
    assert said["fooled"] is True
    assert sum(said["probabilities"].values()) == pytest.approx(1, abs=1e-3)


def test_many_rows_are_asked_from_a_file(outfox: Outfox, small: Path, tmp_path: Path) -> None:
    assert outfox("model", "train", small, "--mode", "head").code == 0
    rows = tmp_path / "rows.jsonl"
    rows.write_text("".join(json.dumps({"text": f"Row {number} was fine."}) + "\n" for number in range(70)))
    said = json.loads(outfox("model", "predict", small, "--rows", rows, "--json").out)
    assert [one["text"] for one in said] == [f"Row {number} was fine." for number in range(70)]


def test_the_same_data_and_seed_give_the_same_version(outfox: Outfox, small: Path) -> None:
    first = json.loads(outfox("model", "train", small, "--mode", "head", "--json").out)["version"]
    second = json.loads(outfox("model", "train", small, "--mode", "head", "--json").out)["version"]
    assert first == second


def test_progress_is_told_where_there_is_no_terminal(outfox: Outfox, small: Path) -> None:
    assert "done in" in outfox("model", "train", small, "--mode", "head").err


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("model", "predict", "sentiment", "text=x"), "outfox model train"),
        (("model", "evaluate", "sentiment", "--version", "mffffffffffff"), "mffffffffffff"),
        (("model", "evaluate", "sentiment", "--version", "../../etc"), "../../etc"),
        (("model", "train", "sentiment", "--parent", "mffffffffffff"), "mffffffffffff"),
        (("model", "train", "sentiment", "--rows", "/no/such/file"), "no file"),
    ],
)
def test_a_model_that_is_not_there_is_one_line(outfox: Outfox, arguments: tuple[str, ...], expected: str) -> None:
    ran = outfox(*arguments)
    assert (ran.code, ran.err.count("\n")) == (2, 1), ran.err
    assert expected in ran.err


def _trained(outfox: Outfox, small: Path) -> Path:
    return Path(json.loads(outfox("model", "train", small, "--mode", "head", "--json").out)["folder"])


def test_a_truncated_model_is_refused_in_one_line(outfox: Outfox, small: Path) -> None:
    weights = _trained(outfox, small) / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1000])
    ran = outfox("model", "predict", small, "text=x")
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1), ran.err


def test_a_pickle_beside_a_model_is_refused_in_one_line(outfox: Outfox, small: Path) -> None:
    (_trained(outfox, small) / "pytorch_model.bin").write_bytes(b"\x80\x04.")
    ran = outfox("model", "predict", small, "text=x")
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1), ran.err


@pytest.mark.parametrize("spoil", ["pickle", "truncated"])
def test_a_base_model_that_is_unsafe_or_broken_trains_nothing(
    outfox: Outfox, small: Path, tmp_path: Path, spoil: str
) -> None:
    base = Path(shutil.copytree(_trained(outfox, small), tmp_path / "base"))
    shutil.rmtree(tmp_path / "home" / "models")
    if spoil == "pickle":
        (base / "model.safetensors").rename(base / "pytorch_model.bin")
    else:
        (base / "model.safetensors").write_bytes((base / "model.safetensors").read_bytes()[:5000])
    settings = small / "task.yaml"
    settings.write_text(settings.read_text().replace("base: embedded", f"base: {base}"))
    ran = outfox("model", "train", small, "--mode", "head")
    assert ran.code == 2
    assert len([line for line in ran.err.splitlines() if line.startswith("outfox: ")]) == 1, ran.err
    assert "Traceback" not in ran.err
    assert not list((tmp_path / "home").glob("models/**/*.safetensors"))
