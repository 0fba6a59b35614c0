"""The calls of a worker's page: parse the body, call the use case, return JSON."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from common.clock import Clock
from crowd.profile import CompletionLink, FormReturn
from ml_backend.judge import Judge
from plugin.web.work.access import OpenPage, PageLimits
from plugin.web.work.page_json import creation_json, quiz_json, state_json, validation_json, verdict_json
from round_manager.database.store import LazyStore
from round_manager.examples.submissions import InputProblem
from round_manager.labelstudio.annotations import read_judgement, read_submission
from round_manager.labelstudio.errors import UnreadableAnnotation
from round_manager.models import WorkSession
from round_manager.services import work as services
from round_manager.services.context import ServiceContext
from round_manager.work.attempts import CreationItem, PageInput, attempt_fields, input_error
from round_manager.work.errors import PageInputUnreadable
from round_manager.work.validation_work import Judgement, ValidationItem
from templates import TaskSpec
from templates.payloads import Json

Body = Mapping[str, Any]
Result = list[Mapping[str, Any]]
MOST_RESULTS = 200
MOST_ACTIVE_MS = 30 * 24 * 3_600_000


class PageCalls:
    """The calls of all pages; each is about the session of the page's token."""

    def __init__(
        self,
        store: LazyStore,
        judge: Judge,
        clock: Clock,
        limits: PageLimits,
        worker_return: FormReturn | CompletionLink,
    ) -> None:
        self._store = store
        self._judge = judge
        self._clock = clock
        self._limits = limits
        self._return = worker_return

    def state(self, page: OpenPage) -> Json:
        """Return everything on the page."""
        return state_json(services.page_state(self._context, page.session))

    def draft(self, page: OpenPage, item: int, body: Body) -> Json:
        """Store what the editor holds."""
        draft = {"result": _result_in(body)}
        services.save_page_draft(self._context, page.session, item, draft, read_mark=lambda: _mark_in(body))
        return {}

    def ask(self, page: OpenPage, item: int, body: Body) -> Json:
        """Return what the target says."""
        result = _result_in(body)
        outcome = services.ask_target(
            self._context,
            self._judge,
            page.session,
            item,
            mark=_mark_in(body),
            read=_reader(result, only_attempt=True),
            draft={"result": result},
            before_asking=self._limit_asking,
        )
        verdict = verdict_json(outcome.spec, outcome.attempt, outcome.number)
        return {"verdict": verdict, "tries_used": outcome.used, "again": outcome.repeated}

    def submit(self, page: OpenPage, item: int, body: Body) -> Json:
        """Submit an example."""
        read, mark, active = _reader(_result_in(body)), _mark_in(body), _active_in(body)
        return creation_json(
            services.submit_example(self._context, page.session, item, mark=mark, read=read, active_ms=active)
        )

    def skip(self, page: OpenPage, item: int, body: Body) -> Json:
        """Return the item with another context."""
        reason, mark, active = _text_in(body, "reason").strip(), _mark_in(body), _active_in(body)
        return creation_json(
            services.skip_context(self._context, page.session, item, mark=mark, reason=reason, active_ms=active)
        )

    def report(self, page: OpenPage, item: int | None, body: Body) -> Json:
        """Report a problem to the owner."""
        services.report_problem(self._context, page.session, item, _text_in(body, "text"))
        return {}

    def judgement(self, page: OpenPage, item: int, body: Body) -> Json:
        """Store a judgement; what the editor held comes back with it."""
        draft = {"result": _result_in(body)} if "result" in body else None
        spec, judged = services.judge_example(
            self._context,
            page.session,
            item,
            read=lambda spec, shown: _judgement_in(spec, shown, body),
            draft=draft,
            active_ms=_active_in(body),
        )
        return validation_json(spec, judged)

    def quiz(self, page: OpenPage, body: Body) -> Json:
        """Score the answers of a quiz."""
        answers = body.get("answers")
        if not isinstance(answers, Sequence) or isinstance(answers, str):
            raise PageInputUnreadable
        taken = services.take_quiz(self._context, page.session, answers)
        return quiz_json(taken.spec, taken.result, taken.attempts_left)

    def beat(self, page: OpenPage, body: Body) -> Json:
        """Store the page's active time."""
        active = _active_in(body)
        if active is None:
            raise PageInputUnreadable
        services.record_active_time(self._context, page.session, active)
        return {}

    def finish(self, page: OpenPage) -> Json:
        """Return the form that submits the HIT on the marketplace; the same one each time."""
        work = services.finish_page(self._context, page.session)
        answers = {"session": work.public_id.hex}
        form = self._return.form(page.submit_to, work.claimed_assignment, answers)
        return {"submit": {"url": form.url, "method": form.method, "fields": dict(form.fields)}}

    @property
    def _context(self) -> ServiceContext:
        return ServiceContext(self._store.open(), self._clock)

    def _limit_asking(self, work: WorkSession) -> None:
        self._limits.ask(work.worker_id, work.hit_id)


def _result_in(body: Body) -> Result:
    """Return the editor's serialised annotation."""
    result = body.get("result")
    if not isinstance(result, list) or len(result) > MOST_RESULTS or not all(isinstance(one, dict) for one in result):
        raise PageInputUnreadable
    return result


def _text_in(body: Body, name: str) -> str:
    text = body.get(name, "")
    if not isinstance(text, str):
        raise PageInputUnreadable
    return text


def _mark_in(body: Body) -> str:
    """Return the mark of what the page shows, which each call about an example to write carries."""
    mark = body.get("mark")
    if not isinstance(mark, str):
        raise PageInputUnreadable
    return mark


def _active_in(body: Body) -> int | None:
    """Return the milliseconds of active time that the page has counted so far, if it says."""
    active = body.get("active_ms")
    if active is None:
        return None
    if not isinstance(active, int) or isinstance(active, bool) or not 0 <= active <= MOST_ACTIVE_MS:
        raise PageInputUnreadable
    return active


def _reader(result: Result, *, only_attempt: bool = False) -> Callable[[CreationItem], PageInput]:
    """Return a function that reads the editor's content; an attempt leaves the other fields of the page aside."""

    def read(item: CreationItem) -> PageInput:
        spec = item.spec.model_copy(update={"fields": attempt_fields(item.spec)}) if only_attempt else item.spec
        try:
            found = read_submission(spec, item.context.fields, item.target, {"result": result})
        except UnreadableAnnotation as error:
            raise input_error(item.spec, InputProblem(str(error))) from error
        return PageInput({**found.fields, **found.explanation}, found.label, found.answer)

    return read


def _judgement_in(spec: TaskSpec, item: ValidationItem, body: Body) -> Judgement:
    """Return the judgement: from the editor, or a flag beside it."""
    if "result" not in body:
        return Judgement.read({"flag": body.get("flag"), "comment": body.get("comment")})
    try:
        found = read_judgement(spec, item.fields, {"result": _result_in(body)})
    except UnreadableAnnotation as error:
        raise input_error(spec, InputProblem(str(error))) from error
    return Judgement(found.label, found.answer, found.flag, found.comment)
