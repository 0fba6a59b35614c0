"""Label Studio's calls against a real backend of two processes."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from templates import Pack, find_pack
from templates.payloads import sample_annotation, sample_task
from tests.conftest import PACKS
from tests.fakes import calls
from tests.integration.ml_backend.serving.running import Running, running, wait_for

pytestmark = pytest.mark.xdist_group("serving-protocol")

TOKEN = "5ec4e7a11abe15000000000000000000000cafe5"
TYPED = "What a perfectly private sentence."


@pytest.fixture(scope="module")
def backend(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("backend") / "folder", workers=2) as found:
        yield found


def in_words_of(pack: Pack, body: dict[str, Any]) -> dict[str, Any]:
    """Return a recorded call changed to one of our packs: its config, its data and its field names."""
    names = {"question": pack.spec.with_role("input")[0].name, "context": pack.spec.with_role("context")[0].name}
    body = json.loads(json.dumps(body))
    body["label_config"] = pack.create_xml
    body["tasks"][0]["data"] = sample_task(pack, "create")["data"]
    for result in (body["params"]["context"] or {}).get("result", []):
        result["from_name"] = names.get(result["from_name"], result["from_name"])
        result["to_name"] = names[result["to_name"]]
    return body


@pytest.mark.skipif(not calls.RECORDED.is_dir(), reason=f"the recorded calls are not in {calls.RECORDED}")
@pytest.mark.parametrize("name", PACKS)
def test_recorded_calls_are_answered_for_every_pack(backend: Running, name: str) -> None:
    pack = find_pack(name)
    bulk = backend.predict(name, in_words_of(pack, calls.recorded("predict_bulk")))
    assert (bulk.status, bulk.json["results"][0]["result"]) == (200, [])
    written = backend.predict(name, in_words_of(pack, calls.recorded("predict_interactive_qa_textarea")))
    assert written.status == 200
    (sentence,) = calls.shown(written.json)
    assert "75%" in sentence
    assert written.json["model_version"] == "v1"
    setup = calls.recorded("setup") | {"schema": pack.create_xml}
    assert backend.request("POST", f"/tasks/{name}/setup", setup).json == {"model_version": "v1"}


@pytest.mark.skipif(not calls.RECORDED.is_dir(), reason=f"the recorded calls are not in {calls.RECORDED}")
def test_recorded_calls_of_another_project_are_refused(backend: Running) -> None:
    for name in ("predict_bulk", "predict_interactive_qa_labels", "predict_interactive_qa_textarea"):
        answer = backend.predict("qa", calls.recorded(name))
        assert answer.status == 422
        assert answer.json["code"] == "labelling_config_mismatch"


def test_a_question_and_its_selection_are_joined_across_processes(backend: Running) -> None:
    pack = find_pack("qa")
    data = sample_task(pack, "create")["data"]
    answer = next(one["value"] for one in sample_annotation(pack, "create")["result"] if one["from_name"] == "answer")
    for task in range(100, 112):
        asked = backend.predict("qa", calls.predict(pack, calls.writes(pack, "Who?"), task=task))
        assert calls.shown(asked.json)[0].startswith("The model answers")
        context = calls.selects(pack, data["passage"], answer["text"])
        reply = backend.predict("qa", calls.predict(pack, context, task=task))
        assert calls.shown(reply.json)[0].startswith(("You fooled the model!", "Not fooled"))


def test_attempts_are_counted_across_processes(backend: Running) -> None:
    pack = find_pack("sentiment")
    for number in range(1, 9):
        context = calls.writes(pack, f"Try number {number}.")
        (said,) = calls.shown(backend.predict("sentiment", calls.predict(pack, context, task=500)).json)
        assert f"attempt {number} of 10" in said


def test_the_metrics_cover_all_processes(backend: Running) -> None:
    pack = find_pack("nli")
    body = calls.predict(pack, calls.writes(pack, "It rains."))

    def counted() -> float:
        page = backend.request("GET", "/metrics").body.decode()
        lines = [one for one in page.splitlines() if 'status="200",task="nli",what="predict"' in one]
        return sum(float(line.rpartition(" ")[2]) for line in lines)

    before = counted()
    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(lambda _: backend.predict("nli", body).status, range(40)))
    assert answers == [200] * 40
    wait_for(lambda: counted() == before + 40, "all forty on the page")


def test_every_verdict_is_delivered(backend: Running) -> None:
    pack = find_pack("hate_speech")
    for number in range(5):
        backend.predict("hate_speech", calls.predict(pack, calls.writes(pack, f"Text {number}."), task=number + 900))
    texts = {f"Text {number}." for number in range(5)}
    wait_for(lambda: texts <= {one["fields"].get("text") for one in backend.delivered()}, "delivered")


def contents(folder: Path) -> dict[Path, bytes]:
    """Every file of the folder; a server may delete one while they are read."""
    found = {}
    for path in folder.rglob("*"):
        with suppress(FileNotFoundError):
            if path.is_file():
                found[path] = path.read_bytes()
    return found


def test_tokens_are_neither_logged_nor_stored(backend: Running) -> None:
    pack = find_pack("sentiment")
    hook = {"action": "ANNOTATION_CREATED", "project": {"id": 14, "token": TOKEN}}
    assert backend.request("POST", "/tasks/sentiment/setup", calls.setup(pack, TOKEN)).status == 200
    assert backend.request("POST", "/tasks/qa/setup", calls.setup(pack, TOKEN)).status == 422
    assert backend.request("POST", "/tasks/sentiment/webhook", hook).status == 204
    cut_off = json.dumps(calls.setup(pack, TOKEN)).encode()[:-9]
    assert backend.request("POST", "/tasks/sentiment/setup", cut_off).status == 400
    assert backend.predict("sentiment", calls.predict(pack, calls.writes(pack, TYPED))).status == 200
    wait_for(lambda: any(one["fields"].get("text") == TYPED for one in backend.delivered()), "delivered")
    assert TOKEN not in json.dumps(backend.status())
    folders = (backend.folder, backend.shared_folder())
    assert backend.log in contents(backend.folder)
    assert contents(backend.shared_folder())
    assert not any(TOKEN.encode() in content for folder in folders for content in contents(folder).values())
    # An attempt leaves the outbox a moment after it was delivered.
    wait_for(
        lambda: (
            {path.name for folder in folders for path, content in contents(folder).items() if TYPED.encode() in content}
            == {"delivered.jsonl"}
        ),
        "the text is in no other file",
    )
