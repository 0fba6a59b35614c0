"""Opening a store, and the errors if it cannot be opened."""

import os
import socket
import sqlite3
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import NullPool, create_engine, make_url, select, text
from sqlalchemy.orm import Session

from common.database_engine import DatabaseLimits
from common.errors import Hint
from round_manager.database.store import Store, open_store
from round_manager.errors import (
    DamagedStoreError,
    RefusedError,
    SchemaError,
    StoreBusyError,
    StoreError,
    StoreUnavailableError,
    StoreUrlError,
)
from round_manager.models import Task
from tests.integration.databases import Databases
from tests.integration.round_manager.database.sample_rows import SampleRows, add_sample_rows, new_task


@pytest.fixture
def sqlite_url(sqlite_databases: Databases) -> str:
    """A SQLite database with the tables."""
    return sqlite_databases.migrated()


def test_sqlite_runs_with_a_write_ahead_log_and_foreign_keys(sqlite_url: str) -> None:
    wanted = {"journal_mode": "wal", "foreign_keys": 1, "synchronous": 2, "busy_timeout": 30_000}
    with open_store(sqlite_url) as store:
        for use in (store.write, store.read, store.write):
            with use() as session:
                assert {name: session.scalar(text(f"PRAGMA {name}")) for name in wanted} == wanted


def test_a_new_database_is_readable_only_by_its_owner(tmp_path: Path) -> None:
    # It contains the secret of the pseudonyms.
    with open_store(f"sqlite:///{tmp_path / 'outfox.db'}", upgrade=True) as store, store.write() as session:
        session.add(new_task("sentiment"))
        session.flush()
        modes = {one.name: one.stat().st_mode & 0o777 for one in tmp_path.iterdir()}
    assert modes.keys() >= {"outfox.db", "outfox.db-wal"}
    assert set(modes.values()) == {0o600}


def test_foreign_keys_are_on_again_after_an_upgrade(tmp_path: Path) -> None:
    with open_store(f"sqlite:///{tmp_path}/new.db", upgrade=True) as store, store.write() as session:
        assert session.scalar(text("PRAGMA foreign_keys")) == 1


def test_a_transaction_commits_on_success_and_rolls_back_on_error(store: Store) -> None:
    with store.write() as session:
        session.add(new_task("kept"))

    def fail(session: Session) -> None:
        session.add(new_task("lost"))
        session.flush()
        raise RuntimeError

    with pytest.raises(RuntimeError), store.write() as session:
        fail(session)
    with store.read() as session:
        assert session.scalars(select(Task.name)).all() == ["kept"]


def test_a_reading_transaction_cannot_write(sample: SampleRows) -> None:
    with pytest.raises(StoreError), sample.store.read() as session:
        session.execute(text("UPDATE task SET folder = 'elsewhere'"))
    with sample.write() as session:
        session.execute(text("UPDATE task SET folder = 'elsewhere'"))


def test_a_reading_transaction_sees_one_moment(sample: SampleRows) -> None:
    with sample.store.read() as reader:
        before = reader.scalars(select(Task.name)).all()
        with sample.write() as writer:
            writer.add(new_task("second"))
        assert reader.scalars(select(Task.name)).all() == before
    with sample.store.read() as reader:
        assert len(reader.scalars(select(Task.name)).all()) == 2


def test_a_locked_database_is_reported_as_locked(sqlite_url: str) -> None:
    limits = DatabaseLimits(lock=0.05)
    with open_store(sqlite_url) as first, open_store(sqlite_url, limits=limits) as second, first.write() as session:
        session.execute(text("SELECT 1"))
        with pytest.raises(StoreBusyError) as caught, second.write() as late:
            late.add(new_task("late"))
    assert caught.value.retry


@pytest.mark.parametrize(
    "url",
    ["nonsense", "mysql://localhost/outfox", "sqlite://", "sqlite:///:memory:", "sqlite:///no/such/folder/outfox.db"],
)
def test_an_unsupported_url_is_refused(url: str) -> None:
    with pytest.raises(StoreUrlError):
        open_store(url, upgrade=True)


def test_a_missing_driver_is_reported_with_the_extra_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(StoreUrlError) as caught:
        open_store("postgresql://localhost/outfox")
    assert caught.value.hint == Hint("install_extra", extra="postgres")


def test_a_missing_file_is_not_created(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailableError, match=r"outfox\.db"):
        open_store(f"sqlite:///{tmp_path}/outfox.db")
    # The same without a home folder.
    with pytest.raises(StoreUnavailableError, match=r"/home/outfox\.db"):
        open_store(f"sqlite:///{tmp_path}/home/outfox.db")
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_not_a_database_is_reported(tmp_path: Path) -> None:
    (tmp_path / "letter.db").write_text("Dear all, this is a letter and no database. " * 100)
    with pytest.raises(DamagedStoreError, match=r"letter\.db"):
        open_store(f"sqlite:///{tmp_path}/letter.db")


def test_another_programs_file_is_refused_and_not_changed(tmp_path: Path) -> None:
    file = tmp_path / "theirs.db"
    theirs = sqlite3.connect(file)
    theirs.execute("CREATE TABLE project (id INTEGER)")
    theirs.close()
    before = file.read_bytes()
    with pytest.raises(SchemaError):
        open_store(f"sqlite:///{file}", upgrade=True)
    assert file.read_bytes() == before


def test_a_folder_in_place_of_the_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailableError):
        open_store(f"sqlite:///{tmp_path}", upgrade=True)


def test_an_unreachable_postgresql_is_reported(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailableError) as caught:
        open_store(f"postgresql:///outfox?host={tmp_path}")
    assert caught.value.retry


def test_a_corrupt_postgresql_is_reported_without_its_password(postgresql_databases: Databases) -> None:
    url = make_url(postgresql_databases.migrated()).update_query_dict({"password": "do-not-show"})
    statement = text("DO $$ BEGIN RAISE EXCEPTION 'invalid page in block 7' USING ERRCODE = 'XX001'; END $$")
    with (
        open_store(url.render_as_string(hide_password=False)) as store,
        pytest.raises(DamagedStoreError, match=f"{url.database}.*invalid page in block 7") as told,
        store.read() as session,
    ):
        session.execute(statement)
    assert "do-not-show" not in str(told.value)
    assert not told.value.retry


def test_a_missing_postgresql_database_is_reported(postgresql_databases: Databases) -> None:
    url = postgresql_databases.empty()
    postgresql_databases.drop(url)
    with pytest.raises(StoreUnavailableError, match="does not exist"):
        open_store(url)


def test_replacing_a_row_does_not_bypass_the_guards(sqlite_url: str) -> None:
    with open_store(sqlite_url) as store:
        sample = add_sample_rows(store)
        with pytest.raises(RefusedError) as caught, sample.write() as session:
            session.execute(text("INSERT OR REPLACE INTO model_version SELECT * FROM model_version"))
    assert caught.value.rule == "guard_model_version_kept"


@pytest.fixture
def served_store(postgresql_databases: Databases) -> Iterator[Store]:
    """A store in PostgreSQL with one row."""
    with postgresql_databases.opened() as store:
        with store.write() as session:
            session.add(new_task("kept"))
        yield store


def _cut_other_connections(store: Store) -> None:
    others = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database()"
    engine = create_engine(store.engine.url, poolclass=NullPool)
    with engine.connect() as connection:
        connection.execute(text(f"{others} AND pid <> pg_backend_pid()"))


def test_a_lost_connection_is_replaced_silently(served_store: Store) -> None:
    _cut_other_connections(served_store)
    with served_store.read() as session:
        assert session.scalars(select(Task.name)).all() == ["kept"]


def _cut_by_the_server(store: Store, _session: Session) -> None:
    _cut_other_connections(store)


def _cut_the_line(_store: Store, session: Session) -> None:
    line: Any = session.connection().connection.driver_connection
    with socket.socket(fileno=os.dup(line.fileno())) as ours:
        ours.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize("cut", [_cut_by_the_server, _cut_the_line])
def test_an_interrupted_transaction_can_be_retried(served_store: Store, cut: Callable[[Store, Session], None]) -> None:
    def lose(session: Session) -> None:
        session.add(new_task("lost"))
        session.flush()
        cut(served_store, session)
        session.execute(text("SELECT 1"))

    with pytest.raises(StoreUnavailableError) as caught, served_store.write() as session:
        lose(session)
    assert caught.value.retry
    with served_store.read() as session:
        assert session.scalars(select(Task.name)).all() == ["kept"]


def test_a_missing_table_is_reported_with_the_hint_to_upgrade(shared_sample: SampleRows) -> None:
    with pytest.raises(SchemaError), shared_sample.write() as session:
        session.execute(text("SELECT * FROM a_table_of_the_future"))


def test_errors_do_not_show_what_people_typed(shared_sample: SampleRows) -> None:
    with pytest.raises(StoreError) as caught, shared_sample.write() as session:
        session.add(shared_sample.new_example(fields={"text": "a secret sentence"}, confidence=7.0))
    assert "secret" not in str(caught.value)
