"""Votes of crowd workers are shown in the validation project, once no validator there can see them too early."""

from round_manager.labelstudio.annotations import read_judgement, read_submission
from round_manager.labelstudio.crowd_upload import CrowdUpload
from round_manager.labelstudio.port import WORKER_FIELD
from round_manager.labelstudio.sync import SyncResult
from round_manager.models import Example, ExampleStatus
from round_manager.validation.decisions import decide_round
from round_manager.work.validation_work import Judgement
from tests.fakes.clock import NOON
from tests.integration.round_manager.labelstudio.conftest import Hang
from tests.integration.round_manager.labelstudio.gallery import CREATE, VALIDATE, Gallery


def test_votes_are_uploaded_once_no_more_are_needed(gallery: Gallery) -> None:
    example = gallery.write()
    gallery.judge_as("V1", gallery.agreeing(example))
    assert gallery.show() == CrowdUpload(sent=1)
    assert (gallery.shown(VALIDATE), gallery.crowd(VALIDATE).held) == ([], 1)
    gallery.judge_as("V2", Judgement(label=example.label, comment="clear"))
    assert gallery.show() == CrowdUpload(sent=2)
    first, second = gallery.shown(VALIDATE)
    assert first.data == {"text": example.fields["text"], WORKER_FIELD: first.data[WORKER_FIELD]}
    values = {one["from_name"]: one["value"] for one in second.annotations[0]["result"]}
    assert values == {"label": {"choices": [example.label]}, "comment": {"text": ["clear"]}}
    assert first.data[WORKER_FIELD] != second.data[WORKER_FIELD] != gallery.shown()[0].data[WORKER_FIELD]
    assert (gallery.crowd(VALIDATE).held, gallery.crowd(VALIDATE).shown) == (0, 2)
    assert gallery.sync() == SyncResult()
    assert len(gallery.votes()) == 2


def test_votes_that_differ_wait_until_the_example_is_decided(gallery: Gallery) -> None:
    example = gallery.write()
    other = next(name for name in gallery.pack.spec.label_names if name != example.label)
    gallery.judge_as("V1", gallery.agreeing(example))
    gallery.judge_as("V2", Judgement(label=other))
    gallery.show()
    assert gallery.crowd(VALIDATE).held == 2
    with gallery.floor.write() as session:
        row = session.get_one(Example, example.id)
        row.status, row.decided_at = ExampleStatus.DISPUTED, NOON
    assert gallery.show() == CrowdUpload(sent=2)


def test_answers_wait_until_they_are_compared(hang_up: Hang) -> None:
    gallery = hang_up("qa")
    example = gallery.write()
    passage = str(example.fields["passage"])
    first = passage.split()[0]
    gallery.judge_as("V1", gallery.agreeing(example))
    gallery.judge_as("V2", Judgement(answer={"text": first, "start": 0, "end": len(first)}))
    gallery.show()
    assert (gallery.shown(VALIDATE), gallery.crowd(VALIDATE).held) == ([], 2)
    assert decide_round(gallery.floor.store, gallery.floor.round, now=gallery.floor.now).want_more == 1
    gallery.show()
    assert (gallery.shown(VALIDATE), gallery.crowd(VALIDATE).held) == ([], 2)


def test_votes_wait_while_a_check_is_open_in_label_studio(gallery: Gallery) -> None:
    example = gallery.write()
    assert gallery.push().validations == 2
    for worker in ("V1", "V2"):
        gallery.judge_as(worker, gallery.agreeing(example))
    gallery.show()
    assert gallery.shown(VALIDATE) == []
    for place, number in enumerate(gallery.studio.numbers(gallery.project(VALIDATE))):
        result = [{"from_name": "label", "to_name": "text", "type": "choices", "value": {"choices": [example.label]}}]
        gallery.studio.annotate(number, result, user=7 + place)
    assert gallery.sync() == SyncResult(read=2, votes=2)
    assert gallery.show() == CrowdUpload(sent=2)
    assert len(gallery.votes()) == 4


def test_checks_are_planned_for_the_votes_that_the_crowd_has_not_cast(gallery: Gallery) -> None:
    example = gallery.write()
    gallery.judge_as("V1", gallery.agreeing(example))
    gallery.show()
    assert gallery.push().validations == 1
    with gallery.floor.write() as session:
        session.get_one(Example, example.id).votes_wanted = 4
    gallery.judge_as("V2", gallery.agreeing(example))
    assert gallery.push().validations == 1
    assert gallery.show() == CrowdUpload()


def test_a_flag_is_uploaded_at_once_and_answers_wait(plain: Gallery) -> None:
    example = plain.write()
    plain.judge_as("V1", plain.agreeing(example))
    reason = plain.pack.spec.validation.flag_reasons[0]
    plain.judge_as("V2", Judgement(flag=reason))
    assert plain.show() == CrowdUpload(sent=2)
    (task,) = plain.shown(VALIDATE)
    assert [one["value"] for one in task.annotations[0]["result"]] == [{"choices": [reason]}]
    assert plain.crowd(VALIDATE).held == 1


def test_a_closed_round_holds_nothing_back(plain: Gallery) -> None:
    example = plain.write()
    plain.judge_as("V1", plain.agreeing(example))
    plain.floor.close_round()
    assert plain.show() == CrowdUpload(sent=2)


def test_unconfirmed_votes_are_not_uploaded(plain: Gallery) -> None:
    example = plain.write()
    plain.judge_as("V1", plain.agreeing(example), confirmed=False)
    plain.floor.close_round()
    assert plain.show() == CrowdUpload(sent=1)
    assert plain.shown(VALIDATE) == []


def test_an_uploaded_answer_keeps_its_offsets(hang_up: Hang) -> None:
    gallery = hang_up("qa")
    example = gallery.write()
    passage, answer = example.fields["passage"], example.answer
    assert answer is not None
    gallery.judge_as("V1", Judgement(answer=answer))
    gallery.judge_as("V2", Judgement(answer=answer))
    assert decide_round(gallery.floor.store, gallery.floor.round, now=gallery.floor.now).verified == 1
    gallery.show()
    for kind in (CREATE, VALIDATE):
        for task in gallery.shown(kind):
            (span,) = [one["value"] for one in task.annotations[0]["result"] if "start" in one["value"]]
            assert passage[span["start"] : span["end"]] == answer["text"]
    spec, fields = gallery.pack.spec, {name: str(text) for name, text in task.data.items()}
    assert read_judgement(spec, fields, task.annotations[0]).answer == answer
    (written,) = gallery.shown()
    assert read_submission(spec, fields, None, written.annotations[0]).answer == answer
