"""The gold of a worker's page: which items with a known answer are mixed in among the others.

No worker may be able to look gold up, so that it is in no file that is published. It comes from a private file of the
owner, and from verified examples that are kept out of their round's archive. An item is retired once enough workers
have seen it, and no worker gets it on two pages. When there is too little gold, pages have less of it.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import Select, exists, func, or_, select, update
from sqlalchemy.orm import Session

from round_manager.models import Example, ExampleStatus, GoldExample, GoldItem, GoldShowing, RoundTally, Vote, WorkItem
from round_manager.work.context_strategies import order_key, seed_of
from round_manager.work.sessions import SessionContext

# A round needs no more examples as gold than this, however large it is.
MOST_EXAMPLES = 200
# The newest verified examples of the round, of which some become gold.
NEWEST = 200
# The columns of a work item: the gold item or example, and the answer that is expected.
Gold = Mapping[str, Any]


def gold_count(session: Session, context: SessionContext, items: int) -> int:
    """Return how many of a session's items are gold: the task's rate, on average over sessions."""
    whole, rest = divmod(items * context.spec.validation.gold_rate, 1)
    drawn = int.from_bytes(order_key(seed_of(session, context.work, context.hit.task_id), "gold")[:8]) / 2**64
    return int(whole) + (drawn < rest)


def choose_gold(session: Session, context: SessionContext, most: int, *, now: datetime) -> list[WorkItem]:
    """Return up to `most` items of gold that this worker may get, and count their showings; the task must be locked."""
    if not most:
        return []
    seed = seed_of(session, context.work, context.hit.task_id)

    def key(one: Gold) -> bytes:
        return order_key(seed, "which", one.get("gold_id"), one.get("example_id"))

    # A page that begins again has the gold that it had, or its changes would show which items are gold.
    chosen = sorted(_shown_before(session, context), key=key)[:most]
    new = sorted([*_from_owner(session, context), *_from_votes(session, context)], key=key)[: most - len(chosen)]
    new += _promoted(session, context, most - len(chosen) - len(new), now)
    for one in new:
        _show(session, context, one, now)
    work = context.work
    return [WorkItem(session_id=work.id, worker_id=work.worker_id, item=0, **one) for one in [*chosen, *new]]


def _show(session: Session, context: SessionContext, one: Gold, now: datetime) -> None:
    """Record a showing, and retire the item with the last one that the task allows."""
    work = context.work
    subject = {name: one[name] for name in ("gold_id", "example_id") if name in one}
    session.add(GoldShowing(worker_id=work.worker_id, session_id=work.id, shown_at=now, **subject))
    session.flush()
    ((name, value),) = subject.items()
    column = getattr(GoldShowing, name)
    shown = session.scalar(select(func.count()).where(column == value, column.is_not(None))) or 0
    if shown >= context.spec.validation.gold_showings:
        owner, own_id = (GoldItem, GoldItem.id) if name == "gold_id" else (GoldExample, GoldExample.example_id)
        session.execute(update(owner).where(own_id == value, owner.retired_at.is_(None)).values(retired_at=now))


def _shown_before(session: Session, context: SessionContext) -> list[Gold]:
    """Return the gold that this page had before it expired."""
    mine = (GoldShowing.worker_id == context.work.worker_id, GoldShowing.session_id == context.work.id)
    items = _items(context).join(GoldShowing, GoldShowing.gold_id == GoldItem.id)
    examples = _examples(context).join(GoldShowing, GoldShowing.example_id == Example.id)
    return [*_as_items(session, items.where(*mine)), *_as_examples(session, examples.where(*mine))]


def _from_owner(session: Session, context: SessionContext) -> list[Gold]:
    seen = _seen(context, GoldShowing.gold_id)
    return _as_items(session, _items(context).where(GoldItem.retired_at.is_(None), GoldItem.id.not_in(seen)))


def _from_votes(session: Session, context: SessionContext) -> list[Gold]:
    live = _examples(context).join(GoldExample, GoldExample.example_id == Example.id)
    live = live.where(GoldExample.task_id == context.hit.task_id, GoldExample.retired_at.is_(None))
    return _as_examples(session, live.where(*_is_new_to(context)))


def _promoted(session: Session, context: SessionContext, most: int, now: datetime) -> list[Gold]:
    """Make up to `most` verified examples of this round gold, as far as the share that the task withholds allows."""
    round = context.open_round
    verified = select(func.sum(RoundTally.examples)).where(
        RoundTally.round_id == round.id, RoundTally.status == ExampleStatus.VERIFIED
    )
    live = select(func.count()).where(
        GoldExample.task_id == round.task_id, GoldExample.round_id == round.id, GoldExample.retired_at.is_(None)
    )
    allowed = min(MOST_EXAMPLES, int(int(session.scalar(verified) or 0) * context.spec.validation.gold_withheld))
    most = min(most, allowed - (session.scalar(live) or 0))
    if most <= 0:
        return []
    first = select(func.min(Example.id)).where(Example.round_id == round.id).scalar_subquery()
    same = select(Example.id.label("id"), Example.task_id, Example.content_sha256).subquery()
    wanted = _examples(context).where(
        # The round's first example bounds the walk through the index of the task's verified examples.
        Example.id >= first,
        Example.round_id + 0 == round.id,
        ~exists().where(GoldExample.example_id == Example.id),
        # An equal text would be published.
        ~exists().where(
            same.c.task_id == Example.task_id, same.c.content_sha256 == Example.content_sha256, same.c.id != Example.id
        ),
        *_is_new_to(context),
    )
    newest = _as_examples(session, wanted.order_by(Example.id.desc()).limit(NEWEST))
    seed = seed_of(session, context.work, context.hit.task_id)
    chosen = sorted(newest, key=lambda one: order_key(seed, "promoted", one["example_id"]))[:most]
    session.add_all(
        GoldExample(example_id=one["example_id"], task_id=round.task_id, round_id=round.id, created_at=now)
        for one in chosen
    )
    session.flush()
    return chosen


def _items(context: SessionContext) -> Select[int, str | None, dict[str, Any] | None]:
    return select(GoldItem.id, GoldItem.label, GoldItem.answer).where(
        GoldItem.task_id == context.hit.task_id,
        # The owner may have renamed labels since the round was opened.
        or_(GoldItem.label.is_(None), GoldItem.label.in_(context.spec.label_names)),
    )


def _examples(context: SessionContext) -> Select[int, int, str | None, dict[str, Any] | None]:
    return select(Example.id, Example.author_id, Example.gold_label, Example.gold_answer).where(
        Example.task_id == context.hit.task_id,
        Example.status == ExampleStatus.VERIFIED,
        or_(Example.gold_label.is_(None), Example.gold_label.in_(context.spec.label_names)),
    )


def _is_new_to(context: SessionContext) -> tuple[Any, ...]:
    """Return the conditions for an example that this worker has neither written, judged nor seen."""
    worker = context.work.worker_id
    on_page = select(WorkItem.example_id).where(WorkItem.worker_id == worker, WorkItem.example_id.is_not(None))
    return (
        Example.author_id != worker,
        ~exists().where(Vote.example_id == Example.id, Vote.worker_id == worker),
        ~on_page.where(WorkItem.example_id == Example.id).exists(),
        Example.id.not_in(_seen(context, GoldShowing.example_id)),
    )


def _seen(context: SessionContext, column: Any) -> Any:
    return select(column).where(GoldShowing.worker_id == context.work.worker_id, column.is_not(None))


def _as_items(session: Session, rows: Select[Any, Any, Any]) -> list[Gold]:
    return [
        {"gold_id": gold_id, "expected_label": label, "expected_answer": answer}
        for gold_id, label, answer in session.execute(rows)
    ]


def _as_examples(session: Session, rows: Select[Any, Any, Any, Any]) -> list[Gold]:
    return [
        {"example_id": example_id, "author_id": author, "expected_label": label, "expected_answer": answer}
        for example_id, author, label, answer in session.execute(rows)
    ]
