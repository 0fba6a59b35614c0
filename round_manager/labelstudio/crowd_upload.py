"""Uploads crowd work to Label Studio: every confirmed submission is shown once in the task's projects.

A lock makes sure that one process at a time uploads to a project. An item that was sent without an answer is looked up
by its key, and only after a backoff in which it must have arrived.
"""

from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from functools import partial
from operator import add
from typing import Any

from common.clock import Clock
from common.errors import Hint
from ml_backend.verdict import Verdict, shown_verdict
from round_manager.database.store import Store, process_lock
from round_manager.labelstudio import port, upload_queue
from round_manager.labelstudio.annotations import FEEDBACK, content_sha256
from round_manager.labelstudio.projects import linked_projects, recording_errors
from round_manager.labelstudio.tasks import TASKS_PER_PAGE
from round_manager.models import Example, LabelStudioLink, Vote
from templates import TaskSpec
from templates.label_config import Element, read_elements
from templates.payloads import Span, creation_task, results, validation_task
from templates.rows import Context

ITEMS_PER_REQUEST = 100
# So that a long queue of one task does not keep the others waiting.
ITEMS_PER_RUN = 1_000
# A single refusal is the item's fault; several are the project's.
REFUSALS_PER_RUN = 5
# The messages of other answers can quote what people typed.
SAFE_STATUSES = (None, 401, 403, 404)

Values = dict[str, str | Span]


@dataclass(frozen=True)
class CrowdUpload:
    """How many items were sent, found in Label Studio already, and refused."""

    sent: int = 0
    found: int = 0
    refused: int = 0

    def __add__(self, other: "CrowdUpload") -> "CrowdUpload":
        return CrowdUpload(*map(add, astuple(self), astuple(other)))


class _UploadLocked(Exception):
    """Another process uploads to this project."""


def upload_crowd_work(
    store: Store, label_studio: port.LabelStudio, task_name: str, clock: Clock, *, until_done: bool = False
) -> CrowdUpload:
    """Upload the confirmed work that the task's projects do not show; interrupted and repeated, each item is sent once.

    Runs once per project; with `until_done`, as often as needed, and with the shortest backoff after failures.
    """
    _, links = linked_projects(store, label_studio.url, task_name)
    total = CrowdUpload()
    for link in links.values():
        with recording_errors(store, link, task_name, clock):
            while True:
                more = _upload(store, label_studio, link, task_name, clock, grow=not until_done)
                total += more
                if not (until_done and more.sent):
                    break
    return total


def _upload(
    store: Store, label_studio: port.LabelStudio, link: LabelStudioLink, task_name: str, clock: Clock, *, grow: bool
) -> CrowdUpload:
    with store.read() as session:
        if not upload_queue.has_crowd_work(session, link, now=clock.now()):
            return CrowdUpload()
    try:
        with process_lock(store, f"label-studio-{link.id}", _skip):
            return _UploadRun(store, label_studio, link, task_name, clock).run(grow=grow)
    except _UploadLocked:
        return CrowdUpload()


def _skip() -> None:
    raise _UploadLocked


@dataclass
class _UploadRun:
    store: Store
    label_studio: port.LabelStudio
    link: LabelStudioLink
    task_name: str
    clock: Clock
    refused: int = 0

    def run(self, *, grow: bool) -> CrowdUpload:
        now = self.clock.now()
        with self.store.read() as session:
            queue = upload_queue.find_queue(session, self.link)
            if queue is not None and now < queue.next_try(grow=grow):
                return CrowdUpload()
            unconfirmed = {item.key for item in upload_queue.due_items(session, self.link, now=now, most=ITEMS_PER_RUN)}
        with self.store.write() as session:
            upload_queue.plan_crowd_work(session, self.link, now=now, most=ITEMS_PER_RUN - len(unconfirmed))
        with self.store.read() as session:
            items = upload_queue.due_items(session, self.link, now=now, most=ITEMS_PER_RUN)
        try:
            return self._upload(items, unconfirmed)
        except port.LabelStudioError as error:
            raised = self._without_texts(error)
            with self.store.write() as session:
                upload_queue.record_failure(session, [item.row for item in items], str(raised), now=self.clock.now())
            raise raised from error

    def _upload(self, items: Sequence[upload_queue.CrowdItem], unconfirmed: set[str]) -> CrowdUpload:
        found = 0
        if unconfirmed:
            # Sent by an interrupted run: Label Studio may have them.
            uploaded = self._look_up(unconfirmed)
            found = self._mark(uploaded)
            items = [item for item in items if item.key not in uploaded]
        sent = self._send_all(items) if items else 0
        return CrowdUpload(sent, found, self.refused)

    def _send_all(self, items: Sequence[upload_queue.CrowdItem]) -> int:
        project = self.label_studio.project(self.link.project)
        if project is None:
            raise port.ProjectNotFound(f"project {self.link.project} does not exist", status=404)
        elements = read_elements(project.label_config.strip(), f"project {project.id}")
        batches = range(0, len(items), ITEMS_PER_REQUEST)
        return sum(self._send(items[first : first + ITEMS_PER_REQUEST], elements) for first in batches)

    def _send(self, batch: Sequence[upload_queue.CrowdItem], elements: list[Element]) -> int:
        """Send the batch, without the items that Label Studio refuses; return how many were stored."""
        with self.store.write() as session:
            upload_queue.record_attempt(session, [item.row for item in batch], now=self.clock.now())
        try:
            ids = self.label_studio.add_tasks(self.link.project, [crowd_task(item, elements) for item in batch])
        except port.LabelStudioRefused as error:
            # Label Studio stores all of a batch or nothing: find the refused item by halving.
            if len(batch) == 1:
                self._refuse(batch[0], error)
                return 0
            half = len(batch) // 2
            return self._send(batch[:half], elements) + self._send(batch[half:], elements)
        return self._mark(self._look_up({item.key for item in batch}, after=min(ids) - 1))

    def _refuse(self, item: upload_queue.CrowdItem, error: port.LabelStudioError) -> None:
        self.refused += 1
        if self.refused > REFUSALS_PER_RUN:
            raise error
        with self.store.write() as session:
            upload_queue.record_refusal(session, item.row, str(self._without_texts(error)))

    def _look_up(self, keys: set[str], after: int = 0) -> dict[str, upload_queue.UploadedItem]:
        found: dict[str, upload_queue.UploadedItem] = {}
        read = partial(self.label_studio.tasks_after, self.link.project)
        for page in port.id_pages(read, TASKS_PER_PAGE, after=after):
            for task in page.tasks:
                if task.key in keys and task.key not in found:
                    mine = next(iter(task.annotations), {})
                    found[task.key] = upload_queue.UploadedItem(task.id, mine.get("id"), content_sha256(mine))
            if len(found) == len(keys):
                break
        return found

    def _mark(self, uploaded: dict[str, upload_queue.UploadedItem]) -> int:
        with self.store.write() as session:
            return upload_queue.mark_uploaded(session, self.link, uploaded, now=self.clock.now())

    def _without_texts(self, error: port.LabelStudioError) -> port.LabelStudioError:
        """Return the error without what people typed, which Label Studio quotes when it refuses it."""
        if error.status in SAFE_STATUSES:
            return error
        where = f"Label Studio at {self.label_studio.url}"
        if isinstance(error, port.LabelStudioRefused):
            text = f"{where} refuses crowd work; the project's template may be outdated"
            hint = Hint("connect_label_studio", task=self.task_name)
            return port.LabelStudioRefused(text, status=error.status, hint=hint)
        return type(error)(f"{where} answers {error.status} to an upload of crowd work", status=error.status)


def crowd_task(item: upload_queue.CrowdItem, elements: list[Element]) -> port.Json:
    """Return a submission as a task for import into a project with this template: shown, but not to be worked on.

    The worker's pseudonym is in its data; for Label Studio, the annotation's user is the owner of the token.
    """
    spec, example, vote = item.spec, item.example, item.vote
    if vote is None:
        task, values, active_ms = _creation_task(item), _submitted_values(spec, example), example.active_ms
    else:
        task, values, active_ms = validation_task(spec, _texts(example)), _vote_values(spec, vote), vote.active_ms
    annotation = {
        "result": results(elements, values),
        # Without this, Label Studio takes an imported annotation for ground truth.
        "ground_truth": False,
        "lead_time": None if active_ms is None else active_ms / 1000,
    }
    at = example.submitted_at if vote is None else vote.voted_at
    meta = {"example": str(example.public_id), "round": item.round, "at": at.isoformat(), port.TASK_KEY: item.key}
    return {
        "data": {**task["data"], port.WORKER_FIELD: item.worker},
        "meta": {**task.get("meta", {}), **meta},
        "annotations": [annotation],
    }


def _creation_task(item: upload_queue.CrowdItem) -> port.Json:
    texts = _texts(item.example)
    shown = {field.name: texts.get(field.name, "") for field in item.spec.with_role("context")}
    target = item.example.label if item.spec.target.set_by == "task" else None
    return creation_task(item.spec, Context(item.context or "", shown, (), {}), target)


def _submitted_values(spec: TaskSpec, example: Example) -> Values:
    texts = {**_texts(example), **(example.explanation or {})}
    values: Values = {FEEDBACK: shown_verdict(spec, verdict_of(spec, example))}
    values |= {
        field.name: str(texts[field.name])
        for field in spec.fields
        if field.role not in ("context", "span") and texts.get(field.name)
    }
    return values | _target_value(spec, example.label if spec.target.set_by == "annotator" else None, example.answer)


def verdict_of(spec: TaskSpec, example: Example) -> Verdict:
    """Return the verdict that is stored with an example."""
    own_id = example.verdict_id or example.public_id
    return Verdict.from_record(example.verdict, verdict_id=own_id, task=spec.name, fooled=example.fooled)


def _vote_values(spec: TaskSpec, vote: Vote) -> Values:
    values: Values = {name: text for name, text in (("flag", vote.flag), ("comment", vote.comment)) if text}
    return values | _target_value(spec, vote.label, vote.answer)


def _target_value(spec: TaskSpec, label: str | None, answer: Mapping[str, Any] | None) -> Values:
    if answer is not None:
        return {spec.with_role("span")[0].name: Span(int(answer["start"]), str(answer["text"]))}
    return {} if label is None else {"label": label}


def _texts(example: Example) -> dict[str, str]:
    return {name: str(text) for name, text in example.fields.items()}
