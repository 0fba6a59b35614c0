"""Votes of crowd workers are shown in the validation project, once no validator there can see them too early."""

import pytest

from round_manager.labelstudio.annotations import read_judgement, read_submission
from round_manager.labelstudio.crowd_upload import CrowdUpload
from round_manager.labelstudio.port import WORKER_FIELD
from round_manager.labelstudio.sync import SyncResult
from round_manager.models import Example, ExampleStatus
from round_manager.validation.decisions import decide_round
from round_manager.work.validation_work import Judgement
from tests.campaign import Campaign
from tests.campaign.label_studio import CREATE, VALIDATE
from tests.fakes.clock import NOON
from tests.integration.round_manager.labelstudio.conftest import ConnectCampaign


@pytest.mark.any_database
def test_votes_are_uploaded_once_no_more_are_needed(campaign: Campaign) -> None:
    example = campaign.write_example()
    campaign.judge_as("V1", campaign.agreeing(example))
    assert campaign.upload_work() == CrowdUpload(sent=1)
    assert (campaign.uploaded_tasks(VALIDATE), campaign.crowd_counts(VALIDATE).held) == ([], 1)
    campaign.judge_as("V2", Judgement(label=example.label, comment="clear"))
    assert campaign.upload_work() == CrowdUpload(sent=2)
    first, second = campaign.uploaded_tasks(VALIDATE)
    assert first.data == {"text": example.fields["text"], WORKER_FIELD: first.data[WORKER_FIELD]}
    values = {one["from_name"]: one["value"] for one in second.annotations[0]["result"]}
    assert values == {"label": {"choices": [example.label]}, "comment": {"text": ["clear"]}}
    assert first.data[WORKER_FIELD] != second.data[WORKER_FIELD] != campaign.uploaded_tasks()[0].data[WORKER_FIELD]
    assert (campaign.crowd_counts(VALIDATE).held, campaign.crowd_counts(VALIDATE).shown) == (0, 2)
    assert campaign.sync_label_studio() == SyncResult()
    assert len(campaign.votes()) == 2


@pytest.mark.any_database
def test_votes_that_differ_wait_until_the_example_is_decided(campaign: Campaign) -> None:
    example = campaign.write_example()
    other = next(name for name in campaign.spec.label_names if name != example.label)
    campaign.judge_as("V1", campaign.agreeing(example))
    campaign.judge_as("V2", Judgement(label=other))
    campaign.upload_work()
    assert campaign.crowd_counts(VALIDATE).held == 2
    with campaign.store.write() as session:
        row = session.get_one(Example, example.id)
        row.status, row.decided_at = ExampleStatus.DISPUTED, NOON
    assert campaign.upload_work() == CrowdUpload(sent=2)


def test_answers_wait_until_they_are_compared(connect: ConnectCampaign) -> None:
    campaign = connect("qa")
    example = campaign.write_example()
    passage = str(example.fields["passage"])
    first = passage.split()[0]
    campaign.judge_as("V1", campaign.agreeing(example))
    campaign.judge_as("V2", Judgement(answer={"text": first, "start": 0, "end": len(first)}))
    campaign.upload_work()
    assert (campaign.uploaded_tasks(VALIDATE), campaign.crowd_counts(VALIDATE).held) == ([], 2)
    assert decide_round(campaign.store, campaign.round, now=campaign.now).want_more == 1
    campaign.upload_work()
    assert (campaign.uploaded_tasks(VALIDATE), campaign.crowd_counts(VALIDATE).held) == ([], 2)


def test_votes_wait_while_a_check_is_open_in_label_studio(campaign: Campaign) -> None:
    example = campaign.write_example()
    assert campaign.fill_projects().validations == 2
    for worker in ("V1", "V2"):
        campaign.judge_as(worker, campaign.agreeing(example))
    campaign.upload_work()
    assert campaign.uploaded_tasks(VALIDATE) == []
    for place, number in enumerate(campaign.studio.numbers(campaign.project(VALIDATE))):
        result = [{"from_name": "label", "to_name": "text", "type": "choices", "value": {"choices": [example.label]}}]
        campaign.studio.annotate(number, result, user=7 + place)
    assert campaign.sync_label_studio() == SyncResult(read=2, votes=2)
    assert campaign.upload_work() == CrowdUpload(sent=2)
    assert len(campaign.votes()) == 4


@pytest.mark.any_database
def test_checks_are_planned_for_the_votes_that_the_crowd_has_not_cast(campaign: Campaign) -> None:
    example = campaign.write_example()
    campaign.judge_as("V1", campaign.agreeing(example))
    campaign.upload_work()
    assert campaign.fill_projects().validations == 1
    with campaign.store.write() as session:
        session.get_one(Example, example.id).votes_wanted = 4
    campaign.judge_as("V2", campaign.agreeing(example))
    assert campaign.fill_projects().validations == 1
    assert campaign.upload_work() == CrowdUpload()


def test_a_flag_is_uploaded_at_once_and_answers_wait(any_campaign: Campaign) -> None:
    example = any_campaign.write_example()
    any_campaign.judge_as("V1", any_campaign.agreeing(example))
    reason = any_campaign.spec.validation.flag_reasons[0]
    any_campaign.judge_as("V2", Judgement(flag=reason))
    assert any_campaign.upload_work() == CrowdUpload(sent=2)
    (task,) = any_campaign.uploaded_tasks(VALIDATE)
    assert [one["value"] for one in task.annotations[0]["result"]] == [{"choices": [reason]}]
    assert any_campaign.crowd_counts(VALIDATE).held == 1


def test_a_closed_round_holds_nothing_back(any_campaign: Campaign) -> None:
    example = any_campaign.write_example()
    any_campaign.judge_as("V1", any_campaign.agreeing(example))
    any_campaign.mark_closed()
    assert any_campaign.upload_work() == CrowdUpload(sent=2)


def test_unconfirmed_votes_are_not_uploaded(any_campaign: Campaign) -> None:
    example = any_campaign.write_example()
    any_campaign.judge_as("V1", any_campaign.agreeing(example), confirmed=False)
    any_campaign.mark_closed()
    assert any_campaign.upload_work() == CrowdUpload(sent=1)
    assert any_campaign.uploaded_tasks(VALIDATE) == []


def test_an_uploaded_answer_keeps_its_offsets(connect: ConnectCampaign) -> None:
    campaign = connect("qa")
    example = campaign.write_example()
    passage, answer = example.fields["passage"], example.answer
    assert answer is not None
    campaign.judge_as("V1", Judgement(answer=answer))
    campaign.judge_as("V2", Judgement(answer=answer))
    assert decide_round(campaign.store, campaign.round, now=campaign.now).verified == 1
    campaign.upload_work()
    for kind in (CREATE, VALIDATE):
        for task in campaign.uploaded_tasks(kind):
            (span,) = [one["value"] for one in task.annotations[0]["result"] if "start" in one["value"]]
            assert passage[span["start"] : span["end"]] == answer["text"]
    spec, fields = campaign.spec, {name: str(text) for name, text in task.data.items()}
    assert read_judgement(spec, fields, task.annotations[0]).answer == answer
    (written,) = campaign.uploaded_tasks()
    assert read_submission(spec, fields, None, written.annotations[0]).answer == answer
