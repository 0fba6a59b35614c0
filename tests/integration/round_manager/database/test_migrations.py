"""Migrations create the tables that the models describe, on both databases."""

import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import inspect, text

from round_manager import migrations
from round_manager.database.engine import open_engine
from round_manager.database.store import Store, open_store
from round_manager.errors import SchemaError
from round_manager.migrations import SchemaState
from round_manager.models import Table
from tests.integration.round_manager.database.catalogue import catalogue

LONGEST_NAME = 63  # PostgreSQL cuts longer ones off


def test_alembic_finds_no_difference_between_the_models_and_the_migrated_tables(store: Store) -> None:
    with store.engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, Table.metadata) == []


def test_models_and_migrations_agree_on_every_check_index_and_trigger(store: Store, database_url: str) -> None:
    engine = open_engine(database_url, create=True)
    with engine.begin() as connection:
        Table.metadata.create_all(connection)
        from_models = catalogue(connection)
    engine.dispose()
    with store.engine.connect() as connection:
        from_history = catalogue(connection)
    assert from_history - from_models == set()
    assert from_models - from_history == set()
    assert sum("guard_" in line for line in from_history) >= 30


def test_the_history_can_be_walked_up_down_and_up_again(database_url: str) -> None:
    with open_store(database_url, upgrade=True) as store:
        with store.engine.connect() as connection:
            first = catalogue(connection)
        migrations.downgrade(store.engine, "base")
        with store.engine.connect() as connection:
            assert catalogue(connection) == set()
        assert store.check().state is SchemaState.EMPTY
        store.upgrade()
        with store.engine.connect() as connection:
            assert catalogue(connection) == first


def test_the_revision_is_read_without_alembic_and_matches_it(store: Store) -> None:
    script = ScriptDirectory.from_config(migrations.configuration())
    assert store.check().wanted == script.get_current_head()
    names = {Path(one.path).name for one in script.walk_revisions()}
    assert {one.revision for one in script.walk_revisions()} == {name.partition("_")[0] for name in names}
    looks = "import sys, round_manager.database.store; print([one for one in sys.modules if 'alembic' in one])"
    assert subprocess.run([sys.executable, "-c", looks], check=True, capture_output=True).stdout == b"[]\n"


def test_every_constraint_has_a_name_that_both_databases_keep(store: Store) -> None:
    inspector = inspect(store.engine)
    for table in set(inspector.get_table_names()) - {"alembic_version"}:
        names = [
            inspector.get_pk_constraint(table)["name"],
            *(check["name"] for check in inspector.get_check_constraints(table)),
            *(unique["name"] for unique in inspector.get_unique_constraints(table)),
            *(key["name"] for key in inspector.get_foreign_keys(table)),
            *(index["name"] for index in inspector.get_indexes(table)),
        ]
        for name in names:
            assert name is not None
            assert name.startswith(("pk_", "ck_", "uq_", "fk_", "ix_")), name
            assert len(name) < LONGEST_NAME, name


def test_several_upgrades_at_once_make_the_tables_once(database_url: str) -> None:
    def upgrade(_: int) -> str | None:
        with open_store(database_url, upgrade=True) as store:
            return store.check().found

    with ThreadPoolExecutor(4) as pool:
        found = set(pool.map(upgrade, range(4)))
    with open_store(database_url) as store:
        assert found == {store.check().wanted}


def test_an_empty_database_is_distinguished_from_a_current_one(database_url: str) -> None:
    open_engine(database_url, create=True).connect().close()
    with pytest.raises(SchemaError, match="no tables"):
        open_store(database_url)


def test_an_older_database_is_refused_with_advice(database_url: str) -> None:
    store = open_store(database_url, upgrade=True)
    migrations.downgrade(store.engine, "0001")
    assert store.check().state is SchemaState.BEHIND
    store.close()
    with pytest.raises(SchemaError, match="0001"):
        open_store(database_url)


def test_a_newer_database_is_neither_opened_nor_upgraded(database_url: str) -> None:
    with open_store(database_url, upgrade=True) as store, store.write() as session:
        session.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    for upgrade in (False, True):
        with pytest.raises(SchemaError, match="9999"):
            open_store(database_url, upgrade=upgrade)


def test_another_programs_database_is_not_changed(database_url: str) -> None:
    engine = open_engine(database_url, create=True)
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE project (id INTEGER)"))
    with pytest.raises(SchemaError, match="another program"):
        open_store(database_url, upgrade=True)
    assert inspect(engine).get_table_names() == ["project"]
    engine.dispose()


def test_a_failed_upgrade_leaves_nothing_behind(
    database_url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder = tmp_path / "history"
    shutil.copytree(migrations.FOLDER, folder)
    last = folder / "versions" / "0003_work.py"
    last.write_text(
        last.read_text().replace('    """Make the tables."""\n', '    """Fail."""\n    op.execute("nonsense")\n')
    )
    configuration = migrations.configuration
    monkeypatch.setattr(migrations, "configuration", lambda connection=None: configuration(connection, folder))
    with pytest.raises(Exception, match="nonsense"):
        open_store(database_url, upgrade=True)
    engine = open_engine(database_url, create=True)
    assert inspect(engine).get_table_names() == []
    engine.dispose()


def test_a_draft_of_the_next_migration_is_empty_when_nothing_changed(store: Store, tmp_path: Path) -> None:
    folder = tmp_path / "history"
    shutil.copytree(migrations.FOLDER, folder)
    file = migrations.draft(store.engine, "add a column", folder)
    assert file.name.endswith("_add_a_column.py")
    source = file.read_text()
    compile(source, str(file), "exec")
    assert source.count("pass") == 2
