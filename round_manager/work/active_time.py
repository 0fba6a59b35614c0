"""Active time: what a worker's page counts, as far as it can be believed.

A page counts how long it was visible and used, and reports its total every 15 seconds and with each finished item. A
report is a claim, so it is believed only as far as the page can have been open: it can claim moments between the start
of the session and its deadline, of the last LONGEST_SILENCE, that this session has not claimed before. A page that was
silent for longer counts as closed. Which moments are claimed is stored (`WorkSession.active_spans`), not only how many,
because time belongs to a worker and not to a session: when the marketplace confirms a session, `crowd.credited_time`
credits each moment once, whatever other pages the worker had open.

Nothing is shared between sessions before that. A page's parameters can be forged, so a stranger can open sessions in a
worker's name; such a session is never confirmed, and takes no time from anyone. A total that is repeated, or that
arrives late, claims nothing. A moment counts once, so a clock that is set back creates no time either.
"""

from datetime import datetime, timedelta

from sqlalchemy import bindparam, func, select
from sqlalchemy.orm import Session

from round_manager.models import SessionStatus, WorkItem, WorkSession
from round_manager.models.table import table_of
from round_manager.work.sessions import lock_session
from round_manager.work.spans import Span, in_ms, joined, latest, length_of, without

# A page reports every 15 seconds; this is as long as it may lose its connection without losing time.
LONGEST_SILENCE = timedelta(minutes=5)
# Between two reports, the network may take longer for one than for the other. Gaps up to this size are closed by moving
# earlier spans, which keep their length, so that a page without a break has one span.
GAP_MS = 1_000


def record_active_time(session: Session, work: WorkSession, active_ms: int, *, now: datetime) -> int:
    """Store the active time that the page has counted, as far as it is believed, and return it; it never decreases."""
    held = lock_session(session, work)
    # There is nothing to spend time on in an empty HIT.
    if held.status is SessionStatus.OPEN and held.empty_at is None and active_ms > held.active_ms:
        claimed, until = claimed_spans(held), min(now, held.expires_at)
        open_since = max(held.started_at, until - LONGEST_SILENCE)
        gained = latest(without([(in_ms(open_since), in_ms(until))], claimed), active_ms - held.active_ms)
        held.active_spans = [list(span) for span in _packed(joined([*claimed, *gained]))]
        held.active_ms += length_of(gained)
    return held.active_ms


def claimed_spans(work: WorkSession) -> list[Span]:
    """Return the moments that the session's page has claimed."""
    if work.active_spans is None:
        # Nothing was reported, or by a version that stored only how long.
        start = in_ms(work.started_at)
        return joined([(start, start + work.active_ms)])
    return [(start, end) for start, end in work.active_spans]


def add_item_time(
    session: Session, work: WorkSession, row: WorkItem, active_ms: int | None, *, now: datetime
) -> int | None:
    """Add the active time since the last finished item to this item, and return it.

    A page counts the time of the whole session. The time of a text that was skipped belongs to no example. Return None
    if the page has never reported any time.
    """
    total = record_active_time(session, work, active_ms or 0, now=now)
    if not total:
        return None
    gained = total - int(session.scalar(_SPENT, {"page": work.id}) or 0)
    row.active_ms = (row.active_ms or 0) + gained
    return gained


_ITEMS = table_of(WorkItem)
_SPENT = select(func.sum(_ITEMS.c.active_ms)).where(_ITEMS.c.session_id == bindparam("page"))


def _packed(spans: list[Span]) -> list[Span]:
    """Close the small gaps between spans, by moving the earlier span to the later one."""
    found = spans[:1]
    for start, end in spans[1:]:
        first, last = found[-1]
        if start - last <= GAP_MS:
            found[-1] = (first + start - last, end)
        else:
            found.append((start, end))
    return found
