"""Finding tasks again by their keys, where we do not know whether Label Studio has them."""

from plugin.labelstudio.studio import Studio
from round_manager.models import LabelStudioLink

TASKS_TO_LOOK_AT = 500


def look_for(studio: Studio, link: LabelStudioLink, keys: set[str]) -> dict[str, int]:
    """The numbers of the tasks with these keys, as far as Label Studio has them."""
    found: dict[str, int] = {}
    after, missing = 0, set(keys)
    while missing:
        page = studio.all_tasks(link.project, after=after, size=TASKS_TO_LOOK_AT)
        for task in page.tasks:
            if task.key in missing:
                found[task.key] = task.id
                missing.discard(task.key)
        if len(page.tasks) < TASKS_TO_LOOK_AT:
            break
        after = page.tasks[-1].id
    return found
