"""A database from before the rule about duplicates: what exists becomes known, and open rounds keep their terms."""

from sqlalchemy import select

from ml_backend.hashing import json_sha256
from round_manager import migrations
from round_manager.database.store import open_store
from round_manager.models import Duplicate, Example, KnownText, Round, RoundStatus, Task, TextKey
from round_manager.novelty.decisions import duplicate_rule
from tests.campaign import start_campaign
from tests.campaign.closed_rounds import text_of


def test_after_an_upgrade_later_rounds_are_compared_with_what_exists(database_url: str) -> None:
    with open_store(database_url, upgrade=True) as store:
        campaign = start_campaign(store, models=("first", "second"), label_studio=True)
        campaign.forget_duplicates()
        campaign.fill_and_close(text=lambda number: text_of(number % 5), examples=10)
        opened = campaign.next_closed_round(examples=1)
        opened.forget_duplicates()
        migrations.downgrade(store.engine, "0028")
        store.upgrade()
        with store.read() as session:
            known = session.scalars(select(KnownText.name).where(KnownText.example_id.is_not(None))).all()
            # Five different texts, one of them in both rounds.
            assert len(known) == len(session.scalars(select(Example.content_sha256).distinct()).all())
            assert session.scalars(select(TextKey.text_id)).first() is not None
            task = session.scalars(select(Task)).one()
            assert task.spec["duplicates"] == {"near": 0.7}
            assert task.spec_sha256 == json_sha256(task.spec)
            assert [duplicate_rule(row) for row in session.scalars(select(Round))] == [None, None]
            assert session.scalars(select(Round.status).distinct()).all() == [RoundStatus.CLOSED]
        third = campaign.next_closed_round(examples=1, decided=True)
        (copy,) = third.rows(Example, Example.round_id == third.round_id)
        assert (copy.duplicate, copy.duplicate_of in known) == (Duplicate.EXACT, True)
