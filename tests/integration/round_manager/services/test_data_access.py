"""Who may read a task's frozen rounds, on each database."""

from datetime import timedelta

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session

from round_manager.database.store import Store
from round_manager.errors import DataRefused, DataTokenNotFound
from round_manager.models import AuditEntry, DataToken
from round_manager.services.context import Actor, ServiceContext
from round_manager.services.data_access import create_token, list_tokens, read_task, revoke_token, set_public
from round_manager.tasks.tasks import create_task
from templates import BUILT_IN, load_pack
from tests.fakes.clock import NOON, SettableClock

DAY = timedelta(days=1)
ADA = Actor("ada@here")


@pytest.fixture
def tasks(store: Store) -> Store:
    with store.write() as session:
        for name in ("sentiment", "nli"):
            create_task(session, load_pack(BUILT_IN / name), now=NOON)
    return store


def services(store: Store, after: timedelta = timedelta(0)) -> ServiceContext:
    return ServiceContext(store, SettableClock(NOON + after))


def token_of(store: Store, name: str, days: int = 7) -> str:
    return create_token(services(store), ADA, name, days=days, reason="a thesis").secret


def actions(session: Session, subject: str) -> list[str]:
    wanted = select(AuditEntry.action).where(AuditEntry.subject == subject)
    return list(session.scalars(wanted.order_by(AuditEntry.id)))


def opens(store: Store, token: str, name: str = "sentiment", after: timedelta = DAY) -> bool:
    try:
        return read_task(services(store, after), name, token).name == name
    except DataRefused:
        return False


@pytest.mark.any_database
def test_a_token_opens_its_own_task_until_it_expires(tasks: Store) -> None:
    token = token_of(tasks, "sentiment", days=7)
    assert opens(tasks, token)
    assert opens(tasks, token, after=7 * DAY - timedelta(seconds=1))
    assert not opens(tasks, token, after=7 * DAY)
    assert not opens(tasks, token, "nli")


@pytest.mark.any_database
def test_strangers_cannot_tell_a_private_task_from_none(tasks: Store) -> None:
    token_of(tasks, "sentiment")
    for token in ("", "outfox-data-guess", "\x00", "é" * 500):
        told = set()
        for name in ("sentiment", "nothing", "a\x00b"):
            with pytest.raises(DataRefused) as caught:
                read_task(services(tasks), name, token)
            told.add(str(caught.value))
        assert len(told) == 1


def test_only_the_hash_of_a_token_is_kept(tasks: Store) -> None:
    secret = token_of(tasks, "sentiment").split("-", 3)[3]
    with tasks.read() as session:
        (row,) = session.scalars(select(DataToken))
        entries = session.scalars(select(AuditEntry).where(AuditEntry.subject == "data_token")).all()
        kept = [vars(row), *(vars(entry) for entry in entries)]
    assert len(entries) == 1
    assert secret not in str(kept)


def test_a_revoked_token_opens_nothing_and_is_revoked_once(tasks: Store) -> None:
    token, other = token_of(tasks, "sentiment"), token_of(tasks, "sentiment")
    key = list_tokens(services(tasks)).tokens[0].row.key
    for later in (1, 2):
        revoke_token(services(tasks, later * DAY), ADA, key)
    assert (opens(tasks, token), opens(tasks, other)) == (False, True)
    listed = list_tokens(services(tasks)).tokens
    assert [one.state(NOON) for one in listed] == ["revoked", "valid"]
    assert [one.state(NOON + 7 * DAY) for one in listed] == ["revoked", "expired"]
    with tasks.read() as session:
        done = actions(session, "data_token")
    assert done == ["made", "made", "revoked"]
    with pytest.raises(DataTokenNotFound):
        revoke_token(services(tasks), ADA, "nobody")


def test_a_public_task_is_readable_by_all_until_it_is_private_again(tasks: Store) -> None:
    for anybody in (True, True, False, False):
        set_public(services(tasks), ADA, "sentiment", public=anybody)
        assert (opens(tasks, ""), opens(tasks, "wrong"), opens(tasks, "", "nli")) == (anybody, anybody, False)
    with tasks.read() as session:
        done = actions(session, "task")
    assert done == ["published", "unpublished"]
