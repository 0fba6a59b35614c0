"""Clearing: checks that can take no vote any more are offered to nobody; what somebody annotated stays."""

from plugin.labelstudio.finding import look_for
from plugin.labelstudio.studio import Studio
from round_manager.database.store import Store
from round_manager.labelstudio.spent import Spent, forget_checks, spent_checks
from round_manager.labelstudio.tasks import adopt_tasks
from round_manager.models import LabelStudioLink

TASKS_AT_ONCE = 100


def clear(store: Store, studio: Studio, link: LabelStudioLink) -> int:
    """Takes down the project's spent checks that nobody annotated; killed anywhere, the next time finishes it."""
    spent = _spent(store, studio, link)
    cleared = 0
    for first in range(0, len(spent), TASKS_AT_ONCE):
        batch = {one.number: one.row for one in spent[first : first + TASKS_AT_ONCE] if one.number is not None}
        stay = studio.remove_untouched(link.project, list(batch))
        gone = [row for number, row in batch.items() if number not in stay]
        with store.write() as session:
            forget_checks(session, link, gone)
        cleared += len(gone)
    return cleared


def _spent(store: Store, studio: Studio, link: LabelStudioLink) -> list[Spent]:
    """Those that stand there; what was planned by a push that did not end is looked for first."""
    with store.read() as session:
        spent = spent_checks(session, link)
    in_doubt = {one.key: one.row for one in spent if one.number is None}
    if not in_doubt:
        return spent
    there = look_for(studio, link, set(in_doubt))
    with store.write() as session:
        adopt_tasks(session, link, there)
        # A push that sends one at this very moment finds that its row is taken, and takes the task back.
        forget_checks(session, link, [row for key, row in in_doubt.items() if key not in there])
        return spent_checks(session, link)
