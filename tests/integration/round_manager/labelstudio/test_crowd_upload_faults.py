"""Outages, killed processes, lost responses and refused items: all crowd work is uploaded exactly once."""

from contextlib import suppress
from datetime import timedelta
from itertools import pairwise

import pytest

from common.errors import Hint
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
from tests.fakes.label_studio import Killed
from tests.integration.round_manager.labelstudio.gallery import CREATE, VALIDATE, Gallery
from tests.unit.round_manager.labelstudio.test_interruptions import Reaper, until_done

AWAY = LabelStudioUnavailable("Label Studio at http://studio.test does not answer; is it running?")


def test_an_interrupted_upload_sends_each_item_once(gallery: Gallery) -> None:
    gallery.write()
    gallery.write("AUTHOR-2")
    for worker in ("V1", "V2"):
        gallery.judge_as(worker, Judgement(label="negative"))
    gallery.floor.close_round()

    def show_much_later() -> CrowdUpload:
        gallery.floor.clock.advance(MAX_BACKOFF)
        return gallery.show()

    reaper = Reaper(gallery)  # type: ignore[arg-type]
    assert until_done(reaper, show_much_later) > 10
    # Nothing that the interrupted runs left is read as work.
    assert gallery.sync() == SyncResult()
    assert show_much_later() == CrowdUpload()
    assert [len({task.key for task in gallery.shown(kind)}) for kind in (CREATE, VALIDATE)] == [2, 4]
    assert [len(gallery.shown(kind)) for kind in (CREATE, VALIDATE)] == [2, 4]


def test_an_item_that_was_sent_but_not_recorded_is_found(gallery: Gallery) -> None:
    gallery.write()
    gallery.studio.after["add_tasks"] = Killed()
    with pytest.raises(Killed):
        gallery.show()
    assert gallery.sync() == SyncResult()
    assert gallery.show() == CrowdUpload(), "it may still be on its way"
    assert gallery.show_later() == CrowdUpload(found=1)
    assert len(gallery.shown()) == 1


def test_a_lost_answer_doubles_nothing(plain: Gallery) -> None:
    plain.write()
    plain.studio.after["add_tasks"] = LabelStudioUnavailable("answers 504", status=504)
    with pytest.raises(LabelStudioUnavailable):
        plain.show()
    assert plain.show_later() == CrowdUpload(found=1)
    assert len(plain.shown()) == 1


def test_the_backoff_grows_during_an_outage(gallery: Gallery) -> None:
    gallery.write()
    gallery.studio.down = AWAY
    tries = []
    for _ in range(35):
        gallery.studio.calls.clear()
        with suppress(LabelStudioError):
            assert gallery.show() == CrowdUpload()
        if gallery.studio.calls:
            tries.append(gallery.floor.now)
        gallery.floor.clock.advance(timedelta(minutes=1))
    pauses = [(after - before).total_seconds() / 60 for before, after in pairwise(tries)]
    assert pauses == [2, 2, 4, 8, 15]
    crowd = gallery.crowd()
    assert (crowd.waiting, crowd.failure) == (1, str(AWAY))
    assert crowd.next_try is not None
    text = gallery.status_words()
    assert "0 shown, 1 to send" in text
    assert "does not answer" in text
    gallery.studio.down = None
    assert gallery.show(until_done=True) == CrowdUpload(sent=1)
    assert (gallery.crowd().waiting, gallery.crowd().failure) == (0, None)


def test_a_refused_item_blocks_no_other_and_is_retried(plain: Gallery) -> None:
    for number in range(5):
        plain.write(f"AUTHOR-{number}")
    odd = plain.write("ODD").fields["text"]
    plain.studio.refuses = lambda task: odd in str(task["annotations"])
    assert plain.show() == CrowdUpload(sent=5, refused=1)
    assert plain.show_later() == CrowdUpload()
    crowd = plain.crowd()
    assert (crowd.shown, crowd.refused, crowd.waiting) == (5, 1, 0)
    assert crowd.refusal is not None
    assert odd not in plain.status_words()
    plain.studio.refuses = lambda _task: False
    plain.floor.clock.advance(timedelta(hours=1))
    assert plain.show() == CrowdUpload(sent=1)
    assert plain.crowd().refused == 0


def test_a_project_that_refuses_everything_is_reported_without_quotes(plain: Gallery) -> None:
    texts = [plain.write(f"AUTHOR-{number}").fields["text"] for number in range(8)]
    plain.studio.refuses = lambda _task: True
    with pytest.raises(LabelStudioRefused) as caught:
        plain.show()
    told = f"{caught.value} {plain.status().projects[0].last_error} {plain.status_words()}"
    assert not [text for text in texts if text in told]
    assert plain.studio.changes.count("add_tasks") < 20
    plain.studio.refuses = lambda _task: False
    plain.floor.clock.advance(timedelta(hours=2))
    assert plain.show() == CrowdUpload(sent=8)


def test_a_deleted_project_is_reported_with_a_hint(plain: Gallery) -> None:
    plain.write()
    del plain.studio.projects[plain.project()]
    with pytest.raises(ProjectNotFound) as caught:
        plain.show()
    assert caught.value.hint == Hint("connect_label_studio", task="sentiment")
    plain.connect()
    assert plain.show_later() == CrowdUpload(sent=1)


def test_a_deleted_annotation_is_not_uploaded_again(plain: Gallery) -> None:
    plain.write()
    plain.studio.after["add_tasks"] = Killed()
    with pytest.raises(Killed):
        plain.show()
    (task,) = plain.shown()
    plain.studio.tasks[task.id] = type(task)(task.id, task.key, task.changed_at, task.data, ())
    assert plain.show_later() == CrowdUpload(found=1)
    del plain.studio.projects[plain.project()]
    plain.connect()
    assert plain.show_later() == CrowdUpload(sent=1)
