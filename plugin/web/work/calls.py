"""What a worker's page can ask for, each call in transactions of its own; the model is asked between two of them."""

import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any, Protocol

from common.clock import Clock
from crowd.profile import CompletionLink, FormReturn
from ml_backend.verdict import Verdict
from plugin.backend_client import BackendUnavailable
from plugin.errors import PluginError
from plugin.lazy_store import LazyStore
from plugin.web.work.errors import BadCall
from plugin.web.work.limits import Limits
from plugin.web.work.shown import creation_json, quiz_json, state_json, validation_json, verdict_json
from plugin.web.work.tokens import PageHeld
from plugin.web.work.written import (
    UNREADABLE,
    active_in,
    asked_of,
    handed_in_of,
    judgement_of,
    mark_in,
    result_of,
    text_of,
    worded,
)
from round_manager.errors import WorkRefused
from round_manager.models import Attempt, HitKind
from round_manager.work.attempts import PageInput, Question, check_attempt, earlier_attempt, record_attempt
from round_manager.work.creation import check_mark, check_shown, skip, submit_item
from round_manager.work.leases import lock_task
from round_manager.work.pages import creation_item, page_state, validation_item
from round_manager.work.quizzes import attempts_left, take_quiz
from round_manager.work.reports import report
from round_manager.work.session_end import finish
from round_manager.work.sessions import find_session, record_active_time, save_draft, session_context
from round_manager.work.validation_work import judge_item
from templates.payloads import Json

Body = Mapping[str, Any]
LONGEST_REASON = 1_000
_log = logging.getLogger(__name__)


class Judge(Protocol):
    """Whoever asks the model."""

    def judge(
        self, task: str, round_number: int, fields: Mapping[str, str], target: str | None, holder: str
    ) -> tuple[Verdict, int]:
        """The verdict, and the microseconds that it took; BackendUnavailable while there is none to be had."""
        ...


class PageCalls:
    """The calls of all pages; each is about the session of the page's token."""

    def __init__(
        self,
        lazy_store: LazyStore,
        judge: Judge,
        clock: Clock,
        limits: Limits,
        worker_return: FormReturn | CompletionLink,
    ) -> None:
        self._return = worker_return
        self._lazy_store = lazy_store
        self._judge = judge
        self._clock = clock
        self._limits = limits

    def state(self, page: PageHeld) -> Json:
        """Everything on the page."""
        now = self._now()
        with self._lazy_store.open().read() as session:
            return state_json(page_state(session, find_session(session, page.session), now=now), now)

    def draft(self, page: PageHeld, item: int, body: Body) -> Json:
        """What the editor holds is kept for the item."""
        result = result_of(body)
        with self._lazy_store.open().write() as session:
            work = find_session(session, page.session)
            if session_context(session, work).hit.kind is HitKind.CREATE:
                check_mark(session, work, item, mark_in(body))
            save_draft(session, work, item, {"result": result}, now=self._now())
        return {}

    def ask(self, page: PageHeld, item: int, body: Body) -> Json:
        """What the model says; asked about the same again, it has said so already and no try is used."""
        result, mark = result_of(body), mark_in(body)
        written, found = self._looked_up(page, item, result, mark)
        again = isinstance(found, Attempt)
        known = found if isinstance(found, Attempt) else self._asked(page, item, mark, written, found)
        with self._lazy_store.open().read() as session:
            work = find_session(session, page.session)
            spec, shown = session_context(session, work).spec, creation_item(session, work, item)
        check_shown(shown, mark)
        place = next((at for at, one in enumerate(shown.tries, 1) if one.id == known.id), known.number or 1)
        return {"verdict": verdict_json(spec, known, place), "tries_used": len(shown.tries), "again": again}

    def hand_in(self, page: PageHeld, item: int, body: Body) -> Json:
        """The item, written."""
        result, mark, active = result_of(body), mark_in(body), active_in(body)
        with self._lazy_store.open().write() as session:
            work = find_session(session, page.session)
            check_mark(session, work, item, mark)
            spec, shown = session_context(session, work).spec, creation_item(session, work, item)
            with worded(spec):
                written = handed_in_of(spec, shown, result)
                submit_item(session, work, item, written, now=self._now(), active_ms=active)
            return creation_json(spec, creation_item(session, work, item))

    def skip(self, page: PageHeld, item: int, body: Body) -> Json:
        """The item with another context; why is told to the owner."""
        why, mark, active, now = text_of(body, "reason").strip(), mark_in(body), active_in(body), self._now()
        with self._lazy_store.open().write() as session:
            work = find_session(session, page.session)
            # The turn comes before the session's row, which the mark is held by.
            lock_task(session, session_context(session, work).hit.task_id)
            check_mark(session, work, item, mark)
            given_up = creation_item(session, work, item).context.key
            shown = skip(session, work, item, now=now, active_ms=active)
            if why:
                # Enough may have been reported of this HIT; that is no reason to stay at a context.
                with suppress(WorkRefused):
                    report(session, work, item, f"skipped {given_up}: {why[:LONGEST_REASON]}", now=now)
            return creation_json(session_context(session, work).spec, shown)

    def report(self, page: PageHeld, item: int | None, body: Body) -> Json:
        """The owner reads it."""
        with self._lazy_store.open().write() as session:
            work = find_session(session, page.session)
            # A quiz is one thing, and its questions are no items of their own.
            about = None if session_context(session, work).hit.kind is HitKind.QUIZ else item
            report(session, work, about, text_of(body, "text"), now=self._now())
        return {}

    def judgement(self, page: PageHeld, item: int, body: Body) -> Json:
        """The item, judged; what the editor held comes back with it."""
        now, active = self._now(), active_in(body)
        with self._lazy_store.open().write() as session:
            work = find_session(session, page.session)
            spec, shown = session_context(session, work).spec, validation_item(session, work, item)
            with worded(spec):
                judge_item(session, work, item, judgement_of(spec, shown, body), now=now, active_ms=active)
                if "result" in body:
                    save_draft(session, work, item, {"result": result_of(body)}, now=now)
            return validation_json(spec, validation_item(session, work, item))

    def quiz(self, page: PageHeld, body: Body) -> Json:
        """What became of the answers."""
        answers = body.get("answers")
        if not isinstance(answers, Sequence) or isinstance(answers, str):
            raise BadCall(UNREADABLE)
        with self._lazy_store.open().write() as session:
            work = find_session(session, page.session)
            taken = take_quiz(session, work, answers, now=self._now())
            return quiz_json(session_context(session, work).spec, taken, attempts_left(session, work))

    def beat(self, page: PageHeld, body: Body) -> Json:
        """So long the page was worked on."""
        active = active_in(body)
        if active is None:
            raise BadCall(UNREADABLE)
        with self._lazy_store.open().write() as session:
            record_active_time(session, find_session(session, page.session), active, now=self._now())
        return {}

    def finish(self, page: PageHeld) -> Json:
        """The form that hands the HIT in on the marketplace; the same one each time."""
        with self._lazy_store.open().write() as session:
            work = finish(session, find_session(session, page.session), now=self._now())
        form = self._return.form(page.submit_to, work.claimed_assignment, {"session": work.public_id.hex})
        return {"submit": {"url": form.url, "fields": dict(form.fields)}}

    def _looked_up(
        self, page: PageHeld, item: int, result: list[Mapping[str, Any]], mark: str
    ) -> tuple[PageInput, Attempt | Question]:
        """What is on the page, with the try that was made on it, or else what to ask the model."""
        now = self._now()
        with self._lazy_store.open().write() as session:
            work = find_session(session, page.session)
            check_mark(session, work, item, mark)
            spec = session_context(session, work).spec
            with worded(spec):
                written = asked_of(spec, creation_item(session, work, item), result)
                known = earlier_attempt(session, work, item, written)
                if known is not None:
                    return written, known
                question = check_attempt(session, work, item, written, now=now)
                self._limits.ask(work.worker_id, work.hit_id)
                save_draft(session, work, item, {"result": result}, now=now)
            return written, question

    def _asked(self, page: PageHeld, item: int, mark: str, written: PageInput, question: Question) -> Attempt:
        holder = str(page.session)
        try:
            verdict, latency = self._judge.judge(
                question.task, question.round, question.fields, question.target, holder
            )
        except BackendUnavailable:
            raise
        except PluginError as error:
            # The owner has to mend it; for the worker the model is away until then.
            _log.error("the model cannot be asked", extra={"data": {"task": question.task, "error": str(error)}})
            raise BackendUnavailable(str(error)) from error
        with self._lazy_store.open().write() as session:
            work = find_session(session, page.session)
            # Another window may have skipped the text while the model thought.
            check_mark(session, work, item, mark)
            return record_attempt(session, work, item, written, verdict, latency_us=latency, now=self._now())

    def _now(self) -> datetime:
        return self._clock.now()
