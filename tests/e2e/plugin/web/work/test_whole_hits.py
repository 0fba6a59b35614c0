"""From an open round to money earned: a marketplace, pages, a model and a browser that are all real."""

import re
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Page, ViewportSize, expect

from common.text import dollars
from mturk.marketplace.tables.people import Worker
from round_manager.models import Example, ExampleStatus, HitKind
from tests.e2e.browser import Complaints
from tests.e2e.plugin.web.work.accessibility import serious_problems
from tests.e2e.plugin.web.work.books import line_of, pay, votes
from tests.e2e.plugin.web.work.conftest import OpenWindow
from tests.e2e.plugin.web.work.hands import Hands, Keyboard, Mouse
from tests.e2e.plugin.web.work.hit_page import HitPage, accept, fits, sign_in
from tests.e2e.plugin.web.work.stage import WorkStage, work_stage
from tests.e2e.plugin.web.work.writing import Assigned, Reader, Texts, assigned, newest_session
from tests.e2e.taught import Teach

PHONE: ViewportSize = {"width": 360, "height": 740}
DESK: ViewportSize = {"width": 1280, "height": 900}
VALIDATORS = ("Bea", "Cem", "Dan")
NOTHING = "There is nothing to check for you at the moment; return the HIT, please."


TASK = "hate_speech"
# With a fee of 20 percent: an author's reward and bonus with their fees, and three validators' rewards with theirs.
AUTHOR_CENTS, TOTAL_CENTS = 55 + 70, 66 + 84 + 3 * 72


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory, teach: Teach) -> Iterator[WorkStage]:
    """The task; three people check each example, one in a HIT."""
    with work_stage(tmp_path_factory.mktemp("whole")) as stage:
        stage.open_task(
            TASK,
            model=teach(TASK),
            contexts=8,
            validation={"policy": "adaptive", "first_votes": 3, "gold_rate": 0.0},
            work={"validations_per_hit": 1, "empty_hits_per_day": 0},
        )
        yield stage


def test_a_fooling_example_is_validated_by_three_workers_and_all_are_paid_exactly(
    stage: WorkStage, open_window: OpenWindow, teach: Teach
) -> None:
    reader, before, heard = Reader(TASK, teach(TASK)), stage.services.crowd.balance(), Complaints()
    hands, desk = Keyboard(open_window(PHONE)), Mouse(open_window(DESK))
    for one in (hands, desk):
        heard.listen_to(one.page)
    author = stage.worker("Ada")

    stage.post(TASK, HitKind.CREATE)
    given, texts = _write(stage, hands, author, reader)
    stage.collect()
    example = stage.examples()[-1]
    _check_example(example, reader, given, texts)

    stage.post(TASK, HitKind.VALIDATE, assignments=len(VALIDATORS))
    assert heard.heard == []
    _refused_as_author(stage, hands, author, reader, texts)
    # The refusal itself, as the browser's console reports it.
    assert heard.heard
    assert all("409" in one for one in heard.heard)
    heard.heard.clear()
    for number, name in enumerate(VALIDATORS):
        hit = _judge(stage, hands if not number else desk, stage.worker(name), reader, texts)
        if number < 2:
            _look_at(hit, reader, "phone" if not number else "desk")
        hit.submit()
        hit.expect_handed_in()
    paid = pay(stage, TASK)

    cast = [one for one in votes(stage) if one.example_id == example.id]
    assert len({one.worker_id for one in cast} - {example.author_id}) == len(cast) == len(VALIDATORS)
    assert {one.label or (one.answer or {})["text"] for one in cast} == {texts.target}
    line = line_of(stage, TASK)
    assert (line.figures.reserved_cents, line.figures.owed_cents, line.figures.sent_cents) == (0, 0, TOTAL_CENTS)
    assert (line.confirmed_cents, line.fee_cents) == (TOTAL_CENTS, TOTAL_CENTS - paid)
    assert before - stage.services.crowd.balance() == TOTAL_CENTS
    _see_earnings(stage, hands, author, AUTHOR_CENTS)
    assert heard.heard == []


def _write(stage: WorkStage, hands: Hands, author: Worker, reader: Reader) -> tuple[Assigned, Texts]:
    """Do the author's whole HIT: accept it, fail to fool the model, fool it, submit."""
    sign_in(stage, hands, author)
    hit = accept(hands, reader.spec.title)
    _begin(stage, hit, reader)
    given = assigned(stage, newest_session(stage))
    texts = reader.texts_for(given)
    for text in given.fields.values():
        expect(hit.editor).to_contain_text(text)
    if given.target:
        expect(hit.editor).to_contain_text(reader.spec.label_title(given.target))
    expect(hit.there("tries")).to_contain_text("10 of 10 attempts left")

    if given.target is None:
        hit.mark(texts.target)
    hit.ask(reader.input, texts.failing)
    hit.see("not-fooled", reader.sentence(given, texts.failing, texts.target))
    expect(hit.there("tries")).to_contain_text("9 of 10 attempts left")
    hit.keep(f"{reader.spec.name}-not-fooled")
    hit.ask(reader.input, texts.fooling)
    hit.see("fooled", reader.sentence(given, texts.fooling, texts.target))
    expect(hit.there("verdict-said").locator(".version")).to_contain_text(reader.version)
    assert serious_problems(hit.frame) == []
    assert fits(hit.frame)
    assert fits(hit.page)
    hit.keep(f"{reader.spec.name}-fooled")

    _fill_in_the_rest(hit, reader)
    hit.submit()
    hit.expect_handed_in()
    return given, texts


def _begin(stage: WorkStage, hit: HitPage, reader: Reader) -> None:
    """The page is usable, in a frame of another site that has no cookie of ours."""
    if reader.spec.work.content_warning:
        expect(hit.body).to_have_attribute("data-state", "consent")
        expect(hit.there("consent")).to_contain_text(reader.spec.work.content_warning[:60])
        expect(hit.editor).to_be_hidden()
        assert serious_problems(hit.frame) == []
        hit.keep(f"{reader.spec.name}-consent")
        hit.hands.press(hit.there("consent-yes"))
    hit.wait_until_ready()
    around, inside = urlsplit(hit.page.url), urlsplit(hit.frame.url)
    assert around.hostname != inside.hostname
    assert around.port != inside.port
    assert hit.page.context.cookies(f"{inside.scheme}://{inside.netloc}") == []
    assert stage.market.url == f"{around.scheme}://{around.netloc}"


def _fill_in_the_rest(hit: HitPage, reader: Reader) -> None:
    """Fill in the task's other required fields."""
    for one in reader.spec.fields:
        if one.required and one.role == "reason":
            hit.write(one.name, "Anybody would read it that way.")
        elif one.required and one.choices:
            hit.choose("None")


def _check_example(example: Example, reader: Reader, given: Assigned, texts: Texts) -> None:
    expected = reader.verdict(given, texts.fooling, texts.target)
    assert example.fields[reader.input] == texts.fooling
    assert (example.label or (example.answer or {})["text"]) == texts.target
    assert (example.fooled, example.tries, example.status) == (True, 2, ExampleStatus.PENDING)
    assert example.verdict["said"][0]["version"] == reader.version
    assert example.verdict["said"][0]["prediction"] == expected.shown.prediction


def _refused_as_author(stage: WorkStage, hands: Hands, author: Worker, reader: Reader, texts: Texts) -> None:
    """Let the author accept a validation HIT, find nothing to validate, and return it."""
    sign_in(stage, hands, author)
    hit = accept(hands, f"Check: {reader.spec.title}")
    expect(hit.there("error-text")).to_have_text(NOTHING)
    expect(hit.there("error-way")).to_contain_text("Return")
    expect(hit.page.get_by_role("link", name="Return", exact=True)).to_have_class(re.compile("primary"))
    assert texts.fooling not in hit.frame.content()
    assert serious_problems(hit.frame) == []
    hit.keep(f"{reader.spec.name}-own")
    hands.press(hit.page.get_by_role("link", name="Return", exact=True))
    hands.press(hit.page.get_by_role("button", name="Return it"))
    expect(hit.page.get_by_text("Returned. Someone else can take it now.")).to_be_visible()


def _judge(stage: WorkStage, hands: Hands, validator: Worker, reader: Reader, texts: Texts) -> HitPage:
    """Do one validator's HIT, up to its submission."""
    sign_in(stage, hands, validator)
    hit = accept(hands, f"Check: {reader.spec.title}")
    _begin(stage, hit, reader)
    expect(hit.editor).to_contain_text(texts.fooling)
    expect(hit.there("ask")).to_be_hidden()
    if reader.spec.kind == "qa":
        hit.mark(texts.target)
    else:
        hit.choose(reader.spec.label_title(texts.target))
    return hit


def _look_at(hit: HitPage, reader: Reader, window: str) -> None:
    """Check the look of the page, which is the same for all validators, and save a screenshot."""
    assert serious_problems(hit.frame) == []
    assert fits(hit.frame)
    hit.keep(f"{reader.spec.name}-judged-{window}")


def _see_earnings(stage: WorkStage, hands: Hands, author: Worker, cents: int) -> None:
    sign_in(stage, hands, author)
    page: Page = hands.page
    hands.press(page.get_by_role("navigation", name="Pages").get_by_role("link", name="Earnings"))
    expect(page.locator(".figure").first).to_contain_text(dollars(cents))
    expect(page.get_by_text("You fooled the model, and other people agreed with your label.")).to_be_visible()
