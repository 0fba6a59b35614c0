"""One serving process, put together: models, verdicts, sink and web application."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from flask import Flask

from ml_backend.serving.attempt_record import AttemptRecord
from ml_backend.serving.auth import BasicAuth
from ml_backend.serving.gate import Gate
from ml_backend.serving.metrics import Metrics
from ml_backend.serving.notes import OwnNotes, SharedNotes
from ml_backend.serving.outbox import Outbox
from ml_backend.serving.recollection import Recollection
from ml_backend.serving.service import BULK_PATIENCE, PATIENCE, Shelf, VerdictService
from ml_backend.serving.sink import NoSink
from ml_backend.serving.web import Hint, backend_app, ignore_hint
from ml_backend.verdict import VerdictSigner
from templates.pack import Pack

ROOM = 64


class LiveShelf(Shelf, Protocol):
    """A shelf that is filled and watched from `start` to `stop`."""

    def start(self) -> None:
        """Loads what is pinned and follows the pins from then on."""
        ...

    def stop(self) -> None:
        """Follows them no more."""
        ...


def cores() -> int:
    """The processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@dataclass(frozen=True)
class Plan:
    """Everything that a serving process is made of; it is made once and carried out in every process.

    `at_once` calls are at the models at a time and `room` wait. Tries are put into the folder `outbox`, from
    where a process of its own delivers them; without one they are not kept.
    """

    packs: Mapping[str, Pack]
    open_shelf: Callable[[], LiveShelf]
    deliver: Callable[[Sequence[AttemptRecord]], None] | None = None
    outbox: Path | None = None
    auth: BasicAuth | None = field(default=None, repr=False)
    hint: Callable[[Hint], None] = ignore_hint
    # Shared with the web app, for which verdicts are signed; without one it is not served.
    secrets: tuple[str, ...] = field(default=(), repr=False)
    at_once: int = 1
    room: int = ROOM
    patience: float = PATIENCE
    bulk_patience: float = BULK_PATIENCE


class Backend:
    """A running serving process; `close` when its last request is answered."""

    def __init__(self, plan: Plan, notes: Path | None = None) -> None:
        metrics = Metrics()
        self._sink = Outbox(plan.outbox, told=metrics.tries) if plan.outbox else None
        self._shelf = plan.open_shelf()
        service = VerdictService(
            plan.packs,
            self._shelf,
            self._sink or NoSink(),
            gate=Gate(plan.at_once, plan.room),
            recollection=Recollection(SharedNotes(notes) if notes else OwnNotes()),
            told=metrics.judged,
            patience=plan.patience,
            bulk_patience=plan.bulk_patience,
        )
        signer = VerdictSigner(plan.secrets) if plan.secrets else None
        self.app: Flask = backend_app(service, metrics=metrics, auth=plan.auth, hint=plan.hint, signer=signer)
        if self._sink:
            self._sink.start()
        self._shelf.start()

    def close(self, timeout: float = 5.0) -> None:
        """Stops following the pins and leaves every try to the courier, in that order."""
        self._shelf.stop()
        if self._sink:
            self._sink.close()
