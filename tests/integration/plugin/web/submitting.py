"""A task that takes submissions, a client with a data token, and the queue's next run."""

import csv
import io
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd
from flask import Flask
from werkzeug.test import TestResponse

import outfox
from plugin.web.middleware import WebMetrics, add_request_logging
from plugin.web.submission_routes import submission_routes
from round_manager.archive.storage import open_archives
from round_manager.database.store import LazyStore, Store, open_store
from round_manager.evaluation.submitted_files import SubmittedFiles
from round_manager.services.context import Actor, ServiceContext
from round_manager.services.data_access import TokenCreated, create_token
from round_manager.services.submission_runs import SubmissionPorts, run_next_submission
from round_manager.services.submissions import Limits, Submitted, allow_submissions
from tests.campaign import start_closed
from tests.fakes.clock import SettableClock

TASK = "sentiment"
ADA = Actor("ada")
CSV, ZIP = "text/csv", "application/zip"


@dataclass(frozen=True)
class Submitting:
    """The task, its frozen round, and a researcher."""

    store: Store
    url: str
    folder: Path
    clock: SettableClock
    token: TokenCreated

    @property
    def services(self) -> ServiceContext:
        return ServiceContext(self.store, self.clock)

    @property
    def archives(self) -> Path:
        return self.folder / "archives"

    @property
    def ports(self) -> SubmissionPorts:
        files = SubmittedFiles(self.folder / "submissions")
        return SubmissionPorts(files, lambda _task: (), str(self.archives), self.folder / "cache")

    def allow(self, **changes: Any) -> None:
        allow_submissions(self.services, ADA, TASK, replace(Limits(), **changes))

    def ask(self, method: str, path: str = "", *, token: str | None = None, **more: Any) -> TestResponse:
        app = Flask("data")
        add_request_logging(app, WebMetrics())
        lazy_store = LazyStore(self.url)
        app.register_blueprint(submission_routes(lazy_store, self.clock, self.ports.files, str(self.archives)))
        headers = {"Authorization": f"Bearer {self.token.secret if token is None else token}"}
        try:
            return app.test_client().open(f"/data/{TASK}/submissions{path}", method=method, headers=headers, **more)
        finally:
            lazy_store.close()

    def submit(self, body: bytes, kind: str = CSV, *, token: str | None = None, **options: str) -> TestResponse:
        query = {"name": "mine", **options}
        return self.ask("POST", query_string=query, data=body, content_type=kind, token=token)

    def submitted(self, body: bytes, kind: str = CSV, **options: str) -> str:
        """Submit something that is taken; return its id."""
        answer = self.submit(body, kind, **options)
        assert answer.status_code == 201, answer.text
        return str(answer.json["id"])  # type: ignore[index]

    def run(self) -> Submitted | None:
        return run_next_submission(self.services, ADA, TASK, self.ports)

    def ended(self) -> Submitted:
        """Evaluate the next submission."""
        found = self.run()
        assert found is not None
        return found

    def held_out(self) -> list[dict[str, Any]]:
        frame = outfox.load(TASK, rounds=[1], path=self.archives)
        rows: list[dict[str, Any]] = frame[frame["split"] == "held_out"].to_dict("records")
        return rows

    def stored(self) -> pd.DataFrame:
        return outfox.evaluations(TASK, path=self.archives)


@contextmanager
def submitting(url: str, folder: Path) -> Iterator[Submitting]:
    """Open a task with a frozen round that takes submissions."""
    with open_store(url) as store:
        start_closed(store).freeze(open_archives(str(folder / "archives")))
        clock = SettableClock()
        token = create_token(ServiceContext(store, clock), ADA, TASK, days=30)
        made = Submitting(store, url, folder, clock, token)
        made.allow()
        yield made


def predictions(rows: Iterable[tuple[str, str]]) -> bytes:
    """Return a CSV file."""
    text = io.StringIO()
    csv.writer(text).writerows([("id", "prediction"), *rows])
    return text.getvalue().encode()


def zipped(folder: Path, inside: str = "") -> bytes:
    """Return a zip of a folder."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as packed:
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                packed.write(path, f"{inside}{path.relative_to(folder)}")
    return made.getvalue()
