import json
import shutil
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

import pytest

from plugin.cli import run
from templates import BUILT_IN
from tests.conftest import Outfox, Ran
from tests.fakes.trainer import without_quantisation

# In one process of a parallel run, or both would train.
pytestmark = pytest.mark.xdist_group("cli-model")

ROWS = 90


@dataclass(frozen=True)
class Small:
    """A pack with little data, and the model that was trained from it once for all tests."""

    pack: Path
    home: Path
    printed: str


@pytest.fixture(scope="module")
def trained_once(tmp_path_factory: pytest.TempPathFactory) -> Small:
    root = tmp_path_factory.mktemp("trained")
    pack = Path(shutil.copytree(BUILT_IN / "sentiment", root / "sentiment"))
    rows = (pack / "seed.jsonl").read_text(encoding="utf-8").splitlines()
    (pack / "seed.jsonl").write_text("\n".join(rows[:ROWS]), encoding="utf-8")
    printed, progress = StringIO(), StringIO()
    with redirect_stdout(printed), redirect_stderr(progress), without_quantisation():
        code = run(["--home", str(root / "home"), "model", "train", str(pack), "--mode", "head", "--json"])
    assert code == 0, progress.getvalue()
    assert "done in" in progress.getvalue(), "progress is printed without a terminal too"
    return Small(pack, root / "home", printed.getvalue())


@pytest.fixture
def small(trained_once: Small, tmp_path: Path) -> Small:
    """A copy in a separate home, which a test may change."""
    shutil.copytree(trained_once.home, tmp_path / "home")
    pack = Path(shutil.copytree(trained_once.pack, tmp_path / "sentiment"))
    return Small(pack, tmp_path / "home", trained_once.printed)


def model_folder(small: Small) -> Path:
    return small.home / "models" / "sentiment" / str(json.loads(small.printed)["version"])


def test_a_model_is_trained_listed_evaluated_and_queried(outfox: Outfox, small: Small) -> None:
    version = json.loads(small.printed)["version"]

    listed = json.loads(outfox("model", "list", "--json").out)
    assert [(one["task"], one["version"], one["mode"]) for one in listed] == [("sentiment", version, "head")]

    measured = json.loads(outfox("model", "evaluate", small.pack, "--json").out)
    assert measured["version"] == version
    assert measured["accuracy"] > 45, "three labels: a third is chance"

    text = "text=I loved every minute of it, a wonderful evening."
    (predicted,) = json.loads(outfox("model", "predict", small.pack, text, "--target", "negative", "--json").out)
    assert predicted["prediction"] == "positive"
    assert predicted["fooled"] is True
    assert sum(predicted["probabilities"].values()) == pytest.approx(1, abs=1e-3)


def test_rows_are_read_from_a_file(outfox: Outfox, small: Small, tmp_path: Path) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text("".join(json.dumps({"text": f"Row {number} was fine."}) + "\n" for number in range(70)))
    predicted = json.loads(outfox("model", "predict", small.pack, "--rows", rows, "--json").out)
    assert [one["text"] for one in predicted] == [f"Row {number} was fine." for number in range(70)]


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"\xff\xfe", 2),
        (b"{broken", 2),
        (b"[1]", 2),
        (b'{"text": 5}', 2),
        (b'{"text": "a", "text": "b"}', 2),
        (b'{"text": "half \\ud83d emoji"}', 0),
    ],
)
def test_an_unreadable_row_is_one_line_and_half_an_emoji_is_accepted(
    outfox: Outfox, small: Small, tmp_path: Path, line: bytes, code: int
) -> None:
    (tmp_path / "rows.jsonl").write_bytes(line + b"\n")
    ran = outfox("model", "predict", small.pack, "--rows", tmp_path / "rows.jsonl")
    assert ran.code == code, ran.err
    assert ran.err.count("\n") == (1 if code else 0)


def test_the_same_data_and_seed_give_the_same_version(outfox: Outfox, small: Small) -> None:
    first = json.loads(small.printed)["version"]
    with without_quantisation():
        second = json.loads(outfox("model", "train", small.pack, "--mode", "head", "--json").out)["version"]
    assert second == first


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("model", "predict", "sentiment", "text=x"), "model_not_found"),
        (("model", "evaluate", "sentiment", "--version", "mffffffffffff"), "model_not_found"),
        (("model", "train", "sentiment", "--parent", "mffffffffffff"), "model_not_found"),
        (("model", "train", "sentiment", "--rows", "/no/such/file"), "input_file_error"),
    ],
)
def test_a_missing_model_or_file_is_an_error_with_a_code(outfox: Outfox, arguments: tuple[str, ...], code: str) -> None:
    assert error_of(outfox(*arguments, "--json")) == code


def error_of(ran: Ran) -> str:
    """The code of the one error that a command with --json printed."""
    assert (ran.code, ran.out) == (2, ""), ran.err
    (line,) = ran.err.splitlines()
    return str(json.loads(line)["code"])


@pytest.mark.parametrize("version", ["mffffffffffff", "../../etc", "."])
def test_a_missing_version_is_not_found(outfox: Outfox, small: Small, version: str) -> None:
    assert error_of(outfox("model", "evaluate", small.pack, "--version", version, "--json")) == "model_not_found"


def test_a_truncated_model_is_refused(outfox: Outfox, small: Small) -> None:
    weights = model_folder(small) / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1000])
    assert error_of(outfox("model", "predict", small.pack, "text=x", "--json")) == "model_file_corrupt"


def test_a_pickle_next_to_a_model_is_refused(outfox: Outfox, small: Small) -> None:
    (model_folder(small) / "pytorch_model.bin").write_bytes(b"\x80\x04.")
    assert error_of(outfox("model", "predict", small.pack, "text=x", "--json")) == "model_file_unsafe"


@pytest.mark.parametrize("fault", ["pickle", "truncated"])
def test_a_base_model_that_is_unsafe_or_broken_trains_nothing(
    outfox: Outfox, small: Small, tmp_path: Path, fault: str
) -> None:
    base = Path(shutil.copytree(model_folder(small), tmp_path / "base"))
    shutil.rmtree(tmp_path / "home" / "models")
    if fault == "pickle":
        (base / "model.safetensors").rename(base / "pytorch_model.bin")
    else:
        (base / "model.safetensors").write_bytes((base / "model.safetensors").read_bytes()[:5000])
    settings = small.pack / "task.yaml"
    settings.write_text(settings.read_text().replace("base: embedded", f"base: {base}"))
    ran = outfox("model", "train", small.pack, "--mode", "head")
    assert ran.code == 2
    assert len([line for line in ran.err.splitlines() if line.startswith("outfox: ")]) == 1, ran.err
    assert "Traceback" not in ran.err
    assert not list((tmp_path / "home").glob("models/**/*.safetensors"))
