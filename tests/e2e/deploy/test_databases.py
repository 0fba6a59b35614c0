"""The databases of PostgreSQL's first start: one for each service, closed to the others."""

from collections.abc import Iterator

import psycopg
import pytest

from plugin.server_process import free_port
from tests.e2e.deploy.postgres import Postgres

PASSWORDS = {"outfox": "of", "label_studio": "it's \\ ls", "marketplace": "mp"}


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    """A server after its first start."""
    given = {f"{name.upper()}_DB_PASSWORD": password for name, password in PASSWORDS.items()}
    chosen = free_port()
    with Postgres(chosen, {"POSTGRES_USER": "postgres", **given}) as server:
        server.first_start()
        yield chosen


def _connect(port: int, user: str, password: str, database: str) -> "psycopg.Connection[tuple[object, ...]]":
    return psycopg.connect(host="127.0.0.1", port=port, user=user, password=password, dbname=database)


@pytest.mark.parametrize("name", PASSWORDS)
def test_each_service_owns_only_its_own_database(port: int, name: str) -> None:
    with _connect(port, name, PASSWORDS[name], name) as own:
        own.execute("CREATE TABLE made_by_its_owner (id int)")
        rights = own.execute("SELECT rolsuper OR rolcreatedb OR rolcreaterole FROM pg_roles WHERE rolname = %s", [name])
        assert rights.fetchone() == (False,)
    for other in set(PASSWORDS) - {name}:
        with pytest.raises(psycopg.OperationalError, match="permission denied"):
            _connect(port, name, PASSWORDS[name], other)


def test_a_wrong_password_is_refused(port: int) -> None:
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        _connect(port, "outfox", PASSWORDS["marketplace"], "outfox")
