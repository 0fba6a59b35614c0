"""Ensembles: from opening a round to the stored verdicts and the metrics."""

import dataclasses
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import UUID

import pytest
from sqlalchemy import select
from werkzeug.serving import make_server

from ml_backend.judge import JudgeRequest
from ml_backend.registry.model_pool import ModelPool
from ml_backend.serving.attempt_record import AttemptRecord
from ml_backend.serving.service import VerdictService
from ml_backend.serving.web import backend_app
from ml_backend.verdict import VerdictSigner
from plugin.backend_client import BackendJudge
from round_manager.database.store import Store
from round_manager.errors import StaleVerdict
from round_manager.examples.attempts import store_attempts
from round_manager.examples.submissions import Submission, submit
from round_manager.models import Attempt, ModelVersion, Source, ensure_worker
from round_manager.tasks.rounds import collected, live_round, pinned_versions
from round_manager.tasks.tasks import create_task, find_task
from round_manager.validation.metrics import round_metrics
from templates import Pack
from tests.campaign.training import TASK
from tests.fakes.clock import NOON, SettableClock
from tests.fakes.contexts import live_contexts
from tests.fakes.registry import QuickRegistry, load_fixed, make_version
from tests.fakes.round_opener import RoundOpener
from tests.fakes.sink import ListSink

SECRET = "s" * 32


@contextmanager
def serving(pack: Pack, models: Path, clock: SettableClock) -> Iterator[BackendJudge]:
    """A real ML backend on a port, with instant models, and the web app's client for it."""
    pool = ModelPool(QuickRegistry(models), load_fixed, [TASK])
    pool.start()
    service = VerdictService({TASK: pack}, pool, ListSink(), clock)
    server = make_server("127.0.0.1", 0, backend_app(service, signer=VerdictSigner([SECRET])), threaded=True)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    try:
        yield BackendJudge(f"http://127.0.0.1:{server.server_port}", [SECRET], now=clock.now)
    finally:
        server.shutdown()
        server.server_close()
        pool.stop()


def with_rule(pack: Pack, rule: str) -> Pack:
    fooled = pack.spec.fooled.model_copy(update={"ensemble": rule})
    return dataclasses.replace(pack, spec=pack.spec.model_copy(update={"fooled": fooled}))


@pytest.mark.parametrize(("rule", "fooled"), [("any", True), ("all", False), ("majority", False)])
def test_every_verdict_records_each_version_and_the_tasks_rule_decides(
    store: Store, pack: Pack, tmp_path: Path, rule: str, fooled: bool
) -> None:
    models, clock, changed = tmp_path / "models", SettableClock(), with_rule(pack, rule)
    right, wrong = make_version(models, "positive"), make_version(models, "negative")
    with store.write() as session:
        create_task(session, changed, now=NOON)
    opening = RoundOpener(store, QuickRegistry(models), str(models), load_fixed, clock, timeout=5)
    assert opening.open(TASK, [wrong, right], actor="owner", reason="two at once").versions == (wrong, right)

    with store.read() as session:
        context = live_contexts(session, find_task(session, TASK).id)[0]
    fields = {**context.fields, "text": "It was anything but bad."}
    with serving(changed, models, clock) as judge:
        asked = JudgeRequest(changed.spec, 1, (wrong, right), fields, "positive", "session-1")
        tried, handed_in = judge.judge(asked), judge.judge(asked)
    assert [(one.version, one.fooled) for one in tried.outputs] == [(wrong, True), (right, False)]
    assert tried.fooled is fooled

    with store.write() as session:
        intake = store_attempts(session, [AttemptRecord(tried, fields, 1, 900, "pages", None, None)], now=NOON)
        assert (intake.stored, intake.refused) == (1, {})
        opened = live_round(session, find_task(session, TASK).id)
        assert opened is not None
        assert pinned_versions(session, opened) == (wrong, right)
        author = ensure_worker(session, "fake", "W1", now=NOON)
        written = Submission(fields, "positive", None, {}, context.id, author.id, Source.PAGES, NOON)
        example = submit(session, opened, written, handed_in, now=NOON)
    with store.read() as session:
        attempt = session.scalars(select(Attempt)).one()
        first = session.scalars(select(ModelVersion).where(ModelVersion.name == wrong)).one()
        for row in (attempt, example):
            assert [(one["version"], one["fooled"]) for one in row.verdict["said"]] == [(wrong, True), (right, False)]
            assert (row.fooled, row.model_version_id) == (fooled, first.id)
        assert collected(session, opened).fooled == int(fooled)
        counts = round_metrics(session, opened).counts
        assert (counts.collected, counts.fooled) == (1, int(fooled))


@pytest.mark.any_database
def test_a_verdict_of_one_version_is_refused_if_two_are_pinned(store: Store, pack: Pack, tmp_path: Path) -> None:
    models, clock = tmp_path / "models", SettableClock()
    versions = [make_version(models, label) for label in ("positive", "negative")]
    with store.write() as session:
        create_task(session, pack, now=NOON)
    opening = RoundOpener(store, QuickRegistry(models), str(models), load_fixed, clock, timeout=5)
    opening.open(TASK, versions, actor="owner", reason="")
    with store.read() as session:
        context = live_contexts(session, find_task(session, TASK).id)[0]
    fields = {**context.fields, "text": "It was anything but bad."}
    with serving(pack, models, clock) as judge:
        verdict = judge.judge(JudgeRequest(pack.spec, 1, versions, fields, "positive", "session-1"))
    alone = dataclasses.replace(verdict, id=UUID(int=7), outputs=verdict.outputs[:1])
    with store.write() as session:
        author = ensure_worker(session, "fake", "W1", now=NOON)
        opened = live_round(session, find_task(session, TASK).id)
        assert opened is not None
        written = Submission(fields, "positive", None, {}, context.id, author.id, Source.PAGES, NOON)
        with pytest.raises(StaleVerdict, match="not of the versions that the round pins"):
            submit(session, opened, written, alone, now=NOON)
