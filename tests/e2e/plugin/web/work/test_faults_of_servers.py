"""Servers that stop or stay away during the work: nothing is lost, nothing is doubled, and the page says so."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from round_manager.models import HitKind
from tests.e2e.plugin.web.work.books import Stored, entries_of, next_to_be_checked, stored
from tests.e2e.plugin.web.work.conftest import Begin
from tests.e2e.plugin.web.work.stage import WorkStage
from tests.e2e.plugin.web.work.writing import Reader, Texts, assigned, newest_session

AWAY = "We cannot be reached at the moment. What you wrote stays on this page, and we try again."


@pytest.fixture(autouse=True)
def _all_is_up_again(shared_stage: WorkStage) -> Iterator[None]:
    """Start stopped servers again after each test, because a failed test may leave them stopped."""
    yield
    shared_stage.web.ensure()
    shared_stage.backend.ensure()


def _die(stage: WorkStage) -> None:
    stage.web.kill()
    stage.web.start()


def _texts(stage: WorkStage, reader: Reader, beginning: int) -> Texts:
    return reader.texts_for(assigned(stage, newest_session(stage)), beginning=beginning)


def test_a_server_killed_between_any_two_steps_loses_and_duplicates_nothing(
    shared_stage: WorkStage, begin: Begin, reader: Reader
) -> None:
    stage, hit = shared_stage, begin()
    work, texts = newest_session(stage), _texts(stage, reader, 0)
    _die(stage)
    hit.write("text", texts.failing)
    hit.expect_saved()
    _die(stage)
    hit.page.keyboard.press("Shift+Enter")
    hit.see("not-fooled")
    _die(stage)
    hit.page.reload()
    hit.wait_until_ready()
    hit.see("not-fooled")
    expect(hit.box("text")).to_have_value(texts.failing)
    hit.ask("text", texts.fooling)
    hit.see("fooled")
    _die(stage)
    hit.write("why_right", "Anybody would read it that way.")
    hit.there("verdict").click()
    hit.expect_saved()
    _die(stage)
    hit.submit()
    hit.expect_handed_in()
    _die(stage)
    stage.collect()
    assert stored(stage, work) == Stored(tries=2, examples=1, votes=0)
    assert stage.examples()[-1].explanation == {"why_right": "Anybody would read it that way."}

    next_to_be_checked(stage, stage.examples()[-1])
    checking = begin(HitKind.VALIDATE)
    judged = newest_session(stage)
    _die(stage)
    checking.choose("Positive")
    _die(stage)
    checking.submit()
    checking.expect_handed_in()
    stage.collect()
    stage.collect()
    assert stored(stage, judged) == Stored(tries=0, examples=0, votes=1)
    assert [one.cents for one in entries_of(stage, judged)] == [50]


def test_the_page_reports_a_server_outage_keeps_the_text_and_recovers_automatically(
    shared_stage: WorkStage, begin: Begin, reader: Reader
) -> None:
    stage, hit = shared_stage, begin()
    work, texts = newest_session(stage), _texts(stage, reader, 1)
    stage.web.kill()
    hit.ask("text", texts.fooling)
    hit.see("away", AWAY)
    expect(hit.box("text")).to_have_value(texts.fooling)
    hit.keep("fault-server-away")
    stage.web.start()
    hit.see("fooled")
    assert stored(stage, work) == Stored(tries=1, examples=0, votes=0)

    stage.web.kill()
    hit.submit()
    expect(hit.there("trouble-text")).to_have_text(AWAY)
    hit.keep("fault-server-away-at-submit")
    stage.web.start()
    hit.expect_handed_in()
    stage.collect()
    assert stored(stage, work) == Stored(tries=1, examples=1, votes=0)


def test_the_page_reports_a_model_outage_uses_no_attempt_and_recovers_automatically(
    shared_stage: WorkStage, begin: Begin, reader: Reader
) -> None:
    stage, hit = shared_stage, begin()
    work, texts = newest_session(stage), _texts(stage, reader, 2)
    stage.backend.kill()
    hit.ask("text", texts.failing)
    hit.see("away", "The model does not answer at the moment; no attempt was used")
    expect(hit.there("tries")).to_contain_text("3 of 3 attempts left")
    expect(hit.box("text")).to_have_value(texts.failing)
    hit.keep("fault-model-away")
    assert stored(stage, work) == Stored(tries=0, examples=0, votes=0)
    stage.backend.start()
    hit.see("not-fooled")
    expect(hit.there("tries")).to_contain_text("2 of 3 attempts left")
    assert stored(stage, work) == Stored(tries=1, examples=0, votes=0)
