"""The adapter for Label Studio's SDK: the only module that calls it.

Every failure of the SDK becomes a LabelStudioError.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

from common.errors import Hint
from plugin.errors import LabelStudioNotInstalled
from round_manager.labelstudio.port import (
    TASK_KEY,
    WORKER_FIELD,
    BackendAuth,
    BackendConnection,
    Json,
    LabelStudioError,
    LabelStudioRefused,
    LabelStudioUnavailable,
    Project,
    ProjectNotFound,
    ProjectTask,
    ProjectWebhook,
    TaskPage,
    TokenRejected,
    Webhook,
)

TIMEOUT_SECONDS = 60.0
MAX_REASON_LENGTH = 200
BACKEND_TITLE = "outfox"
_KINDS = {400: LabelStudioRefused, 404: ProjectNotFound, 429: LabelStudioUnavailable}


def open_sdk(url: str, token: str, *, seconds: float = TIMEOUT_SECONDS) -> Any:
    """Return the SDK's client for a legacy or a personal access token; only a personal token is checked here."""
    if not token:
        raise TokenRejected("the token for Label Studio is missing", hint=Hint("set_label_studio_token"))
    # Imported here: the SDK is optional and takes a second.
    try:
        from label_studio_sdk import client
    except ImportError as error:
        raise LabelStudioNotInstalled("the Label Studio SDK is not installed") from error
    make: Any = client.LabelStudio
    with translated_errors(url):
        # No retries in the SDK: a repeated import would create every task twice. Callers retry, by `retry`.
        return make(base_url=url, api_key=token, timeout=seconds, max_retries=0)


@contextmanager
def translated_errors(url: str, *, sends_texts: bool = False) -> Iterator[None]:
    """Raise the SDK's errors as LabelStudioErrors.

    Label Studio's messages quote what it refuses. With `sends_texts` that is what people wrote, so they are left out.
    """
    import httpx
    from label_studio_sdk.core.api_error import ApiError

    try:
        yield
    except httpx.TimeoutException as error:
        raise LabelStudioUnavailable(f"Label Studio at {url} did not respond in time") from error
    except httpx.HTTPError as error:
        raise LabelStudioUnavailable(f"Label Studio at {url} does not respond; is it running?") from error
    except (httpx.InvalidURL, UnicodeEncodeError) as error:
        text = f"`{url}` or its token is invalid; correct label_studio_url and label_studio_token"
        raise LabelStudioError(text) from error
    except ApiError as error:
        raise _api_error(url, error.status_code or 0, error.body, sends_texts=sends_texts) from error


def _api_error(url: str, status: int, body: Any, *, sends_texts: bool) -> LabelStudioError:
    where = f"Label Studio at {url}"
    if status in (401, 403):
        text = "does not accept the token; use the token of the projects' owner"
        return TokenRejected(f"{where} {text}", status=status, hint=Hint("set_label_studio_token"))
    if 200 <= status < 300:
        return LabelStudioError(f"{where} does not answer like its API; correct label_studio_url", status=status)
    kind = LabelStudioUnavailable if status >= 500 else _KINDS.get(status, LabelStudioError)
    return kind(f"{where} {_reason(status, body, sends_texts=sends_texts)}", status=status)


def _reason(status: int, body: Any, *, sends_texts: bool) -> str:
    found = body if isinstance(body, dict) else {}
    fields = found.get("validation_errors")
    if sends_texts:
        named = f" ({', '.join(_line(name) for name in fields)})" if isinstance(fields, dict) and fields else ""
        return f"refuses what was sent with status {status}{named}; see its own log for the reason"
    if isinstance(fields, dict) and fields:
        reasons = "; ".join(f"{name}: {_line(reason)}" for name, reason in fields.items())
        return f"refuses the request: {reasons}"
    return f"answers {status}: {_line(found.get('detail') or 'no reason given')}"


def _line(reason: Any) -> str:
    """Return a reason, which can be a list or contain links, as one line."""
    parts = reason if isinstance(reason, list) else [reason]
    text = " ".join(re.sub(r"<[^>]*>", "", " ".join(str(part) for part in parts)).split())
    return text if len(text) <= MAX_REASON_LENGTH else f"{text[:MAX_REASON_LENGTH]} …"


def _annotations(operator: str) -> Json:
    """Return a filter that compares the number of submitted (not skipped) annotations with zero."""
    return {"filter": "filter:tasks:total_annotations", "operator": operator, "type": "Number", "value": 0}


_ANNOTATED: list[Json] = [
    _annotations("greater"),
    {"filter": f"filter:tasks:data.{WORKER_FIELD}", "operator": "empty", "type": "String", "value": True},
]


class SdkLabelStudio:
    """The Label Studio at an address, used with a user's token; nothing is contacted before the first call."""

    def __init__(self, url: str, token: str, *, seconds: float = TIMEOUT_SECONDS) -> None:
        self.url = url.rstrip("/")
        self._token = token
        self._seconds = seconds

    @cached_property
    def _sdk(self) -> Any:
        return open_sdk(self.url, self._token, seconds=self._seconds)

    def whoami(self) -> str:
        with translated_errors(self.url):
            return str(self._sdk.users.whoami().email)

    def project(self, project_id: int) -> Project | None:
        try:
            with translated_errors(self.url):
                return _project(self._sdk.projects.get(project_id))
        except ProjectNotFound:
            return None

    def find_projects(self, title: str) -> list[Project]:
        with translated_errors(self.url):
            same = [one.id for one in self._sdk.projects.list(title=title) if one.title == title]
        found = [self.project(number) for number in sorted(same)]
        return [one for one in found if one is not None]

    def create_project(self, settings: Mapping[str, Any]) -> Project:
        with translated_errors(self.url):
            made = self._sdk.projects.create(**settings)
            return _project(self._sdk.projects.get(made.id))

    def update_project(self, project_id: int, settings: Mapping[str, Any]) -> None:
        with translated_errors(self.url):
            self._sdk.projects.update(project_id, **settings)

    def backends(self, project_id: int) -> list[BackendConnection]:
        with translated_errors(self.url):
            return [_backend(one) for one in self._sdk.ml.list(project=project_id)]

    def add_backend(self, project_id: int, url: str, auth: BackendAuth | None) -> BackendConnection:
        with translated_errors(self.url):
            made = self._sdk.ml.create(
                project=project_id, url=url, title=BACKEND_TITLE, is_interactive=True, **_auth(auth)
            )
            return _backend(made)

    def update_backend(
        self, project_id: int, known: BackendConnection, url: str, auth: BackendAuth | None, *, interactive: bool = True
    ) -> None:
        # Label Studio validates a change like a new backend, but an empty password keeps the stored one.
        kept = BackendAuth(known.user, "") if known.user else None
        with translated_errors(self.url):
            # Without the project, Label Studio cannot validate the change.
            self._sdk.ml.update(
                known.id, project=project_id, url=url, is_interactive=interactive, **_auth(auth or kept)
            )

    def webhooks(self, project_id: int) -> list[ProjectWebhook]:
        with translated_errors(self.url):
            return [_webhook(one) for one in self._sdk.webhooks.list(project=str(project_id))]

    def add_webhook(self, project_id: int, webhook: Webhook) -> ProjectWebhook:
        with translated_errors(self.url):
            return _webhook(self._sdk.webhooks.create(project=project_id, **_webhook_settings(webhook)))

    def update_webhook(self, webhook_id: int, webhook: Webhook) -> None:
        with translated_errors(self.url):
            self._sdk.webhooks.update(webhook_id, **_webhook_settings(webhook))

    def changed_tasks(self, project_id: int, since: datetime | None, *, size: int = 100) -> TaskPage:
        later = [] if since is None else [_changed("greater_or_equal", since)]
        return self._tasks(project_id, [*_ANNOTATED, *later], "tasks:updated_at", size)

    def tasks_changed_at(self, project_id: int, moment: datetime, *, after: int = 0, size: int = 100) -> TaskPage:
        at = [_changed("greater_or_equal", moment), _changed("less_or_equal", moment)]
        return self._tasks(project_id, [*_ANNOTATED, *at, _id_above(after)], "tasks:id", size)

    def tasks_after(self, project_id: int, *, after: int = 0, size: int = 100) -> TaskPage:
        return self._tasks(project_id, [_id_above(after)], "tasks:id", size)

    def add_tasks(self, project_id: int, tasks: Sequence[Json]) -> list[int]:
        if not tasks:
            return []
        with translated_errors(self.url, sends_texts=True):
            answer = self._sdk.projects.import_tasks(project_id, request=list(tasks), return_task_ids=True)
            return [int(number) for number in answer.task_ids]

    def set_values(self, project_id: int, task_id: int, values: Mapping[str, str]) -> bool:
        task = self._task(project_id, task_id)
        if task is None:
            return False
        data = {**task.data, **values}
        if data != task.data:
            with translated_errors(self.url, sends_texts=True):
                self._sdk.tasks.update(str(task_id), data=data)
        return True

    def skip_for(self, project_id: int, task_id: int, user_id: int) -> bool:
        task = self._task(project_id, task_id)
        if task is None:
            return False
        if all(_user_of(one) != user_id for one in task.annotations):
            with translated_errors(self.url):
                self._sdk.annotations.create(task_id, result=[], was_cancelled=True, completed_by=user_id)
        return True

    def delete_unannotated(self, project_id: int, task_ids: Sequence[int]) -> set[int]:
        if not task_ids:
            return set()  # For Label Studio, an empty list means all tasks.
        chosen = {"all": False, "included": list(task_ids)}
        # Label Studio filters by annotations in the same call that deletes, so that a submission between two calls of
        # ours cannot be lost.
        filters = {"conjunction": "and", "items": [_annotations("equal")]}
        with translated_errors(self.url):
            self._sdk.actions.create(id="delete_tasks", project=project_id, filters=filters, selected_items=chosen)
        remaining = self._tasks(project_id, [], "tasks:id", len(task_ids), selectedItems=chosen)
        return {task.id for task in remaining.tasks}

    def add_predictions(self, project_id: int, predictions: Sequence[Json]) -> None:
        with translated_errors(self.url, sends_texts=True):
            made = self._sdk.projects.import_predictions(project_id, request=list(predictions))
        if made.created != len(predictions):
            text = f"stored {made.created} of {len(predictions)} predictions; does the project's template fit the task?"
            raise LabelStudioRefused(f"Label Studio at {self.url} {text}")

    def _task(self, project_id: int, task_id: int) -> ProjectTask | None:
        chosen = {"all": False, "included": [task_id]}
        return next(iter(self._tasks(project_id, [], "tasks:id", 1, selectedItems=chosen).tasks), None)

    def _tasks(self, project_id: int, filters: list[Json], order: str, size: int, **more: Json) -> TaskPage:
        # Always the first page: while people work, tasks move between pages, and one could be missed.
        query = json.dumps({"filters": {"conjunction": "and", "items": filters}, "ordering": [order], **more})
        with translated_errors(self.url):
            found = self._sdk.tasks.list(project=project_id, query=query, page=1, page_size=size, fields="all")
            return TaskPage(tuple(_task(one) for one in found.items or ()), int(found.response.total))


def _changed(operator: str, moment: datetime) -> Json:
    value = moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
    return {"filter": "filter:tasks:updated_at", "operator": operator, "type": "Datetime", "value": value}


def _id_above(after: int) -> Json:
    return {"filter": "filter:tasks:id", "operator": "greater", "type": "Number", "value": after}


def _project(found: Any) -> Project:
    return Project(found.id, found.title, found.label_config or "", _plain(found))


def _backend(found: Any) -> BackendConnection:
    state = str(found.readable_state or found.state)
    error = found.error_message or None
    return BackendConnection(found.id, found.url, state, bool(found.is_interactive), found.basic_auth_user or "", error)


def _webhook(found: Any) -> ProjectWebhook:
    actions = frozenset() if found.send_for_all_actions else frozenset(str(one) for one in found.actions or ())
    webhook = Webhook(found.url, dict(found.headers or {}), actions, bool(found.is_active), bool(found.send_payload))
    return ProjectWebhook(found.id, webhook)


def _task(found: Any) -> ProjectTask:
    meta = found.meta if isinstance(found.meta, dict) else {}
    key = meta.get(TASK_KEY)
    changed = found.updated_at
    predictions = [_plain(one) for one in found.predictions or ()]
    return ProjectTask(
        id=int(found.id),
        key=key if isinstance(key, str) else None,
        changed_at=changed if isinstance(changed, datetime) else datetime.fromisoformat(str(changed)),
        data=dict(found.data) if isinstance(found.data, dict) else {},
        annotations=tuple(_plain(one) for one in found.annotations or ()),
        model_versions=frozenset(str(one.get("model_version")) for one in predictions),
    )


def _user_of(annotation: Json) -> Any:
    user = annotation.get("completed_by")
    return user.get("id") if isinstance(user, dict) else user


def _plain(found: Any) -> Json:
    """Return an object of the SDK as JSON data; some objects are plain dictionaries already."""
    return dict(found) if isinstance(found, dict) else dict(found.model_dump(mode="json"))


def _auth(auth: BackendAuth | None) -> Json:
    if auth is None:
        return {"auth_method": "NONE"}
    return {"auth_method": "BASIC_AUTH", "basic_auth_user": auth.user, "basic_auth_pass": auth.password}


def _webhook_settings(webhook: Webhook) -> Json:
    return {
        "url": webhook.url,
        "headers": dict(webhook.headers),
        "send_payload": webhook.payload,
        "send_for_all_actions": False,
        "actions": sorted(webhook.actions),
        "is_active": webhook.active,
    }
