"""Models of strangers in the sandbox: they answer as they do outside of it, and lies about answers are found."""

import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ml_backend.errors import (
    BackendError,
    ModelFileCorrupt,
    ModelMemoryExceeded,
    ModelOutputInvalid,
    ModelProcessEnded,
    SandboxUnavailable,
)
from ml_backend.sandbox.process import Sandbox, SandboxLimits, check_sandbox
from ml_backend.targets import sandboxed
from ml_backend.targets.footprint import peak_bytes
from ml_backend.targets.sources import ModelSource
from ml_backend.targets.target import Target
from tests.fakes.foreign_models import SENTIMENT, save_huggingface, save_onnx

LIMITS = SandboxLimits(seconds=300)
ROWS = [{"sentence": f"number {number} is {'good' if number % 2 else 'bad'}"} for number in range(300)]


@pytest.fixture(scope="module", autouse=True)
def _sandbox() -> None:
    try:
        check_sandbox()
    except SandboxUnavailable as error:
        pytest.skip(f"this machine has no namespaces for a sandbox: {error}")


def source(directory: Path, kind: Any, limits: SandboxLimits | None) -> ModelSource:
    return ModelSource(kind, str(directory), "x", "classification", ("sentence",), SENTIMENT, limits=limits)


@pytest.mark.parametrize("kind", ["huggingface", "onnx"])
def test_a_model_answers_in_the_sandbox_as_outside(tmp_path: Path, kind: str) -> None:
    directory = save_huggingface(tmp_path / "m") if kind == "huggingface" else save_onnx(tmp_path / "m")
    for path in directory.iterdir():
        path.chmod(0o644)  # As root, the process in the sandbox is another user.
    outside = source(directory, kind, None).open()
    inside = ModelSource.from_json(source(directory, kind, LIMITS).to_json()).open()
    assert isinstance(inside, sandboxed.SandboxedTarget)
    try:
        assert [one.text for one in inside.predict(ROWS)] == [one.text for one in outside.predict(ROWS)]
        assert [round(one.confidence, 4) for one in inside.predict(ROWS[:3])] == [
            round(one.confidence, 4) for one in outside.predict(ROWS[:3])
        ]
        assert inside.predict([]) == []
    finally:
        inside.close()


def test_the_memory_of_a_process_in_the_sandbox_is_what_the_system_counts(tmp_path: Path) -> None:
    directory = save_onnx(tmp_path / "m")
    outside, inside = (peak_bytes(source(directory, "onnx", limits), ROWS) for limits in (None, LIMITS))
    assert outside is not None
    assert inside is not None
    assert abs(inside - outside) < 100 << 20


def test_a_model_that_cannot_be_opened_says_why(tmp_path: Path) -> None:
    directory = save_onnx(tmp_path / "m")
    (directory / "model.onnx").write_bytes(b"not an ONNX file")
    with pytest.raises(ModelFileCorrupt):
        source(directory, "onnx", LIMITS).open()


def test_a_model_that_needs_more_memory_than_it_may_is_refused(tmp_path: Path) -> None:
    directory = save_onnx(tmp_path / "m")
    with pytest.raises((ModelMemoryExceeded, ModelProcessEnded)):
        source(directory, "onnx", replace(LIMITS, memory_bytes=128 << 20)).open().predict(ROWS)


@pytest.fixture
def liar(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Any]:
    """Return a target whose process gives these answers."""
    opened: list[sandboxed.SandboxedTarget] = []

    def lie(*answers: Any, kind: str = "classification") -> Target:
        lines = [json.dumps({"answer": None}), *(one if isinstance(one, str) else json.dumps(one) for one in answers)]
        code = (
            f"import sys\nfor line in {lines!r}:\n    sys.stdin.readline()\n    print(line, flush=True)\nwhile True: 0"
        )
        command = [sys.executable, "-I", "-S", "-c", code]
        monkeypatch.setattr(sandboxed, "Sandbox", lambda _command, *rest: Sandbox(command, *rest))
        fields = ("question", "passage") if kind == "qa" else ("sentence",)
        data = {"version": "x", "fields": fields, "labels": SENTIMENT, "task_kind": kind, "directory": str(tmp_path)}
        opened.append(sandboxed.SandboxedTarget(data, LIMITS))
        return opened[-1]

    yield lie
    for one in opened:
        one.close()


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        ({"answer": [[0.2, 0.3, 0.5], [1, 0, 0]]}, ModelOutputInvalid),
        ({"answer": [[0.5, 0.5]]}, ModelOutputInvalid),
        ({"answer": [[0.9, 0.9, 0.9]]}, ModelOutputInvalid),
        ({"answer": [[-1, 1, 1]]}, ModelOutputInvalid),
        ('{"answer": [[NaN, 0, 1]]}', ModelOutputInvalid),
        ({"answer": [["a", "b", "c"]]}, ModelOutputInvalid),
        ({"answer": [[True, False, False]]}, ModelOutputInvalid),
        ({"answer": {"accuracy": 100}}, ModelOutputInvalid),
        ("[" * 5_000, ModelOutputInvalid),
        ("9" * 7_000, ModelOutputInvalid),
        ("not JSON", ModelOutputInvalid),
        ({"error": "sandbox_unavailable", "reason": "a lie"}, ModelProcessEnded),
        ({"error": ["x"]}, ModelOutputInvalid),
        ({"error": "model_file_corrupt", "reason": "x\x1b[31m\n" * 200}, ModelFileCorrupt),
    ],
)
def test_answers_are_checked(liar: Any, answer: Any, error: type[BackendError]) -> None:
    with pytest.raises(error) as raised:
        liar(answer).predict(ROWS[:1])
    assert str(raised.value).isprintable()
    assert len(str(raised.value)) < 500


@pytest.mark.parametrize("span", [[0, 5, 2.0], [0, 99, 0.5], [-1, 2, 0.5], [3, 2, 0.5], [0.5, 2, 0.5]])
def test_spans_are_checked(liar: Any, span: list[float]) -> None:
    with pytest.raises(ModelOutputInvalid):
        liar({"answer": [span]}, kind="qa").predict([{"question": "What?", "passage": "A fox."}])


def test_a_span_is_a_part_of_the_passage(liar: Any) -> None:
    (found,) = liar({"answer": [[2, 5, 0.5]]}, kind="qa").predict([{"question": "What?", "passage": "A fox."}])
    assert (found.text, found.confidence) == ("fox", 0.5)
