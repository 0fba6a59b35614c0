"""The page of a HIT, as the marketplace's frame loads it."""

import gzip

import pytest
import requests

from plugin.labelstudio.editor import editor_bundle
from plugin.web.work.access import BROWSER, OPENINGS, PageLimits
from round_manager.models import Attempt, HitKind, Lease, SessionStatus, Task, WorkSession
from tests.campaign import MINUTE
from tests.campaign.base import built_in_pack
from tests.conftest import PACKS
from tests.integration.plugin.web.work.conftest import OpenSite
from tests.integration.plugin.web.work.work_site import SITE, SUBMIT_TO, WorkSite, setup_in

PREVIEW = "ASSIGNMENT_ID_NOT_AVAILABLE"

# One kind is enough: test_each_database.py tests what depends on the database.
pytestmark = pytest.mark.any_database


def test_a_worker_who_accepted_a_hit_gets_the_template_that_annotators_get_and_a_token(site: WorkSite) -> None:
    page = site.open("W1")
    pack = built_in_pack("sentiment")
    assert (page.setup["kind"], page.setup["preview"], page.setup["error"]) == ("create", False, None)
    assert page.setup["config"] == pack.create_xml
    assert page.setup["task"]["title"] == pack.spec.title
    assert "<h" in page.setup["task"]["instructions_html"]
    pay = pack.spec.pay
    shown = {"reward_cents": 45, "bonus_cents": pay.fooled_bonus_cents, "hourly_cents": pay.minimum_hourly_cents}
    assert page.setup["pay"] == shown
    assert page.setup["editor"]["module"] == editor_bundle().module
    assert page.state()["status"] == "open"


def test_instructions_that_were_read_are_remembered_for_the_worker_and_the_task(open_site: OpenSite) -> None:
    site = open_site(work={"hits_at_once": 5})
    page, other = site.open("W1"), site.open("W2")
    read = {"version": page.setup["task"]["instructions_version"]}
    assert not page.setup["task"]["instructions_read"]
    for _ in range(2):
        assert page.post("/instructions", read) == {}

    def has_read(worker: str, kind: HitKind = HitKind.CREATE) -> bool:
        setup = site.open(worker, kind=kind).setup
        assert setup["error"] is None
        return bool(setup["task"]["instructions_read"])

    site.campaign.add_example("AUTHOR")
    assert (has_read("W1"), has_read("W1", HitKind.QUIZ), has_read("W1", HitKind.VALIDATE)) == (True, True, False)
    assert not has_read("W2")
    # As if they had changed since.
    other.post("/instructions", {"version": "0" * 64})
    assert not has_read("W2")
    assert other.refused("/instructions", {"version": "1"})["kind"] == "refused"


@pytest.mark.parametrize("kind", HitKind)
def test_every_page_shows_the_hourly_rate_that_pay_is_topped_up_to(site: WorkSite, kind: HitKind) -> None:
    answer = site.get(site.campaign.add_hit(kind=kind), assignmentId=PREVIEW)
    assert built_in_pack("sentiment").spec.pay.minimum_hourly_cents == 1_500
    assert "topped up to $15.00 an hour" in answer.text


def test_a_task_without_top_ups_promises_no_hourly_rate(open_site: OpenSite) -> None:
    site = open_site(pay={"minimum_hourly_cents": 0})
    assert "topped up to $" not in site.get(site.campaign.add_hit(), assignmentId=PREVIEW).text


def test_a_worker_with_too_many_open_hits_reads_which_to_finish(open_site: OpenSite) -> None:
    site = open_site(work={"hits_at_once": 1})
    first = site.open("W1")
    hit = site.campaign.add_hit()
    claim = {"assignmentId": "A2", "workerId": "W1", "turkSubmitTo": SUBMIT_TO}
    answer = site.get(hit, **claim)
    shown = setup_in(answer)["error"]
    assert (answer.status_code, "Retry-After" in answer.headers) == (409, True)
    assert (shown["title"], shown["give_back"]) == ("Finish your other HITs first", False)
    body = first.fooling()
    first.post("/items/0/tries", body)
    first.post("/items/0/hand-in", body)
    first.post("/finish")
    assert site.get(hit, **claim).status_code == 200


def test_only_the_marketplace_may_frame_the_page_and_it_sets_no_cookie(site: WorkSite) -> None:
    answer = site.get(site.campaign.add_hit(), assignmentId="A1", workerId="W1", turkSubmitTo=SUBMIT_TO)
    policy = answer.headers["Content-Security-Policy"]
    assert f"frame-ancestors {SITE}" in policy
    assert f"form-action {SITE}" in policy
    assert "script-src 'self';" in policy
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Referrer-Policy"] == "no-referrer"
    assert answer.headers["Cache-Control"] == "no-store"
    assert "Set-Cookie" not in answer.headers
    assert "X-Frame-Options" not in answer.headers


def test_a_worker_who_returns_a_hit_and_takes_it_again_gets_its_whole_time_and_finds_their_text(site: WorkSite) -> None:
    hit = site.campaign.add_hit(assignment_seconds=180)
    first = site.open("W1", hit)
    first.put("/items/0/draft", first.written("Half a sentence."))
    given = first.state()["deadline"]
    site.campaign.clock.advance(2 * MINUTE)
    assert site.open("W1", hit).state()["deadline"] == given
    again = site.open("W1", hit, turkSubmitTo=f"{SITE}/s/another-acceptance")
    assert again.state()["deadline"] > given
    site.campaign.clock.advance(2 * MINUTE)
    state = again.state()
    assert (state["status"], len(site.campaign.rows(WorkSession))) == ("open", 1)
    assert "Half a sentence." in str(state["items"][0]["draft"])
    (lease,) = site.campaign.rows(Lease)
    assert (lease.ended_at, lease.expires_at.isoformat()) == (None, state["deadline"])


@pytest.mark.parametrize("told", [{"assignmentId": PREVIEW}, {}], ids=["not accepted", "nothing told"])
def test_a_preview_shows_everything_and_starts_nothing(site: WorkSite, told: dict[str, str]) -> None:
    setup = setup_in(site.get(site.campaign.add_hit(), **told))
    assert (setup["preview"], setup["token"], setup["error"]) == (True, None, None)
    assert setup["config"]
    assert setup["sample"]["task"]["prompt"]
    assert site.campaign.rows(WorkSession) == []
    assert site.predictor.asked == []


@pytest.mark.parametrize("name", PACKS)
@pytest.mark.parametrize("kind", list(HitKind))
def test_every_kind_of_hit_of_every_task_has_a_preview(open_site: OpenSite, name: str, kind: HitKind) -> None:
    site = open_site(name)
    setup = setup_in(site.get(site.campaign.add_hit(kind), assignmentId=PREVIEW))
    assert (setup["kind"], setup["error"]) == (kind.value, None)
    sample = setup["sample"]
    assert sample["items"] if kind is HitKind.QUIZ else sample["task"]


def test_a_warning_is_there_to_consent_to(open_site: OpenSite) -> None:
    setup = open_site("hate_speech").open().setup
    assert setup["task"]["consent"] is True
    assert setup["task"]["content_warning"]


@pytest.mark.parametrize(
    ("changed", "status", "title"),
    [
        ({"key": "x" * 27}, 401, "This link does not work"),
        ({"workerId": ""}, 409, "This HIT cannot be opened"),
        ({"workerId": "<b>\u202e</b>"}, 409, "This HIT cannot be opened"),
        ({"turkSubmitTo": "https://elsewhere.example"}, 409, "This HIT cannot be opened"),
        ({"turkSubmitTo": "http://market.example:7500.evil.example/"}, 409, "This HIT cannot be opened"),
        ({"turkSubmitTo": "javascript:alert(1)"}, 409, "This HIT cannot be opened"),
        ({"turkSubmitTo": "http://evil.example\\@market.example:7500/"}, 409, "This HIT cannot be opened"),
        ({"turkSubmitTo": "http://[::1"}, 409, "This HIT cannot be opened"),
        ({"turkSubmitTo": ""}, 409, "This HIT cannot be opened"),
    ],
)
def test_an_invalid_link_is_explained_on_the_page(
    site: WorkSite, changed: dict[str, str], status: int, title: str
) -> None:
    hit = site.campaign.add_hit()
    told = {"assignmentId": "A1", "workerId": "W1", "turkSubmitTo": SUBMIT_TO, **changed}
    key = told.pop("key", None)
    address = site.address(hit, **told)
    if key:
        address = address.replace(site.links.url(hit).rpartition("key=")[2], key)
    answer = requests.get(address, timeout=30)
    setup = setup_in(answer)
    assert (answer.status_code, setup["error"]["title"], setup["token"]) == (status, title, None)
    assert setup["error"]["text"].endswith(".")
    assert site.campaign.rows(WorkSession) == []


def test_a_link_opens_only_its_own_hit(site: WorkSite) -> None:
    one, other = site.campaign.add_hit(), site.campaign.add_hit()
    told = {"assignmentId": "A1", "workerId": "W1", "turkSubmitTo": SUBMIT_TO}
    address = site.address(one, **told).replace(one.public_id.hex, other.public_id.hex)
    assert requests.get(address, timeout=30).status_code == 401


def test_an_expired_link_says_that_the_hit_is_gone(site: WorkSite) -> None:
    hit = site.campaign.add_hit(finished_at=site.campaign.now)
    setup = site.open("W1", hit).setup
    assert "not on the marketplace" in setup["error"]["text"]


def test_a_page_whose_time_is_over_says_so_and_begins_again_when_the_hit_is_given_out_again(site: WorkSite) -> None:
    page = site.open("W1")
    site.campaign.clock.advance(30 * MINUTE)
    assert page.state()["status"] == "expired"
    assert page.refused("/items/0/tries", page.fooling())["kind"] == "over"
    assert site.open("W1", page.hit).state()["status"] == "open"


def test_an_author_of_all_examples_has_nothing_to_validate(open_site: OpenSite) -> None:
    site = open_site(work={"empty_hits_per_day": 0})
    site.campaign.add_example("W1")
    answer = site.open("W1", kind=HitKind.VALIDATE)
    assert "nothing to check for you" in answer.setup["error"]["text"]
    assert answer.setup["error"]["give_back"] is True


def test_a_retryable_page_does_not_ask_the_worker_to_return_the_hit(site: WorkSite) -> None:
    elsewhere = site.open("W1", turkSubmitTo="https://elsewhere.example")
    assert elsewhere.setup["error"]["give_back"] is False


@pytest.mark.parametrize("token", ["", "x", "Bearer x", "Bearer eyJ4Ijox.YWJj"])
def test_a_call_without_a_token_of_ours_is_refused(site: WorkSite, token: str) -> None:
    page = site.open("W1")
    answer = page.call("GET", "/state", headers={"Authorization": token})
    assert (answer.status_code, answer.json()["kind"]) == (401, "gone")


@pytest.mark.parametrize("scheme", ["bearer", "BEARER", "Bearer "])
def test_the_token_scheme_is_case_insensitive(site: WorkSite, scheme: str) -> None:
    page = site.open("W1")
    answer = page.call(
        "GET", "/state", headers={"Authorization": f"{scheme} {page.setup['token']}", BROWSER: page.browser}
    )
    assert answer.status_code == 200


def test_a_session_that_the_marketplace_gave_to_another_worker_is_closed_to_this_one(site: WorkSite) -> None:
    page = site.open("FORGED")
    (work,) = site.campaign.rows(WorkSession)
    site.campaign.confirm(work, worker="REAL")
    assert site.campaign.reload(work).status is SessionStatus.UNCONFIRMED
    assert page.refused("/items/0/tries", page.fooling())["code"] == "hit_reassigned"
    assert "somebody else" in site.open("FORGED", page.hit).setup["error"]["text"]


def test_the_editors_files_are_compressed_and_kept_for_ever(site: WorkSite) -> None:
    place = f"{site.web.url}/editor/{editor_bundle().version}/main.js"
    answer = requests.get(place, headers={"Accept-Encoding": "gzip"}, timeout=30, stream=True)
    assert "immutable" in answer.headers["Cache-Control"]
    raw = answer.raw.read()
    assert gzip.decompress(raw) == (editor_bundle().folder / "main.js").read_bytes()
    again = requests.get(place, headers={"If-None-Match": answer.headers["ETag"]}, timeout=30)
    assert (again.status_code, again.content) == (304, b"")
    assert requests.get(place.replace(editor_bundle().version, "0.0.1"), timeout=30).status_code == 404


def test_opening_pages_does_not_query_the_model(site: WorkSite) -> None:
    for number in range(3):
        site.open(f"W{number}", site.campaign.add_hit())
    assert site.predictor.asked == []
    assert site.campaign.rows(Attempt) == []


def test_a_link_that_is_opened_far_too_often_has_to_wait(site: WorkSite) -> None:
    page = site.open("W1", assignmentId="A1")
    site.limits = limits = PageLimits(lambda: 0.0)
    site.restart()
    for _ in range(OPENINGS.burst):
        limits.open(page.hit.public_id)
    told = {"assignmentId": "A1", "workerId": "W1", "turkSubmitTo": SUBMIT_TO}
    assert site.get(page.hit, **{**told, "assignmentId": "A2"}).status_code == 429
    assert site.get(page.hit, **told).status_code == 200, "who has begun can load the page again"
    assert site.get(site.campaign.add_hit(), **told).status_code == 200
    assert len(site.campaign.rows(WorkSession)) == 2


def test_reloads_and_failed_openings_do_not_count_against_a_links_limit(site: WorkSite) -> None:
    site.limits = limits = PageLimits(lambda: 0.0)
    site.restart()
    page = site.open("W1", assignmentId="A1")
    for _ in range(OPENINGS.burst - 2):
        limits.open(page.hit.public_id)
    for _ in range(3):
        assert site.open("W1", page.hit, assignmentId="A1").setup["error"] is None
        assert site.open("bad id", page.hit).setup["error"]["title"] == "This HIT cannot be opened"
    assert site.open("W2", page.hit).setup["error"] is None
    assert site.open("W3", page.hit).setup["error"]["title"] == "One moment, please"


def test_a_missing_pack_is_logged_for_the_owner(site: WorkSite, caplog: pytest.LogCaptureFixture) -> None:
    with site.campaign.store.write() as session:
        session.get_one(Task, site.campaign.task.id).name = "renamed"
        session.get_one(Task, site.campaign.task.id).folder = "/nowhere"
    answer = site.get(site.campaign.add_hit(), assignmentId=PREVIEW)
    setup = setup_in(answer)
    assert (answer.status_code, setup["error"]["title"]) == (503, "We cannot be reached just now")
    assert "renamed" not in answer.text
    assert any("renamed" in str(getattr(one, "data", "")) for one in caplog.records)


def test_an_unavailable_database_is_reported_with_retry_after(site: WorkSite) -> None:
    page = site.open("W1")
    body = page.written("A text.")
    site.settings = site.settings.model_copy(update={"database_url": "postgresql://nobody@127.0.0.1:1/outfox"})
    site.restart()
    told = page.refused("/items/0/tries", body)
    assert (told["status"], told["kind"], told["retry"]) == (503, "away", True)
    assert "127.0.0.1" not in told["error"]
    answer = site.get(page.hit, assignmentId=PREVIEW)
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "2")
