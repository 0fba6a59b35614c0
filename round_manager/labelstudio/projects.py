"""A task's two projects in Label Studio: what they contain, and the stored links to them with their last error.

Nothing here calls Label Studio. Tasks that were deleted there, or belong to a deleted project, keep their rows with
negative ids: a Label Studio that was set up anew reuses the ids.
"""

import hashlib
import hmac
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from markdown_it import MarkdownIt
from markdown_it.token import Token
from sqlalchemy import or_, select
from sqlalchemy.orm import Session

from common.clock import Clock
from common.errors import CodedError, Hint
from round_manager.database.store import Store
from round_manager.errors import StoreError
from round_manager.labelstudio.port import NotConnected, ProjectNotFound, Webhook
from round_manager.models import LabelStudioAnnotation, LabelStudioLink, LabelStudioTask, ProjectKind, Task
from round_manager.tasks.tasks import find_task, list_tasks
from templates import Pack, TaskSpec
from templates.payloads import Json, Template, template_xml

LIST_PARTS = [f"{part}_{end}" for part in ("bullet_list", "ordered_list", "list_item") for end in ("open", "close")]
WEBHOOK_HEADER = "X-Outfox-Secret"
WEBHOOK_ACTIONS = frozenset({"ANNOTATION_CREATED", "ANNOTATIONS_CREATED", "ANNOTATION_UPDATED"})
_PURPOSE = {"create": "write", "validate": "check"}
_WEBHOOK_KEY = "outfox.webhook.1"
MAX_KEY_LENGTH = 120
_GONE = "gone:"


def project_title(pack: Pack, template: Template) -> str:
    """Return the title by which a pack's project is found again; Label Studio allows 50 characters."""
    return f"{pack.spec.name}: {_PURPOSE[template]}"


def instructions_html(markdown: str, *, lists: bool = True) -> str:
    """Return instructions as HTML; without `lists`, list items are lines that begin with a marker."""
    reader = MarkdownIt("commonmark", {"html": False}).enable("table")
    tokens = reader.parse(markdown)
    if not lists:
        _write_markers(tokens)
    html: str = reader.renderer.render(tokens, reader.options, {})
    return html.replace(">\n<", "><").strip()


def _write_markers(tokens: Sequence[Token]) -> None:
    marker = ""
    for token in tokens:
        if token.type in LIST_PARTS:
            token.tag = "div"
            token.attrs.pop("start", None)
        if token.type == "list_item_open":
            marker = f"{token.info}. " if token.info else "• "
        elif token.type == "inline" and marker and token.children is not None:
            token.children.insert(0, Token("text", "", 0, content=marker))
            marker = ""


def validation_description(spec: TaskSpec) -> str:
    """Return what validators do: the pack's own words, or ours."""
    ours = "Judge what other people wrote. Neither their label or answer nor the model's is shown."
    return spec.validation.description or f"{spec.title}: validation. {ours}"


def project_settings(pack: Pack, template: Template) -> Json:
    """Return the settings of a pack's project in Label Studio."""
    return {
        "title": project_title(pack, template),
        "description": pack.spec.description if template == "create" else validation_description(pack.spec),
        "label_config": template_xml(pack, template),
        # Label Studio shows lists without markers, and strips the styles that would show them.
        "expert_instruction": instructions_html(pack.instructions_for(template), lists=False),
        "show_instruction": True,
        "enable_empty_annotation": False,
        # Writers and validators must not see predictions beforehand.
        "show_collab_predictions": False,
        "maximum_annotations": 1,
    }


def webhook_secret(secrets: Sequence[str], task: str) -> str:
    """Return the secret that Label Studio sends with a task's webhooks, derived from the current signing secret."""
    return _derived(secrets[-1], task)


def is_webhook_secret(secrets: Sequence[str], task: str, given: str) -> bool:
    """Whether a webhook carries the task's secret, derived from the current signing secret or an older one."""
    wanted = [_derived(secret, task).encode() for secret in secrets]
    return any(hmac.compare_digest(one, given.encode("utf-8", "replace")) for one in wanted)


def webhook_for(web_url: str, task: str, secrets: Sequence[str]) -> Webhook:
    """Return the webhook of both projects of a task; without payload, which contains tokens and what people typed."""
    url = f"{web_url.rstrip('/')}/webhooks/label-studio/{task}"
    return Webhook(url, {WEBHOOK_HEADER: webhook_secret(secrets, task)}, WEBHOOK_ACTIONS)


def _derived(secret: str, task: str) -> str:
    return hmac.new(secret.encode(), f"{_WEBHOOK_KEY}:{task}".encode(), hashlib.sha256).hexdigest()


def find_link(session: Session, task_id: int, kind: ProjectKind) -> LabelStudioLink | None:
    """Return the link to the task's project of this kind."""
    return session.scalar(
        select(LabelStudioLink).where(LabelStudioLink.task_id == task_id, LabelStudioLink.kind == kind)
    )


def save_link(session: Session, task_id: int, kind: ProjectKind, url: str, project: int) -> LabelStudioLink:
    """Link the task to this project; the records of its previous project are archived."""
    link = find_link(session, task_id, kind)
    other = session.scalar(
        select(LabelStudioLink).where(LabelStudioLink.url == url, LabelStudioLink.project == project)
    )
    if other is not None and other is not link:
        # Its project had this id in a Label Studio that no longer exists.
        _archive_records(session, other)
        other.project = -other.id
        session.flush()
    if link is None:
        link = LabelStudioLink(task_id=task_id, kind=kind, url=url, project=project)
        session.add(link)
    elif (link.url, link.project) != (url, project):
        _archive_records(session, link)
        link.url, link.project = url, project
        link.ml_backend = link.webhook = link.settings_sha256 = link.seen_until = link.last_error = None
    session.flush()
    return link


def linked_projects(store: Store, url: str, task_name: str) -> tuple[Task, dict[ProjectKind, LabelStudioLink]]:
    """Return the task and the links to its two projects; NotConnected if it has none in the Label Studio at `url`."""
    with store.read() as session:
        task = find_task(session, task_name)
        found = {kind: find_link(session, task.id, kind) for kind in ProjectKind}
    links = {kind: link for kind, link in found.items() if link is not None}
    hint = Hint("connect_label_studio", task=task_name)
    if len(links) < len(ProjectKind):
        raise NotConnected(f"{task_name} has no projects in Label Studio yet", hint=hint)
    for link in links.values():
        if link.url != url:
            raise NotConnected(f"{task_name} is connected to {link.url}, not to {url}", hint=hint)
    return task, links


def connected_tasks(store: Store, url: str | None = None) -> list[str]:
    """Return the names of the tasks that are connected to Label Studio, or to the one at this address."""
    with store.read() as session:
        links = [(task.name, find_link(session, task.id, ProjectKind.CREATE)) for task in list_tasks(session)]
    return [name for name, link in links if link is not None and url in (None, link.url)]


@contextmanager
def recording_errors(store: Store, link: LabelStudioLink, task_name: str, clock: Clock) -> Iterator[None]:
    """Record an error of the block at the link, for `status`, and raise it; success removes the recorded error."""
    try:
        yield
        if link.last_error is not None:
            with store.write() as session:
                lock_link(session, link).last_error = None
    except StoreError:
        # The database itself fails, so nothing can be recorded.
        raise
    except Exception as error:
        raised = _named(error, link, task_name)
        # Only our own errors have a text for people; another library's can contain what people typed.
        text = str(raised) if isinstance(raised, CodedError) else type(raised).__name__
        with store.write() as session:
            current = lock_link(session, link)
            # A repeated error keeps the time of its first occurrence.
            if current.last_error is None or current.last_error.partition(" ")[2] != text:
                current.last_error = f"{clock.now().isoformat(timespec='seconds')} {text}"
        if raised is error:
            raise
        raise raised from error


def _named(error: Exception, link: LabelStudioLink, task_name: str) -> Exception:
    """Return the error, with the task and the project in its message if the project was deleted."""
    if not isinstance(error, ProjectNotFound):
        return error
    text = f"project {link.project} of {task_name} was deleted from Label Studio at {link.url}"
    return ProjectNotFound(text, status=error.status, hint=Hint("connect_label_studio", task=task_name))


def is_linked(session: Session, url: str, project: int) -> bool:
    """Whether the project is linked to a task."""
    same = select(LabelStudioLink.id).where(LabelStudioLink.url == url, LabelStudioLink.project == project)
    return session.scalar(same) is not None


def lock_link(session: Session, link: LabelStudioLink) -> LabelStudioLink:
    """Return the current link, locked until the transaction ends: two plans at once would both create tasks."""
    return session.get_one(LabelStudioLink, link.id, with_for_update=True, populate_existing=True)


def _archive_records(session: Session, link: LabelStudioLink) -> None:
    """Negate the ids of what was sent to the old project; what was not sent yet goes to the new one."""
    gone = select(LabelStudioTask).where(LabelStudioTask.link_id == link.id, LabelStudioTask.external_id > 0)
    for task in session.scalars(gone).all():
        archive_task(task)
    annotation = LabelStudioAnnotation
    # The id of crowd work may be negative already, if its annotation was deleted.
    known = or_(annotation.external_id > 0, annotation.external_id.is_not(None) & annotation.key.not_like(f"{_GONE}%"))
    for one in session.scalars(select(annotation).where(annotation.link_id == link.id, known)).all():
        one.key = one.key and f"{_GONE}{one.id}:{one.key}"[:MAX_KEY_LENGTH]
        one.external_id = -one.id
    session.flush()


def archive_task(task: LabelStudioTask) -> None:
    """Record that the task no longer exists in Label Studio; another one may get its key."""
    task.key = f"{_GONE}{task.id}:{task.key}"[:MAX_KEY_LENGTH]
    task.external_id = -task.id
