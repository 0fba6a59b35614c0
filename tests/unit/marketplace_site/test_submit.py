import xml.etree.ElementTree as ET
from datetime import timedelta

import pytest
from werkzeug.datastructures import MultiDict

from mturk.marketplace.site_submit import MOST_BYTES
from mturk.marketplace.tables import AssignmentStatus
from tests.unit.marketplace_site.stage import Stage, accepted

SUBMIT = "/mturk/externalSubmit"
NAMESPACE = "{http://mechanicalturk.amazonaws.com/AWSMechanicalTurkDataSchemas/2005-10-01/QuestionFormAnswers.xsd}"


@pytest.fixture
def assignment(stage: Stage) -> str:
    """One that Ada has accepted."""
    return accepted(stage.signed_in(stage.worker("Ada")), stage.group_of(stage.post(seconds=600)))


def answers(stage: Stage, assignment_id: str) -> dict[str, str]:
    found = ET.fromstring(stage.assignment(assignment_id).answer)
    return {
        str(one.findtext(f"{NAMESPACE}QuestionIdentifier")): str(one.findtext(f"{NAMESPACE}FreeText")) for one in found
    }


def is_untouched(stage: Stage, assignment_id: str) -> bool:
    found = stage.assignment(assignment_id)
    return found.status is AssignmentStatus.ACCEPTED and found.answer == ""


def test_answers_are_taken_from_a_frame_that_has_no_cookie(stage: Stage, assignment: str) -> None:
    fields = {"assignmentId": assignment, "hitId": "H", "text": "Ünïcode & <b>tags</b>\nlines", "empty": ""}
    answer = stage.site().test_client().post(SUBMIT, data=fields)
    assert (answer.status_code, "Thank you" in answer.text) == (200, True)
    assert f'data-assignment="{assignment}" data-outcome="submitted"' in answer.text
    assert answers(stage, assignment) == {"text": "Ünïcode & <b>tags</b>\nlines", "empty": ""}
    assert stage.assignment(assignment).status is AssignmentStatus.SUBMITTED


@pytest.mark.parametrize("kind", ["application/x-www-form-urlencoded", "multipart/form-data"])
def test_several_values_of_one_name_are_joined_as_mturk_does(stage: Stage, assignment: str, kind: str) -> None:
    fields = MultiDict([("assignmentId", assignment), ("box", "a"), ("box", "c")])
    assert stage.site().test_client().post(SUBMIT, data=fields, content_type=kind).status_code == 200
    assert answers(stage, assignment) == {"box": "a|c"}


def test_a_get_works_too_and_a_head_changes_nothing(stage: Stage, assignment: str) -> None:
    browser = stage.site().test_client()
    assert browser.head(f"{SUBMIT}?assignmentId={assignment}&q=1").status_code == 405
    assert is_untouched(stage, assignment)
    assert browser.get(f"{SUBMIT}?assignmentId={assignment}&q=1").status_code == 200
    assert answers(stage, assignment) == {"q": "1"}


def test_the_answer_may_be_framed_by_any_requester(stage: Stage, assignment: str) -> None:
    answer = stage.site().test_client().post(SUBMIT, data={"assignmentId": assignment})
    assert "frame-ancestors" not in answer.headers["Content-Security-Policy"]
    assert "X-Frame-Options" not in answer.headers


def test_a_second_submission_changes_nothing(stage: Stage, assignment: str) -> None:
    browser = stage.site().test_client()
    browser.post(SUBMIT, data={"assignmentId": assignment, "text": "first"})
    answer = browser.post(SUBMIT, data={"assignmentId": assignment, "text": "second"})
    assert (answer.status_code, "handed this in already" in answer.text) == (409, True)
    assert 'data-outcome="refused"' in answer.text
    assert "X-Frame-Options" not in answer.headers, "or the worker would see nothing at all"
    assert answers(stage, assignment) == {"text": "first"}


def test_a_forged_worker_is_refused_and_the_true_one_is_not(stage: Stage, assignment: str) -> None:
    browser, stranger = stage.site().test_client(), stage.worker("Mallory")
    answer = browser.post(SUBMIT, data={"assignmentId": assignment, "workerId": stranger.id, "text": "x"})
    assert (answer.status_code, "Somebody else has this task" in answer.text) == (409, True)
    assert is_untouched(stage, assignment)
    true = {"assignmentId": assignment, "workerId": str(stage.assignment(assignment).worker_id)}
    assert browser.post(SUBMIT, data=true).status_code == 200
    assert answers(stage, assignment) == {}


def test_after_the_deadline_nothing_is_taken(stage: Stage, assignment: str) -> None:
    stage.clock.advance(timedelta(seconds=600))
    answer = stage.site().test_client().post(SUBMIT, data={"assignmentId": assignment, "text": "late"})
    assert (answer.status_code, "time for this task is over" in answer.text) == (410, True)
    found = stage.assignment(assignment)
    assert (found.status, found.answer) == (AssignmentStatus.FREE, "")


def test_until_the_deadline_it_is_taken(stage: Stage, assignment: str) -> None:
    stage.clock.advance(timedelta(seconds=600, microseconds=-1))
    assert stage.site().test_client().post(SUBMIT, data={"assignmentId": assignment}).status_code == 200


@pytest.mark.parametrize(
    ("fields", "status", "said"),
    [
        ({}, 400, "No task was named"),
        ({"assignmentId": " "}, 400, "No task was named"),
        ({"assignmentId": "ASSIGNMENT_ID_NOT_AVAILABLE"}, 409, "Accept the task first"),
        ({"assignmentId": "3NOBODYHASTHIS"}, 404, "This work is not here"),
    ],
)
def test_what_names_no_task_is_explained_inside_the_frame(
    stage: Stage, fields: dict[str, str], status: int, said: str
) -> None:
    answer = stage.site().test_client().post(SUBMIT, data={**fields, "text": "x"})
    assert (answer.status_code, said in answer.text) == (status, True)
    assert 'class="framed"' in answer.text


def test_answers_of_the_largest_size_are_taken_and_larger_ones_are_not(stage: Stage, assignment: str) -> None:
    browser = stage.site().test_client()
    # Three bytes each, and nine on their way.
    fits = "語" * ((MOST_BYTES - 4) // 3)
    for text in (fits + "語", "x" * 2_500_000):
        answer = browser.post(SUBMIT, data={"assignmentId": assignment, "text": text})
        assert (answer.status_code, "This is too much" in answer.text) == (413, True)
        assert is_untouched(stage, assignment)
    assert browser.post(SUBMIT, data={"assignmentId": assignment, "text": fits}).status_code == 200
    assert answers(stage, assignment) == {"text": fits}


def test_odd_bytes_are_survived(stage: Stage, assignment: str) -> None:
    body = f"assignmentId={assignment}&text=%ff%fe%00ok&=noname".encode()
    answer = stage.site().test_client().post(SUBMIT, data=body, content_type="application/x-www-form-urlencoded")
    assert answer.status_code == 200
    assert answers(stage, assignment)["text"].endswith("ok")
