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
from tests.campaign import Campaign
from tests.campaign.label_studio import CREATE, VALIDATE
from tests.conftest import PACKS
from tests.fakes.target import FakeTarget
from tests.integration.round_manager.labelstudio.conftest import ConnectCampaign
from tests.unit.round_manager.labelstudio.test_parallel_processes import both


def test_a_confirmed_example_is_uploaded_as_submitted(campaign: Campaign) -> None:
    example = campaign.write_example()
    assert campaign.upload_work() == CrowdUpload(sent=1)
    (task,) = campaign.uploaded_tasks()
    context = campaign.reload(example).fields["prompt"]
    title = campaign.spec.label_title(str(example.label))
    assert {name: value for name, value in task.data.items() if value and name != WORKER_FIELD} == {
        "prompt": context, "target": example.label, "target_title": title,
    }  # fmt: skip
    (annotation,) = task.annotations
    values = {one["from_name"]: one["value"] for one in annotation["result"]}
    assert values["text"] == {"text": [example.fields["text"]]}
    assert "fooled" in values["feedback"]["text"][0]
    assert annotation["ground_truth"] is False
    assert campaign.crowd_counts().shown == 1


def test_workers_appear_by_pseudonym_only(any_campaign: Campaign) -> None:
    for worker in ("AUTHOR-1", "AUTHOR-1", "AUTHOR-2"):
        any_campaign.write_example(worker)
    any_campaign.upload_work()
    shown = any_campaign.uploaded_tasks()
    first, second, third = (task.data[WORKER_FIELD] for task in shown)
    assert first == second != third
    everything = json.dumps([[task.data, task.key, task.annotations] for task in shown])
    assert "AUTHOR" not in everything


@pytest.mark.parametrize("name", PACKS)
def test_uploads_of_every_pack_are_valid_for_label_studio(connect: ConnectCampaign, name: str) -> None:
    campaign = connect(name)
    example = campaign.write_example()
    for worker in ("V1", "V2"):
        campaign.judge_as(worker, campaign.agreeing(example))
    # The policy decides whether answers agree; until then they are held back.
    decide_round(campaign.store, campaign.round, now=campaign.now)
    assert campaign.upload_work().sent == 3
    for kind in (CREATE, VALIDATE):
        interface: Any = LabelInterface(campaign.studio.projects[campaign.project(kind)]["label_config"])
        for task in campaign.uploaded_tasks(kind):
            assert interface.validate_task({"data": dict(task.data)})
            assert interface.validate_annotation({"result": task.annotations[0]["result"]})
            assert len(task.annotations[0]["result"]) >= (2 if kind is CREATE else 1)


@pytest.mark.any_database
def test_unconfirmed_examples_are_not_uploaded(campaign: Campaign) -> None:
    campaign.write_example("WAITING", confirmed=False)
    forged = campaign.open_page("FORGED")
    campaign.write_examples(forged)
    campaign.finish_page(forged)
    campaign.confirm(forged, "SOMEBODY-ELSE")
    assert campaign.upload_work() == CrowdUpload()
    assert "add_tasks" not in campaign.studio.calls
    assert campaign.crowd_counts().waiting == 0


def test_withdrawn_examples_are_not_uploaded(any_campaign: Campaign) -> None:
    example = any_campaign.write_example()
    with any_campaign.store.write() as session:
        row = session.get_one(Example, example.id)
        row.status, row.decided_at = ExampleStatus.WITHDRAWN, any_campaign.now
    assert any_campaign.upload_work() == CrowdUpload()


def test_after_the_upload_label_studio_is_not_contacted_again(any_campaign: Campaign) -> None:
    any_campaign.write_example()
    any_campaign.upload_work()
    any_campaign.studio.calls.clear()
    assert any_campaign.upload_work(until_done=True) == any_campaign.upload_later() == CrowdUpload()
    assert any_campaign.studio.calls == []


def test_uploaded_work_is_never_read_back(any_campaign: Campaign) -> None:
    any_campaign.write_example()
    any_campaign.upload_work()
    assert any_campaign.sync_label_studio() == any_campaign.sync_label_studio(from_start=True) == SyncResult()
    any_campaign.mark_closed()
    assert any_campaign.sync_label_studio(from_start=True).left == 0
    assert any_campaign.label_studio_status().projects[0].unread == 0
    assert len(any_campaign.rows(Example)) == 1


def test_uploaded_work_is_not_read_back_without_the_worker_field(any_campaign: Campaign) -> None:
    any_campaign.write_example()
    any_campaign.upload_work()
    (task,) = any_campaign.uploaded_tasks()
    any_campaign.studio.annotate(task.id, list(task.annotations[0]["result"]), user=8)
    del task.data[WORKER_FIELD]  # type: ignore[attr-defined]
    assert any_campaign.sync_label_studio() == SyncResult()
    assert [row.source for row in any_campaign.rows(Example)] == [Source.PAGES]


def test_uploads_do_not_reduce_the_contexts_to_write_for(any_campaign: Campaign) -> None:
    any_campaign.write_example()
    any_campaign.upload_work()
    assert any_campaign.fill_projects().contexts == 8
    assert any_campaign.label_studio_status().projects[0].counts.sent == 8


@pytest.mark.any_database
def test_owners_changes_of_uploaded_work_stay(campaign: Campaign) -> None:
    example = campaign.write_example()
    campaign.write_example("AUTHOR-2")
    campaign.upload_work()
    edited, removed = campaign.uploaded_tasks()
    campaign.studio.edit(edited.id, edited.annotations[0]["id"], [])
    del campaign.studio.tasks[removed.id]
    assert campaign.sync_label_studio() == SyncResult()
    assert campaign.upload_later() == CrowdUpload()
    assert [task.annotations[0]["result"] for task in campaign.uploaded_tasks()] == [[]]
    assert campaign.reload(example).fields == example.fields


def test_a_new_project_gets_all_uploads_again(campaign: Campaign) -> None:
    campaign.write_example()
    campaign.upload_work()
    del campaign.studio.projects[campaign.project()]
    campaign.connect_label_studio()
    assert campaign.upload_work() == CrowdUpload(sent=1)
    assert len(campaign.uploaded_tasks()) == 1
    assert campaign.upload_later() == CrowdUpload()


def test_an_attempt_on_an_uploaded_task_is_not_its_authors(any_campaign: Campaign) -> None:
    example = any_campaign.write_example()
    any_campaign.upload_work()
    (place,) = any_campaign.rows(LabelStudioTask)
    (own,) = any_campaign.rows(Attempt)
    names = [column.name for column in Attempt.__table__.columns if column.name != "id"]
    like_it = {name: getattr(own, name) for name in names}
    nobodys = dict.fromkeys(("session_id", "worker_id", "example_id"))
    with any_campaign.store.write() as session:
        late = Attempt(**{**like_it, **nobodys, "public_id": UUID(int=7), "label_studio_task_id": place.id})
        session.add(late)
        session.flush()
        link_late_attempts(session, [late])
    assert any_campaign.reload(late).worker_id is None
    assert any_campaign.reload(own).worker_id == example.author_id


def test_uploaded_examples_can_be_predicted_in_bulk(any_campaign: Campaign) -> None:
    any_campaign.write_example()
    any_campaign.upload_work()
    predictor = FakeTarget(any_campaign.spec, "v1")
    done = predict_tasks(any_campaign.store, any_campaign.studio, any_campaign.spec.name, predictor, any_campaign.clock)
    assert (done.sent, done.lacking) == (1, 0)


def test_two_processes_upload_many_items_in_few_requests_and_each_once(campaign: Campaign) -> None:
    many(campaign, 249)
    sent = both(campaign.upload_work)  # type: ignore[arg-type]
    assert len(sent) == 2, "one of them failed"
    campaign.upload_work(until_done=True)
    keys = [task.key for task in campaign.uploaded_tasks()]
    assert len(keys) == len(set(keys)) == 250
    assert campaign.studio.changes.count("add_tasks") == 3
    assert None not in [row.external_id for row in campaign.rows(LabelStudioAnnotation)]


def many(campaign: Campaign, count: int) -> None:
    """A worker's example, and more of the same session."""
    first = campaign.reload(campaign.write_example())
    names = [column.name for column in Example.__table__.columns if column.name not in ("id", "verdict_id")]
    like_it = {name: getattr(first, name) for name in names}
    with campaign.store.write() as session:
        for number in range(1, count + 1):
            own = {"public_id": UUID(int=first.public_id.int + number), "item": number}
            session.add(Example(**{**like_it, **own}))
