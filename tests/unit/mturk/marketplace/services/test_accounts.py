import pytest
from sqlalchemy import select

from mturk.marketplace.errors import AccessKeyNotFound, AccountNotFound, InvalidParameter
from mturk.marketplace.services import accounts
from mturk.marketplace.tables.people import RequesterApp
from tests.fakes.market import StillWorld


def test_opening_an_existing_account_adds_a_key_and_no_deposit(world: StillWorld) -> None:
    new = accounts.open_account(world.market, " Other ", deposit_cents=500)
    again = accounts.open_account(world.market, "Other", deposit_cents=500)
    assert (new.name, new.is_new, again.is_new, again.requester_id) == ("Other", True, False, new.requester_id)
    assert {one.id for one in accounts.list_keys(world.market, "Other")} == {new.key.id, again.key.id}
    assert accounts.deposit(world.market, "Other", 25).available_cents == 525


def test_a_revoked_key_is_no_longer_valid(world: StillWorld) -> None:
    key = world.key
    assert accounts.is_valid_key(world.market, "Lab", key.id, key.secret)
    assert not accounts.is_valid_key(world.market, "Lab", key.id, "wrong")
    assert accounts.revoke_key(world.market, "Lab", key.id) == []
    assert not accounts.is_valid_key(world.market, "Lab", key.id, key.secret)


def test_unknown_accounts_and_keys_of_other_accounts_are_refused(world: StillWorld) -> None:
    with pytest.raises(AccountNotFound):
        accounts.deposit(world.market, "Nobody", 5)
    with pytest.raises(AccountNotFound):
        accounts.list_keys(world.market, "Nobody")
    other = accounts.open_account(world.market, "Other")
    with pytest.raises(AccessKeyNotFound):
        accounts.revoke_key(world.market, "Lab", other.key.id)


def test_the_status_accounts_for_every_cent(world: StillWorld) -> None:
    hit = world.post(cents=45, places=2)
    world.approve(world.work(world.make_worker(), hit.type_id).id)
    status = accounts.marketplace_status(world.market)
    (lab,) = status.accounts
    assert (lab.available_cents, lab.held_cents, lab.open_hits, lab.to_decide) == (100_000 - 2 * 54, 54, 1, 0)
    assert (status.money.workers_cents, status.money.fees_cents, status.money.is_balanced) == (45, 9, True)


def test_the_web_app_of_a_requester_is_stored_changed_and_removed(world: StillWorld) -> None:
    def apps() -> list[str]:
        with world.market.read() as session:
            return [one.url for one in session.scalars(select(RequesterApp))]

    for url in ("http://127.0.0.1:8080/", "https://tasks.example"):
        assert accounts.set_web_app(world.market, "Lab", url) == "Lab"
        assert apps() == [url.rstrip("/")]
    accounts.set_web_app(world.market, "Lab", "")
    assert apps() == []
    for wrong in ("ftp://x", "tasks.example", "https://x/?a=b"):
        with pytest.raises(InvalidParameter):
            accounts.set_web_app(world.market, "Lab", wrong)
    with pytest.raises(AccountNotFound):
        accounts.set_web_app(world.market, "Nobody", "https://x")
