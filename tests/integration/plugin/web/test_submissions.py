"""Models that researchers submit over HTTP: what is taken, what is refused, and what becomes of it."""

import io
import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import threading
import zipfile
from collections.abc import Callable, Iterator
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet
from safetensors.numpy import save
from sqlalchemy import select

import outfox
from ml_backend.errors import SandboxUnavailable
from ml_backend.sandbox.process import check_sandbox
from plugin.web.data_files import DataBusy
from plugin.web.submission_routes import Receiving
from round_manager.errors import SubmissionsBusy
from round_manager.models import AuditEntry, ModelSubmission, SubmissionState
from round_manager.services import submission_runs
from round_manager.services.data_access import create_token, revoke_token
from round_manager.services.submission_supervisor import pending_submissions
from round_manager.services.submissions import cancel_submission, refuse_submissions, requeue_submission
from tests.fakes.foreign_models import save_onnx
from tests.integration.databases import Databases
from tests.integration.plugin.web.submitting import ADA, CSV, TASK, ZIP, Submitting, predictions, submitting, zipped

PARQUET = "application/vnd.apache.parquet"


@pytest.fixture
def site(any_databases: Databases, tmp_path: Path) -> Iterator[Submitting]:
    url = any_databases.migrated()
    with submitting(url, tmp_path) as found:
        yield found
    any_databases.drop(url)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_onnx(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture
def sandbox() -> None:
    """Skip where models of strangers cannot be isolated."""
    try:
        check_sandbox()
    except SandboxUnavailable as error:
        pytest.skip(f"this machine has no namespaces for a sandbox: {error}")


def failure(answer: Any) -> tuple[int, str]:
    assert answer.json["hint"] is None or set(answer.json["hint"]) == {"action", "params"}
    assert isinstance(answer.json["retry"], bool)
    return answer.status_code, answer.json["code"]


def right(site: Submitting) -> list[tuple[str, str]]:
    return [(row["id"], row["gold_label"]) for row in site.held_out()]


def import_hidden(site: Submitting, name: str, rows: int) -> None:
    texts = [f"{name} {number}." if number % 3 else f"An evening in May, {name} {number}." for number in range(rows)]
    labels = [("positive", "negative", "neutral")[number % 3] for number in range(rows)]
    frame = pd.DataFrame({"id": [f"{name}-{number}" for number in range(rows)], "text": texts, "label": labels})
    outfox.import_suite(
        frame, TASK, name, form="csv", source="here", licence="CC0-1.0", to=site.archives, hidden=True
    )  # fmt: skip


def results(site: Submitting) -> set[str]:
    """Return what is stored about models; descriptions of data sets are not."""
    files = (site.archives / TASK / "evaluations").rglob("*")
    return {path.name for path in files if path.is_file()} - {"data.json"}


@pytest.mark.usefixtures("sandbox")
def test_a_submitted_model_is_evaluated_in_the_sandbox_and_on_the_leaderboard(
    site: Submitting, model: Path, tmp_path: Path
) -> None:
    with_card = Path(shutil.copytree(model, tmp_path / "tiny"))
    (with_card / "README.md").write_text("By Ada.")
    site.allow(axes="performance,robustness,throughput,memory")
    for name, rows in (("exam", 60), ("quiz", 20)):
        import_hidden(site, name, rows)
    key = site.submitted(zipped(with_card, "tiny/"), ZIP, name="tiny", visibility="named")
    assert site.ask("GET", f"/{key}").json["position"] == 1  # type: ignore[index]
    ended = site.ended()
    assert ended.row.state is SubmissionState.SUCCEEDED, ended.row.message
    told = site.ask("GET", f"/{key}").json
    assert told["state"] == "succeeded"  # type: ignore[index]
    wanted = {"data": "round 1", "axis": "performance", "metric": "accuracy"}
    (accuracy,) = [one for one in told["results"] if wanted.items() <= one.items()]  # type: ignore[index]
    frame = site.stored()
    shown = frame[(frame[list(wanted)] == list(wanted.values())).all(axis=1) & (frame["slice"] == "")]
    assert shown["value"].tolist() == [accuracy["value"]]
    assert set(frame["model"]) == {"tiny"}
    measured = {"performance", "robustness", "throughput", "memory", "worst_round"}
    assert set(frame["axis"]) == {one["axis"] for one in told["results"]} == measured  # type: ignore[index]
    about = json.loads((site.archives / TASK / "evaluations/models" / f"{ended.row.model_id}.json").read_text())
    assert about["submitted"] is True
    assert results(site) > {"answers.parquet", f"{ended.row.model_id}.md"}
    # Neither few rows nor a part of them: the labels of single rows would follow.
    hidden = [one for one in told["results"] if one["data"].startswith("suite ")]  # type: ignore[index]
    assert {one["data"] for one in hidden} == {"suite exam"}
    assert {one["metric"] for one in hidden if one["n"] != 60} <= {"consistency"}
    assert site.ask("DELETE", f"/{key}").status_code == 204
    assert results(site) == set()
    assert site.run() is None


@pytest.mark.usefixtures("sandbox")
@pytest.mark.parametrize("form", [CSV, PARQUET])
def test_submitted_predictions_are_compared_with_the_gold_labels(site: Submitting, form: str) -> None:
    rows, body = right(site), b""
    if form == PARQUET:
        table = pa.table({"id": [one for one, _ in rows], "prediction": [label for _, label in rows]})
        written = io.BytesIO()
        parquet.write_table(table, written)
        body = written.getvalue()
    key = site.submitted(body or predictions(rows), form)
    assert site.ended().row.state is SubmissionState.SUCCEEDED
    results = site.ask("GET", f"/{key}").json["results"]  # type: ignore[index]
    assert [one["value"] for one in results if one["metric"] == "accuracy"][:1] == [100]
    assert set(site.stored()["model"]) == {f"anonymous-{key}"}, "names are hidden by default"


@pytest.mark.usefixtures("sandbox")
@pytest.mark.parametrize(
    ("change", "on", "code"),
    [
        (lambda rows: rows[:-1], "", "predictions_invalid"),
        (lambda rows: [*rows, rows[0]], "", "predictions_invalid"),
        (lambda rows: [*rows, ("nobody", "positive")], "round 1", "predictions_invalid"),
        (lambda rows: [(rows[0][0], "mixed"), *rows[1:]], "", "predictions_invalid"),
        (lambda rows: [(str(number), "positive") for number in range(5_000)], "", "predictions_invalid"),
        (lambda rows: rows, "/etc/passwd", "data_set_not_found"),
        (lambda rows: rows, "suite exam", "data_set_not_found"),
    ],
    ids=["missing", "duplicate", "unknown", "label", "many", "file", "hidden"],
)
def test_predictions_that_do_not_fit_fail_with_a_code_and_change_nothing(
    site: Submitting, change: Callable[[Any], Any], on: str, code: str
) -> None:
    import_hidden(site, "exam", 60)
    key = site.submitted(predictions(change(right(site))), on=on)
    assert site.ended().row.state is SubmissionState.FAILED
    told = site.ask("GET", f"/{key}").json["failure"]  # type: ignore[index]
    assert (told["code"], told["retry"], told["hint"]["action"]) == (code, False, "describe_submissions")
    assert "/etc/passwd" not in told["error"] or on
    assert results(site) == set()


def bomb_of(model: Path, folder: Path, size: list[int], products: int = 0) -> Path:
    """Copy a model, and let it fill a tensor of this size to answer, and multiply it with itself so many times."""
    bomb = Path(shutil.copytree(model, folder / "bomb"))
    loaded = onnx.load_model(bomb / "model.onnx")
    last = next(node for node in loaded.graph.node if "logits" in node.output)
    last.output[list(last.output).index("logits")] = "small"
    loaded.graph.initializer.append(onnx.helper.make_tensor("size", onnx.TensorProto.INT64, [len(size)], size))
    factors = [f"huge{number}" for number in range(products + 1)]
    loaded.graph.node.extend(
        [
            onnx.helper.make_node("ConstantOfShape", ["size"], factors[:1]),
            *(onnx.helper.make_node("MatMul", [one, one], [other]) for one, other in pairwise(factors)),
            onnx.helper.make_node("ReduceMax", factors[-1:], ["one"], keepdims=0),
            onnx.helper.make_node("Add", ["small", "one"], ["logits"]),
        ]
    )
    onnx.save_model(loaded, bomb / "model.onnx")
    return bomb


@pytest.mark.usefixtures("sandbox")
@pytest.mark.parametrize(
    ("limits", "size", "products", "code"),
    [
        ({"memory_mb": 2_000}, [1 << 30], 0, "model_memory_exceeded"),
        ({"seconds": 1}, [4_000, 4_000], 500, "model_time_exceeded"),
    ],
    ids=["memory", "time"],
)
def test_a_model_that_exceeds_its_limits_fails_and_changes_nothing(
    site: Submitting, model: Path, tmp_path: Path, limits: dict[str, int], size: list[int], products: int, code: str
) -> None:
    site.allow(**limits)
    site.submitted(zipped(bomb_of(model, tmp_path, size, products)), ZIP)
    ended = site.ended()
    assert (ended.row.state, ended.row.code) == (SubmissionState.FAILED, code), ended.row.message
    assert results(site) == set()


def entry(name: str, content: bytes = b"{}", mode: int = stat.S_IFREG | 0o644) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as packed:
        info = zipfile.ZipInfo(name)
        info.external_attr, info.compress_type = mode << 16, zipfile.ZIP_DEFLATED
        packed.writestr(info, content)
    return made.getvalue()


def model_with(changes: dict[str, bytes], *, weights: str = "model.safetensors") -> bytes:
    """A zip with the files of a tiny model, some of them changed."""
    files = {"config.json": b"{}", "tokenizer.json": b"{}", weights: save({"weight": np.zeros(1, np.float32)})}
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as packed:
        for name, content in (files | changes).items():
            packed.writestr(name, content)
    return made.getvalue()


def directory_of(entries: int) -> bytes:
    """A zip whose directory has very many entries."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as packed:
        for number in range(entries):
            packed.writestr(f"{number}{'x' * 200}", b"")
    return made.getvalue()


INDEX = b'{"weight_map": {"weight": "\\ud800"}}'
SURROGATE = b'{"id2label": {"0": "\\ud800", "1": "b"}}'


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (entry("pytorch_model.bin", b"\x80\x04."), (422, "model_file_unsafe")),
        (entry("tokenizer.py"), (422, "model_file_unsafe")),
        (entry("vocab.txt", b"/etc/passwd", stat.S_IFLNK | 0o777), (400, "submission_invalid")),
        (entry("../../escape.json"), (400, "submission_invalid")),
        (entry("/tmp/escape.json"), (400, "submission_invalid")),
        (entry("model.json"), (400, "submission_invalid")),
        (entry("config.json", b" " * 5_000_000), (400, "submission_invalid")),
        (entry("model.safetensors", b"\xff" * 100), (400, "submission_invalid")),
        (entry("bomb.txt", b"0" * 30_000_000), (413, "submission_too_large")),
        (entry("config.json"), (422, "model_file_corrupt")),
        (b"not a zip", (400, "submission_invalid")),
        (entry("a.json")[:-30], (400, "submission_invalid")),
        (b"", (400, "submission_invalid")),
        (b"x" * 25_000_000, (413, "submission_too_large")),
        (model_with({"config.json": b'{"num_labels": 1000000000}'}), (422, "model_file_corrupt")),
        (model_with({"config.json": SURROGATE}), (422, "model_mismatch")),
        (model_with({"model.safetensors.index.json": INDEX}, weights="other.txt"), (422, "model_file_corrupt")),
        (model_with({"README.md/x.txt": b""}), (400, "submission_invalid")),
        (model_with({"x.safetensors/x.txt": b""}), (400, "submission_invalid")),
        (model_with({f"{'a/' * 1_900}x.txt": b""}), (400, "submission_invalid")),
        (directory_of(5_000), (413, "submission_too_large")),
    ],
    ids=[
        *("pickle", "program", "link", "traversal", "absolute", "version", "settings", "header", "bomb", "incomplete"),
        *("not a zip", "cut off", "empty", "large"),
        *("labels", "surrogate", "index", "folder of the card", "folder of weights", "deep", "directory"),
    ],
)
def test_a_model_that_cannot_be_trusted_is_refused_and_nothing_is_kept(
    site: Submitting, body: bytes, expected: tuple[int, str]
) -> None:
    site.allow(file_bytes=20_000_000)
    answer = site.submit(body, ZIP)
    assert failure(answer) == expected, answer.text
    assert str(site.folder) not in answer.text
    assert not [path for path in (site.folder / "submissions").rglob("*") if path.is_file()]
    assert not (site.folder / "escape.json").exists()
    assert site.ask("GET").json == {"task": TASK, "submissions": []}


def test_labels_without_meaning_have_to_be_given(site: Submitting, tmp_path: Path, model: Path) -> None:
    plain = Path(shutil.copytree(model, tmp_path / "plain"))
    config = json.loads((plain / "config.json").read_text())
    config["id2label"] = {str(number): f"LABEL_{number}" for number in range(3)}
    (plain / "config.json").write_text(json.dumps(config))
    answer = site.submit(zipped(plain), ZIP)
    assert failure(answer) == (422, "label_mapping_unconfirmed")
    labels = answer.json["hint"]["params"]["labels"]  # type: ignore[index]
    key = site.submitted(zipped(plain), ZIP, labels=labels)
    other = "LABEL_0=positive,LABEL_1=neutral,LABEL_2=negative"
    assert site.submitted(zipped(plain), ZIP, labels=other, name="other") != key, "another mapping is another model"


@pytest.mark.parametrize(
    ("options", "kind", "expected"),
    [
        ({"name": ""}, CSV, (400, "submission_invalid")),
        ({"name": "<script>"}, CSV, (400, "submission_invalid")),
        ({"name": "x" * 61}, CSV, (400, "submission_invalid")),
        ({"visibility": "secret"}, CSV, (400, "submission_invalid")),
        ({"labels": "a=b"}, CSV, (400, "submission_invalid")),
        ({"labels": "a"}, ZIP, (400, "submission_invalid")),
        ({"on": "round 1"}, ZIP, (400, "submission_invalid")),
        ({}, "text/plain", (400, "submission_invalid")),
        ({}, PARQUET, (400, "submission_invalid")),
        ({"url": "http://169.254.169.254/"}, CSV, (403, "endpoint_not_allowed")),
        ({"endpoint": "https://example.com"}, ZIP, (403, "endpoint_not_allowed")),
        ({}, "application/json", (403, "endpoint_not_allowed")),
    ],
)
def test_a_request_that_is_not_a_submission_is_refused(
    site: Submitting, options: dict[str, str], kind: str, expected: tuple[int, str]
) -> None:
    answer = site.submit(b"id,prediction\na,positive\n", kind, **options)
    assert failure(answer) == expected


def test_nothing_is_taken_unless_the_owner_allows_it(site: Submitting) -> None:
    refuse_submissions(site.services, ADA, TASK)
    assert failure(site.submit(b"id,prediction\n")) == (403, "submissions_closed")


def test_only_a_valid_token_of_the_task_submits_and_sees_its_own(site: Submitting) -> None:
    other = create_token(site.services, ADA, TASK, days=30)
    key = site.submitted(b"id,prediction\na,positive\n")
    assert failure(site.submit(b"x", token="")) == (401, "data_refused")
    assert failure(site.submit(b"x", token="no-token")) == (401, "data_refused")
    assert failure(site.ask("GET", f"/{key}", token=other.secret)) == (404, "submission_not_found")
    assert failure(site.ask("DELETE", f"/{key}", token=other.secret)) == (404, "submission_not_found")
    assert site.ask("GET", token=other.secret).json == {"task": TASK, "submissions": []}
    assert failure(site.ask("GET", "/x%00y")) == (404, "submission_not_found")
    revoke_token(site.services, ADA, site.token.row.key)
    assert failure(site.ask("GET", f"/{key}")) == (401, "data_refused")


def test_the_same_content_is_the_same_submission(site: Submitting) -> None:
    body = b"id,prediction\na,positive\n"
    key = site.submitted(body)
    again = site.submit(body, name="other")
    assert (again.status_code, again.json["id"], again.json["name"]) == (200, key, "mine")  # type: ignore[index]
    other = create_token(site.services, ADA, TASK, days=30)
    assert failure(site.submit(body, token=other.secret)) == (409, "submission_duplicate")
    assert failure(site.submit(body + b"b,positive\n")) == (409, "submission_name_taken")


def test_each_token_has_its_limits(site: Submitting) -> None:
    def submit(number: int) -> Any:
        return site.submit(b"id,prediction\n" + b"a" * 100 * number, name=f"number {number}")

    site.allow(queued=1)
    assert submit(1).status_code == 201
    assert failure(submit(2)) == (429, "submission_quota_exceeded")
    site.allow(per_day=1)
    assert failure(submit(2)) == (429, "submission_quota_exceeded")
    site.clock.advance(timedelta(days=1, seconds=1))
    assert submit(2).status_code == 201
    site.clock.advance(timedelta(days=1, seconds=1))
    site.allow(total_bytes=500, queued=9)
    assert failure(submit(3)) == (429, "submission_quota_exceeded")
    site.allow(file_bytes=200, queued=9)
    assert failure(submit(4)) == (413, "submission_too_large")


def test_a_token_whose_submission_arrives_slowly_takes_one_place_only() -> None:
    receiving = Receiving()
    with receiving.slot(1):
        with pytest.raises(DataBusy), receiving.slot(1):
            pass
        with receiving.slot(2), pytest.raises(DataBusy), receiving.slot(3):
            pass
        with receiving.slot(3):
            pass
    with receiving.slot(1):
        pass


def test_a_submission_is_cancelled_and_removed(site: Submitting) -> None:
    key = site.submitted(b"id,prediction\na,positive\n")
    assert site.ask("DELETE", f"/{key}").json["state"] == "cancelled"  # type: ignore[index]
    assert site.run() is None
    assert site.ask("DELETE", f"/{key}").status_code == 204
    assert failure(site.ask("GET", f"/{key}")) == (404, "submission_not_found")
    assert not (site.folder / "submissions" / TASK / key).exists()
    with site.store.read() as session:
        wanted = select(AuditEntry.action).where(AuditEntry.subject == "model_submission").order_by(AuditEntry.id)
        assert list(session.scalars(wanted)) == ["submitted", "cancelled", "removed"]
    assert site.submit(b"id,prediction\na,positive\n").status_code == 201, "it can be submitted again"


def test_the_card_of_an_anonymous_model_is_not_kept(site: Submitting, model: Path, tmp_path: Path) -> None:
    with_card = Path(shutil.copytree(model, tmp_path / "tiny"))
    (with_card / "README.md").write_text("By Ada.")
    key = site.submitted(zipped(with_card), ZIP)
    assert "model.onnx" in {path.name for path in (site.folder / "submissions" / TASK / key / "model").iterdir()}
    assert not [*(site.folder / "submissions").rglob("README.md")]


@pytest.mark.usefixtures("sandbox")
def test_a_submission_is_evaluated_again_when_its_owner_asks(site: Submitting) -> None:
    key = site.submitted(predictions(right(site)))
    first = site.ended().row.results
    requeue_submission(site.services, ADA, TASK, key)
    again = site.ended()
    assert (again.row.state, again.row.results) == (SubmissionState.SUCCEEDED, first)


def test_without_a_sandbox_nothing_runs_and_the_queue_stays(site: Submitting, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise SandboxUnavailable("no namespaces")

    monkeypatch.setattr(submission_runs, "check_sandbox", refuse)
    key = site.submitted(b"id,prediction\na,positive\n")
    with pytest.raises(SandboxUnavailable):
        site.run()
    assert site.ask("GET", f"/{key}").json["state"] == "queued"  # type: ignore[index]


class Blocked:
    """An evaluation that waits until a test lets it go on."""

    def __init__(self) -> None:
        self.begun, self.end = threading.Event(), threading.Event()

    def __call__(self, context: Any, claimed: Any, ports: Any) -> Any:
        self.begun.set()
        assert self.end.wait(60)
        submission_runs._Watch(context, claimed).start(1, "")
        raise AssertionError("it was cancelled")


@pytest.mark.usefixtures("sandbox")
def test_two_processes_never_evaluate_the_same_submission_and_it_can_be_cancelled(
    site: Submitting, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocked = Blocked()
    monkeypatch.setattr(submission_runs, "_evaluate", blocked)
    key = site.submitted(b"id,prediction\na,positive\n")
    thread = threading.Thread(target=site.run)
    thread.start()
    try:
        assert blocked.begun.wait(60)
        with pytest.raises(SubmissionsBusy):
            site.run()
        assert pending_submissions(site.services, TASK) == 0, "its process lives"
        assert cancel_submission(site.services, ADA, TASK, key).row.state is SubmissionState.RUNNING
    finally:
        blocked.end.set()
        thread.join(60)
    assert site.ask("GET", f"/{key}").json["state"] == "cancelled"  # type: ignore[index]


KILLED = """
import os, signal, sys
from pathlib import Path
from round_manager.database.store import open_store
from round_manager.services import submission_runs
from tests.fakes.clock import SettableClock
from tests.integration.plugin.web.submitting import Submitting
submission_runs._evaluate = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
with open_store(sys.argv[1]) as store:
    Submitting(store, sys.argv[1], Path(sys.argv[2]), SettableClock(), None).run()
"""


@pytest.mark.usefixtures("sandbox")
def test_a_submission_whose_process_was_killed_is_found_again_but_not_for_ever(
    site: Submitting, monkeypatch: pytest.MonkeyPatch
) -> None:
    def kill() -> None:
        done = subprocess.run(
            [sys.executable, "-c", KILLED, site.url, str(site.folder)], cwd=Path.cwd(), env=os.environ, check=False
        )
        assert done.returncode == -signal.SIGKILL

    key = site.submitted(predictions(right(site)))
    kill()
    with site.store.read() as session:
        assert session.scalars(select(ModelSubmission.state)).one() is SubmissionState.RUNNING
    assert pending_submissions(site.services, TASK) == 1
    assert site.ended().row.state is SubmissionState.SUCCEEDED
    requeue_submission(site.services, ADA, TASK, key)
    kill()
    monkeypatch.setattr(submission_runs, "MOST_STARTS", 1)
    assert site.run() is None
    told = site.ask("GET", f"/{key}").json
    assert (told["state"], told["failure"]["code"]) == ("failed", "submission_interrupted")  # type: ignore[index]
