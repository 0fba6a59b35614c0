"""Outages, killed processes, lost responses and refused items: all crowd work is uploaded exactly once."""

import io
from contextlib import suppress
from datetime import timedelta
from itertools import pairwise

import pytest
from rich.console import Console

from common.errors import Hint
from plugin.cli.labelstudio import status_text
from round_manager.labelstudio.crowd_upload import CrowdUpload
from round_manager.labelstudio.port import (
    LabelStudioError,
    LabelStudioRefused,
    LabelStudioUnavailable,
    ProjectNotFound,
)
from round_manager.labelstudio.sync import SyncResult
from round_manager.labelstudio.upload_queue import MAX_BACKOFF
from round_manager.work.validation_work import Judgement
from tests.campaign import Campaign
from tests.campaign.label_studio import CREATE, VALIDATE
from tests.fakes.label_studio import Killed
from tests.unit.round_manager.labelstudio.test_interruptions import Reaper, until_done

AWAY = LabelStudioUnavailable("Label Studio at http://studio.test does not answer; is it running?")


def status_text_of(campaign: Campaign) -> str:
    """Return the text of `labelstudio status`."""
    console = Console(file=io.StringIO(), width=300, record=True)
    console.print(status_text(campaign.label_studio_status()))
    return console.export_text()


def test_an_interrupted_upload_sends_each_item_once(campaign: Campaign) -> None:
    campaign.write_example()
    campaign.write_example("AUTHOR-2")
    for worker in ("V1", "V2"):
        campaign.judge_as(worker, Judgement(label="negative"))
    campaign.mark_closed()

    def show_much_later() -> CrowdUpload:
        campaign.clock.advance(MAX_BACKOFF)
        return campaign.upload_work()

    reaper = Reaper(campaign)  # type: ignore[arg-type]
    assert until_done(reaper, show_much_later) > 10
    # Nothing that the interrupted runs left is read as work.
    assert campaign.sync_label_studio() == SyncResult()
    assert show_much_later() == CrowdUpload()
    assert [len({task.key for task in campaign.uploaded_tasks(kind)}) for kind in (CREATE, VALIDATE)] == [2, 4]
    assert [len(campaign.uploaded_tasks(kind)) for kind in (CREATE, VALIDATE)] == [2, 4]


@pytest.mark.any_database
def test_an_item_that_was_sent_but_not_recorded_is_found(campaign: Campaign) -> None:
    campaign.write_example()
    campaign.studio.after["add_tasks"] = Killed()
    with pytest.raises(Killed):
        campaign.upload_work()
    assert campaign.sync_label_studio() == SyncResult()
    assert campaign.upload_work() == CrowdUpload(), "it may still be on its way"
    assert campaign.upload_later() == CrowdUpload(found=1)
    assert len(campaign.uploaded_tasks()) == 1


def test_a_lost_answer_doubles_nothing(any_campaign: Campaign) -> None:
    any_campaign.write_example()
    any_campaign.studio.after["add_tasks"] = LabelStudioUnavailable("answers 504", status=504)
    with pytest.raises(LabelStudioUnavailable):
        any_campaign.upload_work()
    assert any_campaign.upload_later() == CrowdUpload(found=1)
    assert len(any_campaign.uploaded_tasks()) == 1


def test_the_backoff_grows_during_an_outage(campaign: Campaign) -> None:
    campaign.write_example()
    campaign.studio.down = AWAY
    tries = []
    for _ in range(35):
        campaign.studio.calls.clear()
        with suppress(LabelStudioError):
            assert campaign.upload_work() == CrowdUpload()
        if campaign.studio.calls:
            tries.append(campaign.now)
        campaign.clock.advance(timedelta(minutes=1))
    pauses = [(after - before).total_seconds() / 60 for before, after in pairwise(tries)]
    assert pauses == [2, 2, 4, 8, 15]
    crowd = campaign.crowd_counts()
    assert (crowd.waiting, crowd.failure) == (1, str(AWAY))
    assert crowd.next_try is not None
    text = status_text_of(campaign)
    assert "0 shown, 1 to send" in text
    assert "does not answer" in text
    campaign.studio.down = None
    assert campaign.upload_work(until_done=True) == CrowdUpload(sent=1)
    assert (campaign.crowd_counts().waiting, campaign.crowd_counts().failure) == (0, None)


def test_a_refused_item_blocks_no_other_and_is_retried(any_campaign: Campaign) -> None:
    for number in range(5):
        any_campaign.write_example(f"AUTHOR-{number}")
    odd = any_campaign.write_example("ODD").fields["text"]
    any_campaign.studio.refuses = lambda task: odd in str(task["annotations"])
    assert any_campaign.upload_work() == CrowdUpload(sent=5, refused=1)
    assert any_campaign.upload_later() == CrowdUpload()
    crowd = any_campaign.crowd_counts()
    assert (crowd.shown, crowd.refused, crowd.waiting) == (5, 1, 0)
    assert crowd.refusal is not None
    assert odd not in status_text_of(any_campaign)
    any_campaign.studio.refuses = lambda _task: False
    any_campaign.clock.advance(timedelta(hours=1))
    assert any_campaign.upload_work() == CrowdUpload(sent=1)
    assert any_campaign.crowd_counts().refused == 0


def test_a_project_that_refuses_everything_is_reported_without_quotes(any_campaign: Campaign) -> None:
    texts = [any_campaign.write_example(f"AUTHOR-{number}").fields["text"] for number in range(8)]
    any_campaign.studio.refuses = lambda _task: True
    with pytest.raises(LabelStudioRefused) as caught:
        any_campaign.upload_work()
    told = f"{caught.value} {any_campaign.label_studio_status().projects[0].last_error} {status_text_of(any_campaign)}"
    assert not [text for text in texts if text in told]
    assert any_campaign.studio.changes.count("add_tasks") < 20
    any_campaign.studio.refuses = lambda _task: False
    any_campaign.clock.advance(timedelta(hours=2))
    assert any_campaign.upload_work() == CrowdUpload(sent=8)


def test_a_deleted_project_is_reported_with_a_hint(any_campaign: Campaign) -> None:
    any_campaign.write_example()
    del any_campaign.studio.projects[any_campaign.project()]
    with pytest.raises(ProjectNotFound) as caught:
        any_campaign.upload_work()
    assert caught.value.hint == Hint("connect_label_studio", task="sentiment")
    any_campaign.connect_label_studio()
    assert any_campaign.upload_later() == CrowdUpload(sent=1)


def test_a_deleted_annotation_is_not_uploaded_again(any_campaign: Campaign) -> None:
    any_campaign.write_example()
    any_campaign.studio.after["add_tasks"] = Killed()
    with pytest.raises(Killed):
        any_campaign.upload_work()
    (task,) = any_campaign.uploaded_tasks()
    any_campaign.studio.tasks[task.id] = type(task)(task.id, task.key, task.changed_at, task.data, ())
    assert any_campaign.upload_later() == CrowdUpload(found=1)
    del any_campaign.studio.projects[any_campaign.project()]
    any_campaign.connect_label_studio()
    assert any_campaign.upload_later() == CrowdUpload(sent=1)
