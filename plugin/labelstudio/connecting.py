"""Connecting: a task's two projects, their webhooks and the ML backend, made once and kept up to date."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from common.clock import Clock
from ml_backend.hashing import json_sha256
from plugin.labelstudio.errors import LabelStudioError
from plugin.labelstudio.following import BAD_REQUEST, backend_address
from plugin.labelstudio.links import remembered
from plugin.labelstudio.projects import project_settings
from plugin.labelstudio.studio import BackendAuth, BackendSeen, ProjectSeen, Studio
from plugin.labelstudio.webhooks import webhook
from round_manager.database.store import Store
from round_manager.labelstudio.mirror import find_link, is_linked, keep_link, move_link, note_link
from round_manager.labelstudio.tasks import newest_sent
from round_manager.models import LabelStudioLink, ProjectKind
from round_manager.tasks.rounds import live_round
from round_manager.tasks.tasks import find_task
from templates import Pack
from templates.samples import Template

CONNECTED = "Connected"
# Where these differ, nothing works or people see what they must not: they are set right, whoever changed them.
ESSENTIAL = ("label_config", "show_collab_predictions", "maximum_annotations")
_TEMPLATE: dict[ProjectKind, Template] = {ProjectKind.CREATE: "create", ProjectKind.VALIDATE: "validate"}


@dataclass(frozen=True)
class Wishes:
    """Where the ML backend and our web app are; what is None stays as it is in Label Studio."""

    secrets: Sequence[str] = field(repr=False)
    ml_backend: str | None = None
    auth: BackendAuth | None = None
    web_url: str | None = None


@dataclass(frozen=True)
class Connected:
    """The task's projects by what they are for, and what was changed to get there, in sentences."""

    projects: Mapping[str, int]
    changes: tuple[str, ...]


def connect(store: Store, studio: Studio, pack: Pack, wishes: Wishes, clock: Clock) -> Connected:
    """Makes or updates the projects of a task that is in the database; changes nothing where nothing differs."""
    connecting = _Connecting(store, studio, pack, wishes, clock)
    projects = {kind.value: connecting.project(kind) for kind in ProjectKind}
    connecting.backend()
    return Connected(projects, tuple(connecting.changes))


class _Connecting:
    def __init__(self, store: Store, studio: Studio, pack: Pack, wishes: Wishes, clock: Clock) -> None:
        self._store = store
        self._studio = studio
        self._pack = pack
        self._wishes = wishes
        self._clock = clock
        self._name = pack.spec.name
        self.changes: list[str] = []
        with store.read() as session:
            self._task = find_task(session, self._name)

    def project(self, kind: ProjectKind) -> int:
        """The project of this kind, its settings and its webhook."""
        wanted = project_settings(self._pack, _TEMPLATE[kind])
        link = self._link(kind)
        seen = self._known(link) if link else None
        if link is None or seen is None:
            if link is not None:
                text = f"project {link.project} is gone from {link.url}; what was read from it is kept"
                self.changes.append(text)
            seen = self._adopted(wanted) or self._made(wanted)
            with self._store.write() as session:
                link = keep_link(session, self._task.id, kind, self._studio.url, seen.id)
        with remembered(self._store, link, self._name, self._clock):
            self._settle(link, seen, wanted)
            self._hook(link)
        return seen.id

    def backend(self) -> None:
        """The ML backend of the creation project: at the address of the round that is live."""
        link = self._link(ProjectKind.CREATE)
        if link is None or (self._wishes.ml_backend is None and link.ml_backend is None):
            return
        with remembered(self._store, link, self._name, self._clock):
            self._backend(link)

    def _link(self, kind: ProjectKind) -> LabelStudioLink | None:
        with self._store.read() as session:
            return find_link(session, self._task.id, kind)

    def _known(self, link: LabelStudioLink) -> ProjectSeen | None:
        """The linked project, if it is still there and still the one that we filled."""
        seen = self._studio.project(link.project) if link.project > 0 else None
        if seen is None or not self._is_ours(link, seen):
            return None
        if link.url != self._studio.url:
            with self._store.write() as session:
                move_link(session, link.id, self._studio.url)
            self.changes.append(f"Label Studio is at {self._studio.url} now, not at {link.url}")
        return seen

    def _is_ours(self, link: LabelStudioLink, seen: ProjectSeen) -> bool:
        """Whether it is the project that we filled: a Label Studio that was set up anew counts from one again."""
        with self._store.read() as session:
            newest = newest_sent(session, link)
        if newest is None or newest.external_id is None:
            wanted = project_settings(self._pack, _TEMPLATE[link.kind])
            return seen.title == wanted["title"] or _same(seen.label_config, wanted["label_config"])
        there = self._studio.all_tasks(seen.id, after=newest.external_id - 1, size=1).tasks
        same = [task.key for task in there if task.id == newest.external_id]
        # The owner may have removed the task; at another address it must be there.
        return same == [newest.key] if same or link.url != self._studio.url else True

    def _adopted(self, wanted: Mapping[str, Any]) -> ProjectSeen | None:
        """A project that we made and did not live to write down."""
        for seen in self._studio.projects_called(wanted["title"]):
            with self._store.read() as session:
                taken = is_linked(session, self._studio.url, seen.id)
            if not taken and seen.label_config.strip() == wanted["label_config"].strip():
                self.changes.append(f"project {seen.id} is used, which is called `{seen.title}` already")
                return seen
        return None

    def _made(self, wanted: Mapping[str, Any]) -> ProjectSeen:
        seen = self._studio.make_project(wanted)
        self.changes.append(f"project {seen.id}, `{seen.title}`, was made")
        return seen

    def _settle(self, link: LabelStudioLink, seen: ProjectSeen, wanted: Mapping[str, Any]) -> None:
        # The title is the owner's as soon as the project is there.
        settings = {name: value for name, value in wanted.items() if name != "title"}
        sha256 = json_sha256(settings)
        names = ESSENTIAL if link.settings_sha256 == sha256 else tuple(settings)
        differing = {name: settings[name] for name in names if not _same(seen.settings.get(name), settings[name])}
        if differing:
            self._studio.change_project(seen.id, differing)
            self.changes.append(f"project {seen.id}: {', '.join(differing)} was brought up to date")
        if link.settings_sha256 != sha256:
            with self._store.write() as session:
                note_link(session, link.id, settings_sha256=sha256)

    def _hook(self, link: LabelStudioLink) -> None:
        if self._wishes.web_url is None:
            return
        wanted = webhook(self._wishes.web_url, self._name, self._wishes.secrets)
        there = self._studio.hooks(link.project)
        mine = [one for one in there if one.id == link.webhook] or [one for one in there if one.hook.url == wanted.url]
        if not mine:
            made = self._studio.add_hook(link.project, wanted)
            self.changes.append(f"project {link.project}: a webhook to {wanted.url} was made")
            mine = [made]
        elif mine[0].hook != wanted:
            self._studio.change_hook(mine[0].id, wanted)
            self.changes.append(f"project {link.project}: the webhook goes to {wanted.url} now")
        if link.webhook != mine[0].id:
            with self._store.write() as session:
                note_link(session, link.id, webhook=mine[0].id)

    def _backend(self, link: LabelStudioLink) -> None:
        there = self._studio.backends(link.project)
        known = next((one for one in there if one.id == link.ml_backend), None)
        base = self._wishes.ml_backend or (_base(known.url) if known else None)
        if base is None:
            return  # the owner removed it
        with self._store.read() as session:
            # Read at last: the manager may have opened one since we began, and has followed it already.
            live = live_round(session, self._task.id)
        url = backend_address(base, self._name, live.number if live else None)
        mine = known or next((one for one in there if _base(one.url) == base.rstrip("/")), None)
        try:
            self._put_backend(link, mine, url)
        except LabelStudioError as error:
            if error.status != BAD_REQUEST:
                raise
            text = f"Label Studio cannot use the ML backend at {url}: does `outfox ml-backend` run there"
            cure = f"and serve {self._name}, and are --ml-backend and --ml-auth right? Run this again then"
            raise LabelStudioError(f"{text}, {cure}. {error}", retry=True, status=BAD_REQUEST) from error

    def _put_backend(self, link: LabelStudioLink, mine: BackendSeen | None, url: str) -> None:
        auth = self._wishes.auth
        if mine is None:
            mine = self._studio.add_backend(link.project, url, auth)
            self.changes.append(f"project {link.project}: the ML backend at {url} was connected")
        elif mine.url != url or not mine.interactive or _is_refused(mine, auth):
            self._studio.change_backend(link.project, mine, url, auth)
            self.changes.append(f"project {link.project}: the ML backend is asked at {url} now")
        if link.ml_backend != mine.id:
            with self._store.write() as session:
                note_link(session, link.id, ml_backend=mine.id)


def _is_refused(mine: BackendSeen, auth: BackendAuth | None) -> bool:
    """Whether the password has to be sent; Label Studio does not show the one it has, but it has just tried it."""
    return auth is not None and (mine.user != auth.user or mine.state != CONNECTED)


def _base(url: str) -> str:
    return url.partition("/tasks/")[0].rstrip("/")


def _same(there: Any, wanted: Any) -> bool:
    # Label Studio trims texts.
    return there.strip() == wanted.strip() if isinstance(there, str) and isinstance(wanted, str) else there == wanted
