"""Confirmed examples of crowd workers are shown in the creation project, once, and never read back."""

import json
from typing import Any
from uuid import UUID

import pytest
from label_studio_sdk.label_interface.interface import LabelInterface

from round_manager.examples.attempts import link_late_attempts
from round_manager.labelstudio.crowd_upload import CrowdUpload
from round_manager.labelstudio.port import WORKER_FIELD
from round_manager.labelstudio.predictions import predict_tasks
from round_manager.labelstudio.sync import SyncResult
from round_manager.models import (
    Attempt,
    Example,
    ExampleStatus,
    LabelStudioAnnotation,
    LabelStudioTask,
    Source,
)
from round_manager.validation.decisions import decide_round
from tests.conftest import PACKS
from tests.fakes.target import FakeTarget
from tests.integration.round_manager.labelstudio.conftest import Hang
from tests.integration.round_manager.labelstudio.gallery import CREATE, VALIDATE, Gallery
from tests.unit.round_manager.labelstudio.test_parallel_processes import both


def test_a_confirmed_example_is_uploaded_as_submitted(gallery: Gallery) -> None:
    example = gallery.write()
    assert gallery.show() == CrowdUpload(sent=1)
    (task,) = gallery.shown()
    context = gallery.floor.one(example).fields["prompt"]
    title = gallery.pack.spec.label_title(str(example.label))
    assert {name: task.data[name] for name in task.data if name != WORKER_FIELD} == {
        "prompt": context, "target": example.label, "target_title": title,
    }  # fmt: skip
    (annotation,) = task.annotations
    values = {one["from_name"]: one["value"] for one in annotation["result"]}
    assert values["text"] == {"text": [example.fields["text"]]}
    assert "fooled" in values["feedback"]["text"][0]
    assert annotation["ground_truth"] is False
    assert gallery.crowd().shown == 1


def test_workers_appear_by_pseudonym_only(plain: Gallery) -> None:
    for worker in ("AUTHOR-1", "AUTHOR-1", "AUTHOR-2"):
        plain.write(worker)
    plain.show()
    shown = plain.shown()
    first, second, third = (task.data[WORKER_FIELD] for task in shown)
    assert first == second != third
    everything = json.dumps([[task.data, task.key, task.annotations] for task in shown])
    assert "AUTHOR" not in everything


@pytest.mark.parametrize("name", PACKS)
def test_uploads_of_every_pack_are_valid_for_label_studio(hang_up: Hang, name: str) -> None:
    gallery = hang_up(name)
    example = gallery.write()
    for worker in ("V1", "V2"):
        gallery.judge_as(worker, gallery.agreeing(example))
    # The policy decides whether answers agree; until then they are held back.
    decide_round(gallery.floor.store, gallery.floor.round, now=gallery.floor.now)
    assert gallery.show().sent == 3
    for kind in (CREATE, VALIDATE):
        interface: Any = LabelInterface(gallery.studio.projects[gallery.project(kind)]["label_config"])
        for task in gallery.shown(kind):
            assert interface.validate_task({"data": dict(task.data)})
            assert interface.validate_annotation({"result": task.annotations[0]["result"]})
            assert len(task.annotations[0]["result"]) >= (2 if kind is CREATE else 1)


def test_unconfirmed_examples_are_not_uploaded(gallery: Gallery) -> None:
    gallery.write("WAITING", confirmed=False)
    forged = gallery.floor.open("FORGED")
    gallery.floor.write_all(forged)
    gallery.floor.finish(forged)
    gallery.floor.confirm(forged, "SOMEBODY-ELSE")
    assert gallery.show() == CrowdUpload()
    assert "add_tasks" not in gallery.studio.calls
    assert gallery.crowd().waiting == 0


def test_withdrawn_examples_are_not_uploaded(plain: Gallery) -> None:
    example = plain.write()
    with plain.floor.write() as session:
        row = session.get_one(Example, example.id)
        row.status, row.decided_at = ExampleStatus.WITHDRAWN, plain.floor.now
    assert plain.show() == CrowdUpload()


def test_after_the_upload_label_studio_is_not_contacted_again(plain: Gallery) -> None:
    plain.write()
    plain.show()
    plain.studio.calls.clear()
    assert plain.show(until_done=True) == plain.show_later() == CrowdUpload()
    assert plain.studio.calls == []


def test_uploaded_work_is_never_read_back(plain: Gallery) -> None:
    plain.write()
    plain.show()
    assert plain.sync() == plain.sync(from_start=True) == SyncResult()
    plain.floor.close_round()
    assert plain.sync(from_start=True).left == 0
    assert plain.status().projects[0].unread == 0
    assert len(plain.floor.rows(Example)) == 1


def test_uploaded_work_is_not_read_back_without_the_worker_field(plain: Gallery) -> None:
    plain.write()
    plain.show()
    (task,) = plain.shown()
    plain.studio.annotate(task.id, list(task.annotations[0]["result"]), user=8)
    del task.data[WORKER_FIELD]  # type: ignore[attr-defined]
    assert plain.sync() == SyncResult()
    assert [row.source for row in plain.floor.rows(Example)] == [Source.PAGES]


def test_uploads_do_not_reduce_the_contexts_to_write_for(plain: Gallery) -> None:
    plain.write()
    plain.show()
    assert plain.push().contexts == 8
    assert plain.status().projects[0].counts.sent == 8


def test_owners_changes_of_uploaded_work_stay(gallery: Gallery) -> None:
    example = gallery.write()
    gallery.write("AUTHOR-2")
    gallery.show()
    edited, removed = gallery.shown()
    gallery.studio.edit(edited.id, edited.annotations[0]["id"], [])
    del gallery.studio.tasks[removed.id]
    assert gallery.sync() == SyncResult()
    assert gallery.show_later() == CrowdUpload()
    assert [task.annotations[0]["result"] for task in gallery.shown()] == [[]]
    assert gallery.floor.one(example).fields == example.fields


def test_a_new_project_gets_all_uploads_again(gallery: Gallery) -> None:
    gallery.write()
    gallery.show()
    del gallery.studio.projects[gallery.project()]
    gallery.connect()
    assert gallery.show() == CrowdUpload(sent=1)
    assert len(gallery.shown()) == 1
    assert gallery.show_later() == CrowdUpload()


def test_an_attempt_on_an_uploaded_task_is_not_its_authors(plain: Gallery) -> None:
    example = plain.write()
    plain.show()
    (place,) = plain.floor.rows(LabelStudioTask)
    (own,) = plain.floor.rows(Attempt)
    names = [column.name for column in Attempt.__table__.columns if column.name != "id"]
    like_it = {name: getattr(own, name) for name in names}
    nobodys = dict.fromkeys(("session_id", "worker_id", "example_id"))
    with plain.floor.write() as session:
        late = Attempt(**{**like_it, **nobodys, "public_id": UUID(int=7), "label_studio_task_id": place.id})
        session.add(late)
        session.flush()
        link_late_attempts(session, [late])
    assert plain.floor.one(late).worker_id is None
    assert plain.floor.one(own).worker_id == example.author_id


def test_uploaded_examples_can_be_predicted_in_bulk(plain: Gallery) -> None:
    plain.write()
    plain.show()
    predictor = FakeTarget(plain.pack.spec, "v1")
    done = predict_tasks(plain.store, plain.studio, plain.name, predictor, plain.floor.clock)
    assert (done.sent, done.lacking) == (1, 0)


def test_two_processes_upload_many_items_in_few_requests_and_each_once(gallery: Gallery) -> None:
    many(gallery, 249)
    sent = both(gallery.show)  # type: ignore[arg-type]
    assert len(sent) == 2, "one of them failed"
    gallery.show(until_done=True)
    keys = [task.key for task in gallery.shown()]
    assert len(keys) == len(set(keys)) == 250
    assert gallery.studio.changes.count("add_tasks") == 3
    assert None not in [row.external_id for row in gallery.floor.rows(LabelStudioAnnotation)]


def many(gallery: Gallery, count: int) -> None:
    """A worker's example, and more of the same session."""
    first = gallery.floor.one(gallery.write())
    names = [column.name for column in Example.__table__.columns if column.name not in ("id", "verdict_id")]
    like_it = {name: getattr(first, name) for name in names}
    with gallery.floor.write() as session:
        for number in range(1, count + 1):
            own = {"public_id": UUID(int=first.public_id.int + number), "item": number}
            session.add(Example(**{**like_it, **own}))
