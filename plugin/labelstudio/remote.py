"""A real Label Studio behind our words, through its SDK."""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

from plugin.labelstudio.errors import LabelStudioError
from plugin.labelstudio.sdk import SECONDS_TO_ANSWER, open_sdk, translated
from plugin.labelstudio.studio import (
    KEY,
    WORKER,
    BackendAuth,
    BackendSeen,
    Hook,
    HookSeen,
    Json,
    Page,
    ProjectSeen,
    TaskSeen,
)

NOT_FOUND = 404
BACKEND_TITLE = "outfox"


def _annotations(operator: str) -> Json:
    """A filter by how many there are that were not skipped, as compared with none."""
    return {"filter": "filter:tasks:total_annotations", "operator": operator, "type": "Number", "value": 0}


_WORKED_ON: list[Json] = [
    _annotations("greater"),
    {"filter": f"filter:tasks:data.{WORKER}", "operator": "empty", "type": "String", "value": True},
]


class RemoteStudio:
    """The Studio at an address, with a user's token; nothing is asked before it is needed."""

    def __init__(self, url: str, token: str, *, seconds: float = SECONDS_TO_ANSWER) -> None:
        self.url = url.rstrip("/")
        self._token = token
        self._seconds = seconds

    @cached_property
    def _sdk(self) -> Any:
        return open_sdk(self.url, self._token, seconds=self._seconds)

    def whoami(self) -> str:
        with translated(self.url):
            return str(self._sdk.users.whoami().email)

    def project(self, project_id: int) -> ProjectSeen | None:
        try:
            with translated(self.url):
                return _project(self._sdk.projects.get(project_id))
        except LabelStudioError as error:
            if error.status == NOT_FOUND:
                return None
            raise

    def projects_called(self, title: str) -> list[ProjectSeen]:
        with translated(self.url):
            same = [one.id for one in self._sdk.projects.list(title=title) if one.title == title]
        found = [self.project(number) for number in sorted(same)]
        return [one for one in found if one is not None]

    def make_project(self, settings: Mapping[str, Any]) -> ProjectSeen:
        with translated(self.url):
            made = self._sdk.projects.create(**settings)
            return _project(self._sdk.projects.get(made.id))

    def change_project(self, project_id: int, settings: Mapping[str, Any]) -> None:
        with translated(self.url):
            self._sdk.projects.update(project_id, **settings)

    def backends(self, project_id: int) -> list[BackendSeen]:
        with translated(self.url):
            return [_backend(one) for one in self._sdk.ml.list(project=project_id)]

    def add_backend(self, project_id: int, url: str, auth: BackendAuth | None) -> BackendSeen:
        with translated(self.url):
            made = self._sdk.ml.create(
                project=project_id, url=url, title=BACKEND_TITLE, is_interactive=True, **_auth(auth)
            )
            return _backend(made)

    def change_backend(
        self, project_id: int, known: BackendSeen, url: str, auth: BackendAuth | None, *, interactive: bool = True
    ) -> None:
        # Label Studio checks a change as if it were new, but takes an empty password for the one that it has.
        kept = BackendAuth(known.user, "") if known.user else None
        with translated(self.url):
            # It cannot check a change that does not name the project.
            self._sdk.ml.update(
                known.id, project=project_id, url=url, is_interactive=interactive, **_auth(auth or kept)
            )

    def hooks(self, project_id: int) -> list[HookSeen]:
        with translated(self.url):
            return [_hook(one) for one in self._sdk.webhooks.list(project=str(project_id))]

    def add_hook(self, project_id: int, hook: Hook) -> HookSeen:
        with translated(self.url):
            return _hook(self._sdk.webhooks.create(project=project_id, **_hook_settings(hook)))

    def change_hook(self, hook_id: int, hook: Hook) -> None:
        with translated(self.url):
            self._sdk.webhooks.update(hook_id, **_hook_settings(hook))

    def changed_tasks(self, project_id: int, since: datetime | None, *, size: int = 100) -> Page:
        later = [] if since is None else [_changed("greater_or_equal", since)]
        return self._tasks(project_id, [*_WORKED_ON, *later], "tasks:updated_at", size)

    def tasks_changed_at(self, project_id: int, moment: datetime, *, after: int = 0, size: int = 100) -> Page:
        at = [_changed("greater_or_equal", moment), _changed("less_or_equal", moment)]
        return self._tasks(project_id, [*_WORKED_ON, *at, _later(after)], "tasks:id", size)

    def all_tasks(self, project_id: int, *, after: int = 0, size: int = 100) -> Page:
        return self._tasks(project_id, [_later(after)], "tasks:id", size)

    def add_tasks(self, project_id: int, tasks: Sequence[Json]) -> list[int]:
        if not tasks:
            return []
        with translated(self.url, sends_texts=True):
            answer = self._sdk.projects.import_tasks(project_id, request=list(tasks), return_task_ids=True)
            return [int(number) for number in answer.task_ids]

    def remove_untouched(self, project_id: int, numbers: Sequence[int]) -> set[int]:
        if not numbers:
            return set()  # Label Studio takes none for all.
        chosen = {"all": False, "included": list(numbers)}
        # Label Studio looks whether somebody annotated them in the very call that deletes: between two calls of ours,
        # people could submit; inside that one only milliseconds are left for it.
        filters = {"conjunction": "and", "items": [_annotations("equal")]}
        with translated(self.url):
            self._sdk.actions.create(id="delete_tasks", project=project_id, filters=filters, selected_items=chosen)
        stay = self._tasks(project_id, [], "tasks:id", len(numbers), selectedItems=chosen)
        return {task.id for task in stay.tasks}

    def add_predictions(self, project_id: int, predictions: Sequence[Json]) -> None:
        with translated(self.url, sends_texts=True):
            made = self._sdk.projects.import_predictions(project_id, request=list(predictions))
        if made.created != len(predictions):
            text = f"took {made.created} of {len(predictions)} predictions; do the project's template and the task fit?"
            raise LabelStudioError(f"Label Studio at {self.url} {text}")

    def _tasks(self, project_id: int, filters: list[Json], order: str, size: int, **more: Json) -> Page:
        # Always the first page: while people work, tasks move from page to page, and one could be passed over.
        query = json.dumps({"filters": {"conjunction": "and", "items": filters}, "ordering": [order], **more})
        with translated(self.url):
            found = self._sdk.tasks.list(project=project_id, query=query, page=1, page_size=size, fields="all")
            return Page(tuple(_task(one) for one in found.items or ()), int(found.response.total))


def _changed(operator: str, moment: datetime) -> Json:
    value = moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
    return {"filter": "filter:tasks:updated_at", "operator": operator, "type": "Datetime", "value": value}


def _later(after: int) -> Json:
    return {"filter": "filter:tasks:id", "operator": "greater", "type": "Number", "value": after}


def _project(found: Any) -> ProjectSeen:
    return ProjectSeen(found.id, found.title, found.label_config or "", _plain(found))


def _backend(found: Any) -> BackendSeen:
    state = str(found.readable_state or found.state)
    error = found.error_message or None
    return BackendSeen(found.id, found.url, state, bool(found.is_interactive), found.basic_auth_user or "", error)


def _hook(found: Any) -> HookSeen:
    actions = frozenset() if found.send_for_all_actions else frozenset(str(one) for one in found.actions or ())
    hook = Hook(found.url, dict(found.headers or {}), actions, bool(found.is_active), bool(found.send_payload))
    return HookSeen(found.id, hook)


def _task(found: Any) -> TaskSeen:
    meta = found.meta if isinstance(found.meta, dict) else {}
    key = meta.get(KEY)
    changed = found.updated_at
    predictions = [_plain(one) for one in found.predictions or ()]
    return TaskSeen(
        id=int(found.id),
        key=key if isinstance(key, str) else None,
        changed_at=changed if isinstance(changed, datetime) else datetime.fromisoformat(str(changed)),
        data=dict(found.data) if isinstance(found.data, dict) else {},
        annotations=tuple(_plain(one) for one in found.annotations or ()),
        model_versions=frozenset(str(one.get("model_version")) for one in predictions),
    )


def _plain(found: Any) -> Json:
    """The JSON behind one of the SDK's objects; some it leaves as they came."""
    return dict(found) if isinstance(found, dict) else dict(found.model_dump(mode="json"))


def _auth(auth: BackendAuth | None) -> Json:
    if auth is None:
        return {"auth_method": "NONE"}
    return {"auth_method": "BASIC_AUTH", "basic_auth_user": auth.user, "basic_auth_pass": auth.password}


def _hook_settings(hook: Hook) -> Json:
    return {
        "url": hook.url,
        "headers": dict(hook.headers),
        "send_payload": hook.payload,
        "send_for_all_actions": False,
        "actions": sorted(hook.actions),
        "is_active": hook.active,
    }
