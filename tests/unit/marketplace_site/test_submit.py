import io
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from datetime import timedelta

import pytest
from flask.testing import FlaskClient
from sqlalchemy import select
from werkzeug.datastructures import MultiDict
from werkzeug.test import TestResponse

from mturk.marketplace.site.app import MAX_FIELDS
from mturk.marketplace.site.frame import MAX_ANSWER_BYTES
from mturk.marketplace.tables.people import Worker
from mturk.marketplace.tables.work import AssignmentStatus, SubmitPass
from tests.unit.marketplace_site.stage import Stage, accepted, csrf, has_code, submit_path

SUBMIT = "/mturk/externalSubmit"
NAMESPACE = "{http://mechanicalturk.amazonaws.com/AWSMechanicalTurkDataSchemas/2005-10-01/QuestionFormAnswers.xsd}"


@dataclass(frozen=True)
class Held:
    """What Ada has accepted, and where its page posts to."""

    browser: FlaskClient
    group: str
    id: str
    path: str

    def post(self, stage: Stage, /, **fields: object) -> TestResponse:
        """What the requester's page sends, without any cookie."""
        return stage.site().test_client().post(self.path, data={"assignmentId": self.id, **fields})


@pytest.fixture
def held(stage: Stage) -> Held:
    browser, group = stage.signed_in(stage.worker("Ada")), stage.group_of(stage.post(seconds=600))
    assignment = accepted(browser, group)
    return Held(browser, group, assignment, submit_path(browser, assignment))


def answers(stage: Stage, assignment_id: str) -> dict[str, str]:
    found = ET.fromstring(stage.assignment(assignment_id).answer)
    return {
        str(one.findtext(f"{NAMESPACE}QuestionIdentifier")): str(one.findtext(f"{NAMESPACE}FreeText")) for one in found
    }


def is_untouched(stage: Stage, assignment_id: str) -> bool:
    found = stage.assignment(assignment_id)
    return found.status is AssignmentStatus.ACCEPTED and found.answer == ""


def test_answers_are_taken_from_a_frame_that_has_no_cookie(stage: Stage, held: Held) -> None:
    fields = {"assignmentId": held.id, "hitId": "H", "text": "Ünïcode & <b>tags</b>\nlines", "empty": ""}
    answer = stage.site().test_client().post(held.path, data=fields)
    assert (answer.status_code, has_code(answer, "submitted")) == (200, True)
    assert f'data-assignment="{held.id}" data-outcome="submitted"' in answer.text
    assert answers(stage, held.id) == {"text": "Ünïcode & <b>tags</b>\nlines", "empty": ""}
    assert stage.assignment(held.id).status is AssignmentStatus.SUBMITTED


@pytest.mark.parametrize("kind", ["application/x-www-form-urlencoded", "multipart/form-data"])
def test_several_values_of_one_name_are_joined_as_mturk_does(stage: Stage, held: Held, kind: str) -> None:
    fields = MultiDict([("assignmentId", held.id), ("box", "a"), ("box", "c")])
    assert stage.site().test_client().post(held.path, data=fields, content_type=kind).status_code == 200
    assert answers(stage, held.id) == {"box": "a|c"}


def test_a_get_works_too_and_a_head_changes_nothing(stage: Stage, held: Held) -> None:
    browser = stage.site().test_client()
    assert browser.head(f"{held.path}?assignmentId={held.id}&q=1").status_code == 405
    assert is_untouched(stage, held.id)
    assert browser.get(f"{held.path}?assignmentId={held.id}&q=1").status_code == 200
    assert answers(stage, held.id) == {"q": "1"}


def test_the_answer_may_be_framed_by_any_requester(stage: Stage, held: Held) -> None:
    answer = stage.site().test_client().post(held.path, data={"assignmentId": held.id})
    assert "frame-ancestors" not in answer.headers["Content-Security-Policy"]
    assert "X-Frame-Options" not in answer.headers


def test_a_second_submission_changes_nothing(stage: Stage, held: Held) -> None:
    browser = stage.site().test_client()
    browser.post(held.path, data={"assignmentId": held.id, "text": "first"})
    answer = browser.post(held.path, data={"assignmentId": held.id, "text": "second"})
    assert (answer.status_code, has_code(answer, "already_submitted")) == (409, True)
    assert 'data-outcome="refused"' in answer.text
    assert "X-Frame-Options" not in answer.headers, "or the worker would see nothing at all"
    assert answers(stage, held.id) == {"text": "first"}


def test_a_forged_worker_is_refused_and_the_true_one_is_not(stage: Stage, held: Held) -> None:
    browser, stranger = stage.site().test_client(), stage.worker("Mallory")
    answer = browser.post(held.path, data={"assignmentId": held.id, "workerId": stranger.id, "text": "x"})
    assert (answer.status_code, has_code(answer, "not_the_holder")) == (409, True)
    assert is_untouched(stage, held.id)
    true = {"assignmentId": held.id, "workerId": str(stage.assignment(held.id).worker_id)}
    assert browser.post(held.path, data=true).status_code == 200
    assert answers(stage, held.id) == {}


def test_after_the_deadline_nothing_is_taken(stage: Stage, held: Held) -> None:
    stage.clock.advance(timedelta(seconds=600))
    answer = stage.site().test_client().post(held.path, data={"assignmentId": held.id, "text": "late"})
    assert (answer.status_code, has_code(answer, "assignment_expired")) == (410, True)
    found = stage.assignment(held.id)
    assert (found.status, found.answer) == (AssignmentStatus.FREE, "")


def test_until_the_deadline_it_is_taken(stage: Stage, held: Held) -> None:
    stage.clock.advance(timedelta(seconds=600, microseconds=-1))
    assert stage.site().test_client().post(held.path, data={"assignmentId": held.id}).status_code == 200


@pytest.mark.parametrize(
    ("fields", "status", "code"),
    [
        ({}, 400, "assignment_missing"),
        ({"assignmentId": " "}, 400, "assignment_missing"),
        ({"assignmentId": "ASSIGNMENT_ID_NOT_AVAILABLE"}, 409, "task_not_accepted"),
        ({"assignmentId": "3NOBODYHASTHIS"}, 400, "submit_pass_missing"),
    ],
)
def test_what_names_no_task_is_explained_inside_the_frame(
    stage: Stage, fields: dict[str, str], status: int, code: str
) -> None:
    answer = stage.site().test_client().post(SUBMIT, data={**fields, "text": "x"})
    assert (answer.status_code, has_code(answer, code)) == (status, True)
    assert 'class="framed"' in answer.text


def test_answers_of_the_largest_size_are_taken_and_larger_ones_are_not(stage: Stage, held: Held) -> None:
    browser = stage.site().test_client()
    # Three bytes each, and nine on their way.
    fits = "語" * ((MAX_ANSWER_BYTES - 4) // 3)
    for text in (fits + "語", "x" * 2_500_000):
        answer = browser.post(held.path, data={"assignmentId": held.id, "text": text})
        assert (answer.status_code, has_code(answer, "submission_too_large")) == (413, True)
        assert is_untouched(stage, held.id)
    assert browser.post(held.path, data={"assignmentId": held.id, "text": fits}).status_code == 200
    assert answers(stage, held.id) == {"text": fits}


def test_odd_bytes_are_survived(stage: Stage, held: Held) -> None:
    body = f"assignmentId={held.id}&text=%ff%fe%00ok&=noname".encode()
    answer = stage.site().test_client().post(held.path, data=body, content_type="application/x-www-form-urlencoded")
    assert answer.status_code == 200
    assert answers(stage, held.id)["text"].endswith("ok")


def test_without_its_pass_nothing_is_taken_however_right_the_ids_are(stage: Stage, held: Held) -> None:
    true = {"assignmentId": held.id, "workerId": str(stage.assignment(held.id).worker_id), "text": "x"}
    for path, status in ((SUBMIT, 400), (f"/s/guessed{SUBMIT}", 410)):
        assert held.browser.post(path, data=true).status_code == status
        assert is_untouched(stage, held.id)


def test_work_that_comes_after_a_return_never_becomes_the_next_holders(stage: Stage, held: Held) -> None:
    held.browser.post(f"/work/{held.id}/return", data={"csrf": csrf(held.browser.get("/account").text)})
    bob = stage.signed_in(stage.worker("Bob"))
    assert accepted(bob, held.group) == held.id, "the same assignment is given again"
    late = held.post(stage, text="from Ada")
    assert (late.status_code, has_code(late, "assignment_expired")) == (410, True)
    assert is_untouched(stage, held.id)
    assert bob.post(submit_path(bob, held.id), data={"assignmentId": held.id, "text": "Bob"}).status_code == 200
    assert answers(stage, held.id) == {"text": "Bob"}


def test_work_that_comes_after_its_time_never_becomes_the_next_holders(stage: Stage, held: Held) -> None:
    stage.clock.advance(timedelta(seconds=601))
    assert accepted(stage.signed_in(stage.worker("Bob")), held.group) == held.id
    assert held.post(stage, text="from Ada").status_code == 410
    assert is_untouched(stage, held.id)


def test_each_acceptance_has_another_pass_also_the_same_workers(stage: Stage, held: Held) -> None:
    held.browser.post(f"/work/{held.id}/return", data={"csrf": csrf(held.browser.get("/account").text)})
    stage.clock.advance(timedelta(seconds=1))
    assert accepted(held.browser, held.group) == held.id
    assert submit_path(held.browser, held.id) != held.path
    assert held.post(stage, text="of before").status_code == 410
    assert is_untouched(stage, held.id)


def test_a_pass_hands_in_nothing_but_its_own_assignment(stage: Stage, held: Held) -> None:
    bob = stage.signed_in(stage.worker("Bob"))
    other = accepted(bob, stage.group_of(stage.post("Another one")))
    answer = bob.post(held.path, data={"assignmentId": other, "text": "x"})
    assert (answer.status_code, has_code(answer, "not_the_holder")) == (409, True)
    assert is_untouched(stage, held.id)
    assert is_untouched(stage, other)


def test_a_task_is_handed_in_from_whichever_browser_its_worker_opened_it_in(stage: Stage, held: Held) -> None:
    with stage.market.read() as session:
        ada = session.get_one(Worker, stage.assignment(held.id).worker_id)
    phone = stage.signed_in(ada)
    path = submit_path(phone, held.id)
    assert path != held.path
    assert submit_path(phone, held.id) == path, "and opening it again changes nothing"
    assert phone.post(path, data={"assignmentId": held.id, "text": "x"}).status_code == 200
    assert held.post(stage, text="y").status_code == 409
    assert answers(stage, held.id) == {"text": "x"}


def test_a_pass_cannot_be_read_from_the_database(stage: Stage, held: Held) -> None:
    secret = held.path.split("/")[2]
    with stage.market.read() as session:
        stored = list(session.scalars(select(SubmitPass.token_hash)))
    assert stored
    assert secret not in stored


def test_a_file_is_refused_and_an_empty_file_field_is_not(stage: Stage, held: Held) -> None:
    answer = held.post(stage, text="x", picture=(io.BytesIO(b"png"), "cat.png"))
    assert (answer.status_code, has_code(answer, "files_not_supported")) == (400, True)
    assert is_untouched(stage, held.id)
    assert held.post(stage, text="x", picture=(io.BytesIO(b""), "")).status_code == 200


def test_a_form_of_many_small_fields_is_taken_and_of_too_many_told_so(stage: Stage, held: Held) -> None:
    def sent(count: int) -> TestResponse:
        fields = {"assignmentId": held.id, **{f"q{number}": "x" for number in range(count)}}
        return stage.site().test_client().post(held.path, data=fields, content_type="multipart/form-data")

    answer = sent(MAX_FIELDS)
    assert (answer.status_code, has_code(answer, "too_many_fields")) == (413, True)
    assert is_untouched(stage, held.id)
    assert sent(1_500).status_code == 200
    assert len(answers(stage, held.id)) == 1_500
