"""The database counts examples by status."""

from collections import Counter

from sqlalchemy import func, insert, select, update
from sqlalchemy.orm import Session

from round_manager.models import Example, ExampleStatus, RoundTally
from tests.fakes.clock import NOON
from tests.integration.round_manager.database.sample_rows import SampleRows


def _tally(session: Session) -> Counter[tuple[ExampleStatus, bool]]:
    kept = select(RoundTally.status, RoundTally.fooled, RoundTally.examples)
    return Counter({(status, fooled): examples for status, fooled, examples in session.execute(kept) if examples})


def _counted(session: Session) -> Counter[tuple[ExampleStatus, bool]]:
    rows = select(Example.status, Example.fooled, func.count()).group_by(Example.status, Example.fooled)
    return Counter({(status, fooled): examples for status, fooled, examples in session.execute(rows)})


def _many(sample: SampleRows, number: int) -> list[dict[str, object]]:
    made = [sample.new_example(fooled=place % 3 == 0) for place in range(number)]
    names = [column.name for column in Example.__table__.columns if column.name != "id"]
    return [{name: getattr(example, name) for name in names} for example in made]


def test_the_tally_equals_a_full_count(sample: SampleRows) -> None:
    with sample.write() as session:
        session.execute(insert(Example), _many(sample, 30))
        session.add(sample.new_example(status=ExampleStatus.UNCHECKED))
        session.flush()
        decided = {"gold_label": "positive", "decided_at": NOON}
        some = update(Example).where(Example.id % 2 == 0, Example.status == ExampleStatus.PENDING)
        session.execute(some.values(status=ExampleStatus.VERIFIED, **decided))
        session.execute(update(Example).where(Example.id == 3).values(status=ExampleStatus.FLAGGED))
    with sample.store.read() as session:
        assert _tally(session) == _counted(session)
        assert _tally(session).total() == 32


def test_a_rolled_back_example_is_not_counted(sample: SampleRows) -> None:
    with sample.write() as session:
        session.add(sample.new_example())
        session.flush()
        session.rollback()
    with sample.store.read() as session:
        assert _tally(session) == {(ExampleStatus.PENDING, True): 1}
