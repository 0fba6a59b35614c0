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
from tests.fakes.market import StillWorld
from tests.fakes.market_pages import accept_task, csrf, has_code, submit_path

SUBMIT = "/mturk/externalSubmit"
NAMESPACE = "{http://mechanicalturk.amazonaws.com/AWSMechanicalTurkDataSchemas/2005-10-01/QuestionFormAnswers.xsd}"


@dataclass(frozen=True)
class AcceptedTask:
    """A task that Ada accepted, and the path that its page posts to."""

    browser: FlaskClient
    group: str
    id: str
    path: str

    def post(self, world: StillWorld, /, **fields: object) -> TestResponse:
        """Post answers as the requester's page does, without a cookie."""
        return world.site().test_client().post(self.path, data={"assignmentId": self.id, **fields})


@pytest.fixture
def held(world: StillWorld) -> AcceptedTask:
    browser, group = world.sign_in(world.make_worker("Ada")), world.group_of(world.post(seconds=600).type_id)
    assignment = accept_task(browser, group)
    return AcceptedTask(browser, group, assignment, submit_path(browser, assignment))


def answers(world: StillWorld, assignment_id: str) -> dict[str, str]:
    found = ET.fromstring(world.assignment(assignment_id).answer)
    return {
        str(one.findtext(f"{NAMESPACE}QuestionIdentifier")): str(one.findtext(f"{NAMESPACE}FreeText")) for one in found
    }


def is_unchanged(world: StillWorld, assignment_id: str) -> bool:
    found = world.assignment(assignment_id)
    return found.status is AssignmentStatus.ACCEPTED and found.answer == ""


def test_answers_are_stored_from_a_frame_without_a_cookie(world: StillWorld, held: AcceptedTask) -> None:
    fields = {"assignmentId": held.id, "hitId": "H", "text": "Ünïcode & <b>tags</b>\nlines", "empty": ""}
    response = world.site().test_client().post(held.path, data=fields)
    assert (response.status_code, has_code(response, "submitted")) == (200, True)
    assert f'data-assignment="{held.id}" data-outcome="submitted"' in response.text
    assert answers(world, held.id) == {"text": "Ünïcode & <b>tags</b>\nlines", "empty": ""}
    assert world.assignment(held.id).status is AssignmentStatus.SUBMITTED


@pytest.mark.parametrize("kind", ["application/x-www-form-urlencoded", "multipart/form-data"])
def test_several_values_of_one_name_are_joined_like_on_mturk(world: StillWorld, held: AcceptedTask, kind: str) -> None:
    fields = MultiDict([("assignmentId", held.id), ("box", "a"), ("box", "c")])
    assert world.site().test_client().post(held.path, data=fields, content_type=kind).status_code == 200
    assert answers(world, held.id) == {"box": "a|c"}


def test_get_submits_and_head_changes_nothing(world: StillWorld, held: AcceptedTask) -> None:
    browser = world.site().test_client()
    assert browser.head(f"{held.path}?assignmentId={held.id}&q=1").status_code == 405
    assert is_unchanged(world, held.id)
    assert browser.get(f"{held.path}?assignmentId={held.id}&q=1").status_code == 200
    assert answers(world, held.id) == {"q": "1"}


def test_the_response_may_be_framed_by_any_requester(world: StillWorld, held: AcceptedTask) -> None:
    response = world.site().test_client().post(held.path, data={"assignmentId": held.id})
    assert "frame-ancestors" not in response.headers["Content-Security-Policy"]
    assert "X-Frame-Options" not in response.headers


def test_a_second_submission_changes_nothing(world: StillWorld, held: AcceptedTask) -> None:
    browser = world.site().test_client()
    browser.post(held.path, data={"assignmentId": held.id, "text": "first"})
    response = browser.post(held.path, data={"assignmentId": held.id, "text": "second"})
    assert (response.status_code, has_code(response, "assignment_already_submitted")) == (409, True)
    assert 'data-outcome="refused"' in response.text
    assert "X-Frame-Options" not in response.headers, "otherwise the worker would see an empty frame"
    assert answers(world, held.id) == {"text": "first"}


def test_a_forged_worker_id_is_refused(world: StillWorld, held: AcceptedTask) -> None:
    browser, other = world.site().test_client(), world.make_worker("Mallory")
    response = browser.post(held.path, data={"assignmentId": held.id, "workerId": other.id, "text": "x"})
    assert (response.status_code, has_code(response, "not_the_holder")) == (409, True)
    assert is_unchanged(world, held.id)
    valid = {"assignmentId": held.id, "workerId": str(world.assignment(held.id).worker_id)}
    assert browser.post(held.path, data=valid).status_code == 200
    assert answers(world, held.id) == {}


def test_answers_after_the_deadline_are_refused(world: StillWorld, held: AcceptedTask) -> None:
    world.clock.advance(timedelta(seconds=600))
    response = world.site().test_client().post(held.path, data={"assignmentId": held.id, "text": "late"})
    assert (response.status_code, has_code(response, "assignment_expired")) == (410, True)
    found = world.assignment(held.id)
    assert (found.status, found.answer) == (AssignmentStatus.FREE, "")


def test_answers_just_before_the_deadline_are_stored(world: StillWorld, held: AcceptedTask) -> None:
    world.clock.advance(timedelta(seconds=600, microseconds=-1))
    assert world.site().test_client().post(held.path, data={"assignmentId": held.id}).status_code == 200


@pytest.mark.parametrize(
    ("fields", "status", "code"),
    [
        ({}, 400, "assignment_missing"),
        ({"assignmentId": " "}, 400, "assignment_missing"),
        ({"assignmentId": "ASSIGNMENT_ID_NOT_AVAILABLE"}, 409, "task_not_accepted"),
        ({"assignmentId": "3NOBODYHASTHIS"}, 400, "submit_pass_missing"),
    ],
)
def test_a_submission_without_a_task_is_explained_inside_the_frame(
    world: StillWorld, fields: dict[str, str], status: int, code: str
) -> None:
    response = world.site().test_client().post(SUBMIT, data={**fields, "text": "x"})
    assert (response.status_code, has_code(response, code)) == (status, True)
    assert 'class="framed"' in response.text


def test_answers_are_stored_up_to_the_largest_size(world: StillWorld, held: AcceptedTask) -> None:
    browser = world.site().test_client()
    # Three bytes each, nine when URL-encoded.
    fits = "語" * ((MAX_ANSWER_BYTES - 4) // 3)
    for text in (fits + "語", "x" * 2_500_000):
        response = browser.post(held.path, data={"assignmentId": held.id, "text": text})
        assert (response.status_code, has_code(response, "submission_too_large")) == (413, True)
        assert is_unchanged(world, held.id)
    assert browser.post(held.path, data={"assignmentId": held.id, "text": fits}).status_code == 200
    assert answers(world, held.id) == {"text": fits}


def test_invalid_utf8_is_accepted(world: StillWorld, held: AcceptedTask) -> None:
    body = f"assignmentId={held.id}&text=%ff%fe%00ok&=noname".encode()
    response = world.site().test_client().post(held.path, data=body, content_type="application/x-www-form-urlencoded")
    assert response.status_code == 200
    assert answers(world, held.id)["text"].endswith("ok")


def test_without_its_pass_nothing_is_submitted_even_with_the_right_ids(world: StillWorld, held: AcceptedTask) -> None:
    valid = {"assignmentId": held.id, "workerId": str(world.assignment(held.id).worker_id), "text": "x"}
    for path, status in ((SUBMIT, 400), (f"/s/guessed{SUBMIT}", 410)):
        assert held.browser.post(path, data=valid).status_code == status
        assert is_unchanged(world, held.id)


def test_late_work_after_a_return_is_not_taken_as_the_next_holders(world: StillWorld, held: AcceptedTask) -> None:
    held.browser.post(f"/work/{held.id}/return", data={"csrf": csrf(held.browser.get("/account").text)})
    bob = world.sign_in(world.make_worker("Bob"))
    assert accept_task(bob, held.group) == held.id, "the same assignment is assigned again"
    late = held.post(world, text="from Ada")
    assert (late.status_code, has_code(late, "assignment_expired")) == (410, True)
    assert is_unchanged(world, held.id)
    assert bob.post(submit_path(bob, held.id), data={"assignmentId": held.id, "text": "Bob"}).status_code == 200
    assert answers(world, held.id) == {"text": "Bob"}


def test_late_work_after_the_deadline_is_not_taken_as_the_next_holders(world: StillWorld, held: AcceptedTask) -> None:
    world.clock.advance(timedelta(seconds=601))
    assert accept_task(world.sign_in(world.make_worker("Bob")), held.group) == held.id
    assert held.post(world, text="from Ada").status_code == 410
    assert is_unchanged(world, held.id)


def test_each_acceptance_has_its_own_pass(world: StillWorld, held: AcceptedTask) -> None:
    held.browser.post(f"/work/{held.id}/return", data={"csrf": csrf(held.browser.get("/account").text)})
    world.clock.advance(timedelta(seconds=1))
    assert accept_task(held.browser, held.group) == held.id
    assert submit_path(held.browser, held.id) != held.path
    assert held.post(world, text="of before").status_code == 410
    assert is_unchanged(world, held.id)


def test_a_pass_submits_only_its_own_assignment(world: StillWorld, held: AcceptedTask) -> None:
    bob = world.sign_in(world.make_worker("Bob"))
    other = accept_task(bob, world.group_of(world.post("Another one").type_id))
    response = bob.post(held.path, data={"assignmentId": other, "text": "x"})
    assert (response.status_code, has_code(response, "not_the_holder")) == (409, True)
    assert is_unchanged(world, held.id)
    assert is_unchanged(world, other)


def test_a_task_can_be_submitted_from_another_browser_of_its_worker(world: StillWorld, held: AcceptedTask) -> None:
    with world.market.read() as session:
        ada = session.get_one(Worker, world.assignment(held.id).worker_id)
    phone = world.sign_in(ada)
    path = submit_path(phone, held.id)
    assert path != held.path
    assert submit_path(phone, held.id) == path, "opening it again changes nothing"
    assert phone.post(path, data={"assignmentId": held.id, "text": "x"}).status_code == 200
    assert held.post(world, text="y").status_code == 409
    assert answers(world, held.id) == {"text": "x"}


def test_only_the_hash_of_a_pass_is_stored(world: StillWorld, held: AcceptedTask) -> None:
    secret = held.path.split("/")[2]
    with world.market.read() as session:
        stored = list(session.scalars(select(SubmitPass.token_hash)))
    assert stored
    assert secret not in stored


def test_a_file_is_refused_and_an_empty_file_field_is_not(world: StillWorld, held: AcceptedTask) -> None:
    response = held.post(world, text="x", picture=(io.BytesIO(b"png"), "cat.png"))
    assert (response.status_code, has_code(response, "files_not_supported")) == (400, True)
    assert is_unchanged(world, held.id)
    assert held.post(world, text="x", picture=(io.BytesIO(b""), "")).status_code == 200


def test_forms_are_accepted_up_to_a_number_of_fields(world: StillWorld, held: AcceptedTask) -> None:
    def post(count: int) -> TestResponse:
        fields = {"assignmentId": held.id, **{f"q{number}": "x" for number in range(count)}}
        return world.site().test_client().post(held.path, data=fields, content_type="multipart/form-data")

    response = post(MAX_FIELDS)
    assert (response.status_code, has_code(response, "too_many_fields")) == (413, True)
    assert is_unchanged(world, held.id)
    assert post(1_500).status_code == 200
    assert len(answers(world, held.id)) == 1_500
