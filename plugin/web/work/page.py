"""The page of a HIT: opened by its signed link in the marketplace's frame, with a session where it was accepted."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any
from uuid import UUID

from common.clock import Clock
from crowd.profile import PageParameters
from plugin.errors import PluginError
from plugin.hit_links import HitLinks
from plugin.labelstudio.editor import editor_bundle
from plugin.lazy_store import LazyStore
from plugin.web.work.errors import PageGone
from plugin.web.work.limits import Limits
from plugin.web.work.packs import PackShelf, ShownPack
from plugin.web.work.shown import quiz_items
from plugin.web.work.site import MarketSite
from plugin.web.work.tokens import PageHeld, PageTokens
from round_manager.errors import TimeIsOver, WorkRefused
from round_manager.models import HitKind, SessionStatus
from round_manager.work.pages import HitDetails, find_hit
from round_manager.work.session_start import has_session, open_session
from templates.payloads import Json
from templates.samples import Template

API = "/work"
ELSEWHERE = "this page was opened from a place that is not the marketplace; open the HIT there again"
OVER = "the time for this HIT is over; return it and take another one"
NOT_YOURS = "the marketplace gave this HIT to somebody else; take another one"
TEMPLATES: Mapping[HitKind, Template] = {HitKind.CREATE: "create", HitKind.VALIDATE: "validate"}


class HitPages:
    """Makes what the page of a HIT is set up with."""

    def __init__(
        self,
        lazy_store: LazyStore,
        links: HitLinks,
        tokens: PageTokens,
        site: MarketSite,
        packs: PackShelf,
        clock: Clock,
        limits: Limits,
        parameters: PageParameters,
    ) -> None:
        self._parameters = parameters
        self._lazy_store = lazy_store
        self._links = links
        self._tokens = tokens
        self._site = site
        self._packs = packs
        self._clock = clock
        self._limits = limits

    def setup(self, hit: str, told: Mapping[str, str]) -> Json:
        """The page for whoever the marketplace says that it is; an error where there can be none."""
        public_id = self._checked(hit, told.get("key", ""))
        visit = self._parameters.read(told)
        if visit.is_preview:
            with self._lazy_store.open().read() as session:
                shown = find_hit(session, public_id)
            return self._setup(shown, None)
        assignment, worker, submit_to = visit.assignment_id, visit.worker_id, visit.submit_to
        if not self._site.takes(submit_to):
            raise WorkRefused(ELSEWHERE)
        with self._lazy_store.open().read() as session:
            is_known = has_session(session, find_hit(session, public_id).hit, assignment, worker)
        if not is_known:
            self._limits.open(public_id)
        with self._lazy_store.open().write() as session:
            shown = find_hit(session, public_id)
            work = open_session(session, shown.hit, assignment, worker, now=self._clock.now(), submit_to=submit_to)
        if work.status is SessionStatus.EXPIRED:
            raise TimeIsOver(OVER)
        if work.status is SessionStatus.UNCONFIRMED:
            raise WorkRefused(NOT_YOURS)
        return self._setup(shown, self._tokens.make(PageHeld(work.public_id, submit_to)))

    def _checked(self, hit: str, key: str) -> UUID:
        try:
            return self._links.check(hit, key)
        except PluginError as error:
            raise PageGone(f"{error}; open the HIT again on the marketplace") from error

    def _setup(self, shown: HitDetails, token: str | None) -> Json:
        kind, spec = shown.hit.kind, shown.spec
        pack = self._packs.find(shown.task.name, shown.task.folder)
        bonus = spec.pay.fooled_bonus_cents if kind is HitKind.CREATE else 0
        warning = spec.work.content_warning
        return {
            "kind": kind.value,
            "preview": token is None,
            "token": token,
            "api": API,
            "task": {
                "title": spec.title,
                "instructions_html": pack.instructions_html(TEMPLATES.get(kind, "create")),
                "content_warning": warning,
                "consent": bool(warning),
                "languages": list(spec.languages),
            },
            "pay": {
                "reward_cents": shown.hit.reward_cents,
                "bonus_cents": bonus,
                "hourly_cents": spec.pay.minimum_hourly_cents,
            },
            "editor": None if kind is HitKind.QUIZ else editor_json(),
            "config": "" if kind is HitKind.QUIZ else pack.config(TEMPLATES[kind]),
            "sample": self._sample(shown, pack) if token is None else None,
            "error": None,
        }

    def _sample(self, shown: HitDetails, pack: ShownPack) -> Json:
        if shown.hit.kind is HitKind.QUIZ:
            return {"items": quiz_items(shown.spec, None)}
        return {"task": pack.sample(TEMPLATES[shown.hit.kind])}


def error_setup(title: str, text: str, *, give_back: bool = False) -> Json:
    """A page that only tells what is wrong, and where the HIT is given back if nothing else helps."""
    task = {"title": title, "instructions_html": "", "content_warning": "", "consent": False, "languages": ["en"]}
    return {
        "kind": HitKind.CREATE.value,
        "preview": False,
        "token": None,
        "api": API,
        "task": task,
        "pay": {"reward_cents": 0, "bonus_cents": 0, "hourly_cents": 0},
        "editor": None,
        "config": "",
        "sample": None,
        "error": {"title": title, "text": text, "give_back": give_back},
    }


def editor_json() -> dict[str, Any]:
    """What a page has to load of the installed editor."""
    bundle = editor_bundle()
    known = asdict(bundle)
    # The browser begins with all of them at once, and not when the first one asks for the others.
    chunks = [f"{chunk}.js" for chunk in bundle.chunks if (bundle.folder / f"{chunk}.js").is_file()]
    files = ["runtime.js", "vendor.js", "main.js", *chunks]
    return {**{name: known[name] for name in ("version", "module", "chunks", "styles", "flags")}, "files": files}
