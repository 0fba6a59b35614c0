"""Crowd work in Label Studio: what workers handed in stands in the task's projects, each piece once.

Whoever sends and whoever looks for what was sent take turns. A piece that was sent and not heard of again is looked
for by its key, and not before a pause in which it must have arrived.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from common.clock import Clock
from plugin.errors import PluginError
from plugin.labelstudio.crowd_payloads import crowd_task
from plugin.labelstudio.errors import LabelStudioError
from plugin.labelstudio.links import linked, remembered
from plugin.labelstudio.reading import content_sha256
from plugin.labelstudio.studio import Studio
from round_manager.database.locks import process_lock
from round_manager.database.store import Store
from round_manager.labelstudio.crowd import (
    Piece,
    Standing,
    crowd_queue,
    due_pieces,
    has_crowd_work,
    mark_shown,
    note_failure,
    note_refusal,
    note_try,
    plan_crowd_work,
)
from round_manager.models import LabelStudioLink
from templates.xml_lines import Element, read_elements

PIECES_AT_ONCE = 100
# So that a long queue of one task does not keep the others waiting.
PIECES_A_TURN = 1_000
TASKS_TO_LOOK_AT = 500
# One odd piece is its own fault; several are the project's.
REFUSALS_A_TURN = 5
BAD_REQUEST = 400
# What Label Studio says with these is about us; with others it may repeat what people typed.
HARMLESS = (None, 401, 403, 404)


@dataclass(frozen=True)
class Shown:
    """What was sent, what was found there already, and what Label Studio refused."""

    sent: int = 0
    found: int = 0
    refused: int = 0

    def __add__(self, other: "Shown") -> "Shown":
        return Shown(self.sent + other.sent, self.found + other.found, self.refused + other.refused)


class _AtIt(PluginError):
    """Another process shows this project's crowd work just now."""


def show_crowd_work(store: Store, studio: Studio, task_name: str, clock: Clock, *, until_done: bool = False) -> Shown:
    """Sends what the marketplace confirmed and the projects do not show; killed anywhere and run again, each once.

    A lock for each project; until done, as many turns as it takes, and with less patience after failures.
    """
    _, links = linked(store, studio, task_name)
    shown = Shown()
    for link in links.values():
        with remembered(store, link, task_name, clock):
            more = _show(store, studio, link, clock, patient=not until_done)
            shown += more
            while until_done and more.sent:
                more = _show(store, studio, link, clock, patient=False)
                shown += more
    return shown


def _show(store: Store, studio: Studio, link: LabelStudioLink, clock: Clock, *, patient: bool) -> Shown:
    with store.read() as session:
        if not has_crowd_work(session, link, now=clock.now()):
            return Shown()
    try:
        with process_lock(store, f"label-studio-{link.id}", _leave_it):
            return _Turn(store, studio, link, clock).take(patient=patient)
    except _AtIt:
        return Shown()


def _leave_it() -> None:
    raise _AtIt("another process is at it")


class _Turn:
    def __init__(self, store: Store, studio: Studio, link: LabelStudioLink, clock: Clock) -> None:
        self._store = store
        self._studio = studio
        self._link = link
        self._clock = clock
        self._refused = 0

    def take(self, *, patient: bool) -> Shown:
        now = self._clock.now()
        with self._store.read() as session:
            queue = crowd_queue(session, self._link)
            if queue is not None and now < queue.next_try(patient=patient):
                return Shown()
            in_doubt = {piece.key for piece in due_pieces(session, self._link, now=now, most=PIECES_A_TURN)}
        with self._store.write() as session:
            plan_crowd_work(session, self._link, now=now, most=PIECES_A_TURN - len(in_doubt))
        with self._store.read() as session:
            pieces = due_pieces(session, self._link, now=now, most=PIECES_A_TURN)
        try:
            return self._show(pieces, in_doubt)
        except LabelStudioError as error:
            told = _without_words(error, self._studio.url)
            with self._store.write() as session:
                note_failure(session, [piece.row for piece in pieces], str(told), now=self._clock.now())
            raise told from error

    def _show(self, pieces: Sequence[Piece], in_doubt: set[str]) -> Shown:
        found = 0
        if in_doubt:
            # Sent by a lock that did not end: Label Studio may have them.
            there = self._look_for(in_doubt)
            found = self._mark(there)
            pieces = [piece for piece in pieces if piece.key not in there]
        sent = self._send_all(pieces) if pieces else 0
        return Shown(sent, found, self._refused)

    def _send_all(self, pieces: Sequence[Piece]) -> int:
        project = self._studio.project(self._link.project)
        if project is None:
            raise LabelStudioError(f"there is no project {self._link.project}", status=404)
        elements = read_elements(project.label_config.strip(), f"project {project.id}")
        batches = range(0, len(pieces), PIECES_AT_ONCE)
        return sum(self._send(pieces[first : first + PIECES_AT_ONCE], elements) for first in batches)

    def _send(self, batch: Sequence[Piece], elements: list[Element]) -> int:
        """Sends all, or, where Label Studio refuses, all but the odd ones; how many."""
        with self._store.write() as session:
            note_try(session, [piece.row for piece in batch], now=self._clock.now())
        try:
            numbers = self._studio.add_tasks(self._link.project, [crowd_task(piece, elements) for piece in batch])
        except LabelStudioError as error:
            if error.status != BAD_REQUEST:
                raise
            # It takes all of a batch or nothing.
            if len(batch) == 1:
                self._refuse(batch[0], error)
                return 0
            half = len(batch) // 2
            return self._send(batch[:half], elements) + self._send(batch[half:], elements)
        return self._mark(self._look_for({piece.key for piece in batch}, after=min(numbers) - 1))

    def _refuse(self, piece: Piece, error: LabelStudioError) -> None:
        self._refused += 1
        if self._refused > REFUSALS_A_TURN:
            raise error
        with self._store.write() as session:
            note_refusal(session, piece.row, str(_without_words(error, self._studio.url)))

    def _look_for(self, keys: set[str], after: int = 0) -> dict[str, Standing]:
        found: dict[str, Standing] = {}
        while len(found) < len(keys):
            page = self._studio.all_tasks(self._link.project, after=after, size=TASKS_TO_LOOK_AT)
            for task in page.tasks:
                if task.key in keys and task.key not in found:
                    mine = next(iter(task.annotations), {})
                    found[task.key] = Standing(task.id, mine.get("id"), content_sha256(mine))
            if len(page.tasks) < TASKS_TO_LOOK_AT:
                break
            after = page.tasks[-1].id
        return found

    def _mark(self, found: dict[str, Standing]) -> int:
        with self._store.write() as session:
            return mark_shown(session, self._link, found, now=self._clock.now())


def _without_words(error: LabelStudioError, url: str) -> LabelStudioError:
    """The error without what people typed, which Label Studio repeats when it refuses it."""
    if error.status in HARMLESS:
        return error
    if error.status == BAD_REQUEST:
        cure = "the project's template may be another one: `outfox labelstudio connect` brings it up to date"
        return LabelStudioError(f"Label Studio at {url} refuses crowd work; {cure}", status=BAD_REQUEST)
    text = f"Label Studio at {url} answers {error.status} when it is sent crowd work"
    return LabelStudioError(text, retry=error.retry, status=error.status)
