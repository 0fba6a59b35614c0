"""The page of a HIT: opened by its signed link in the marketplace's frame, with a session once it is accepted."""

import hashlib
import threading
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from functools import cache, cached_property
from pathlib import Path
from typing import Any
from uuid import UUID

from common.clock import Clock
from common.messages import Message, Share, gettext
from crowd.profile import PageParameters
from crowd.proof import ProofExpired, ProofInvalid, verify_acceptance
from plugin.crowd import HitLinks
from plugin.errors import PluginError, SettingsError
from plugin.labelstudio.editor import editor_bundle
from plugin.settings import PREFIX
from plugin.web.language import PARAMETER as LANGUAGE
from plugin.web.language import chosen_language, pack_languages, set_language, task_language
from plugin.web.work.access import MarketSite, OpenPage, PageLimits, PageTokens
from plugin.web.work.errors import PageError, PageGone
from plugin.web.work.page_json import quiz_items
from round_manager.database.store import LazyStore
from round_manager.labelstudio.projects import instructions_html
from round_manager.models import HitKind
from round_manager.services import work as services
from round_manager.services.context import ServiceContext
from round_manager.services.work import HitDetails
from round_manager.work.errors import REOPEN_HIT, AcceptanceNotProven, PageUnknown, TimeIsOver
from round_manager.work.sessions import OVER
from templates import Pack, find_pack, load_pack
from templates.payloads import Json, Template, sample_task, template_xml
from templates.sections import Duplicates

API = "/work"
TEMPLATES: Mapping[HitKind, Template] = {HitKind.CREATE: "create", HitKind.VALIDATE: "validate"}


class PackCache:
    """Reads a pack when it is first shown and whenever its files changed; safe to use from many threads."""

    def __init__(self, own_folder: Path) -> None:
        self._own = own_folder
        self._known: dict[str, tuple[int, PackContent]] = {}
        self._lock = threading.Lock()

    def find(self, name: str, folder: str) -> "PackContent":
        """Return the pack of a task, from the folder it was created from or else by name; TemplateError if missing."""
        made_from = Path(folder)
        with self._lock:
            changed = max((file.stat().st_mtime_ns for file in made_from.glob("*.*")), default=0)
            known = self._known.get(name)
            if known is None or known[0] != changed:
                pack = load_pack(made_from) if made_from.is_dir() else find_pack(name, self._own)
                known = self._known[name] = (changed, PackContent(pack))
            return known[1]


@dataclass(frozen=True)
class Instructions:
    """What a page shows; `version` changes with it."""

    html: str

    @cached_property
    def version(self) -> str:
        """A hash of the text."""
        return hashlib.sha256(self.html.encode()).hexdigest()


class PackContent:
    """What pages show of a pack."""

    def __init__(self, pack: Pack) -> None:
        self._pack = pack
        self._instructions = {
            (template, language): Instructions(instructions_html(pack.instructions_for(template, language)))
            for template in TEMPLATES.values()
            for language in pack.languages
        }
        self._configs = {(template, one): template_xml(pack, template, one) for template, one in self._instructions}

    def instructions(self, template: Template, language: str) -> "Instructions":
        """Return the instructions for writing or for validating, in a language that the pack has, or its main one."""
        return self._instructions[template, self._known(language)]

    def config(self, template: Template, language: str) -> str:
        """Return the template as a Label Studio annotator gets it, in a language that the pack has, or its main one."""
        return self._configs[template, self._known(language)]

    def _known(self, language: str) -> str:
        # The pack may have changed since the round was opened.
        return language if language in self._pack.languages else self._pack.languages[0]

    def sample(self, template: Template) -> Json:
        """Return the data of a sample task."""
        data: Json = sample_task(self._pack, template)["data"]
        return data


@dataclass(frozen=True)
class AcceptanceCheck:
    """Requires the marketplace's proof that a worker accepted a HIT; `parameter` is empty where there is none."""

    parameter: str
    secret: str = field(repr=False)
    clock: Clock

    def require(self, query: Mapping[str, str]) -> datetime | None:
        """Return when the page's proof was issued; None if the marketplace proves nothing. Refuse a missing proof."""
        if not self.parameter:
            return None
        if not self.secret:
            keys = f"{PREFIX}CROWD_KEY_ID and {PREFIX}CROWD_KEY_SECRET"
            raise SettingsError(f"proofs of acceptance cannot be checked without the requester's key: set {keys}")
        # The marketplace signs what it adds to the address; the worker adds the language.
        signed = {name: value for name, value in query.items() if name not in (self.parameter, LANGUAGE)}
        try:
            return verify_acceptance(query.get(self.parameter, ""), signed, self.secret, now=self.clock.now())
        except ProofInvalid as error:
            raise AcceptanceNotProven from error
        except ProofExpired as error:
            raise TimeIsOver(OVER) from error


@dataclass(frozen=True)
class HitPages:
    """Creates the setup of a HIT's page."""

    store: LazyStore
    links: HitLinks
    tokens: PageTokens
    site: MarketSite
    parameters: PageParameters
    acceptance: AcceptanceCheck
    packs: PackCache
    clock: Clock
    limits: PageLimits

    def setup(self, hit: str, query: Mapping[str, str]) -> Json:
        """Return the setup for the worker whom the marketplace names, or a preview."""
        public_id = self._checked(hit, query.get("key", ""))
        visit = self.parameters.read(query)
        context = ServiceContext(self.store.open(), self.clock)
        if visit.is_preview:
            details = services.find_hit(context, public_id)
            set_language(chosen_language() or task_language(details.spec.languages))
            return self._setup(details, None)
        if self.parameters.submit_to and not self.site.accepts(visit.submit_to):
            text = gettext("this page was opened from a place that is not the marketplace; open the HIT there again")
            raise PageUnknown(text, hint=REOPEN_HIT)
        proven_at = self.acceptance.require(query)
        opened = services.open_page(
            context,
            public_id,
            visit.assignment_id,
            visit.worker_id,
            submit_to=visit.submit_to,
            is_proven=proven_at is not None,
            held=visit.held,
            language=chosen_language(),
            before_new=lambda: self.limits.open(public_id),
        )
        set_language(opened.language or task_language(opened.details.spec.languages))
        details, work = opened.details, opened.work
        page = OpenPage(work.public_id, visit.submit_to, proven_at)
        return self._setup(details, page, instructions_read=opened.instructions_read)

    def _checked(self, hit: str, key: str) -> UUID:
        try:
            return self.links.check(hit, key)
        except PluginError as error:
            text = gettext(
                "this link is not one of ours, or was changed on the way; open the HIT again on the marketplace"
            )
            raise PageGone(text, hint=REOPEN_HIT) from error

    def _setup(self, shown: HitDetails, page: OpenPage | None, *, instructions_read: str | None = None) -> Json:
        kind, spec = shown.hit.kind, shown.spec
        pack = self.packs.find(shown.task.name, shown.task.folder)
        bonus = spec.pay.fooled_bonus_cents if kind is HitKind.CREATE else 0
        warning = spec.work.content_warning
        languages = pack_languages(spec.languages)
        template = TEMPLATES.get(kind, "create")
        instructions = pack.instructions(template, languages[0])
        return {
            "kind": kind.value,
            "preview": page is None,
            "session": page.session.hex if page else None,
            "token": self.tokens.make(page) if page else None,
            "api": API,
            "task": {
                "title": spec.title,
                "instructions_html": instructions.html,
                "instructions_version": instructions.version,
                "instructions_read": instructions.version == instructions_read,
                "new_texts": new_texts(shown.duplicates) if bonus and shown.duplicates else "",
                "content_warning": warning,
                "consent": bool(warning),
                "languages": languages,
            },
            "pay": {
                "reward_cents": shown.hit.reward_cents,
                "bonus_cents": bonus,
                "hourly_cents": spec.pay.minimum_hourly_cents,
            },
            "editor": None if kind is HitKind.QUIZ else editor_json(),
            "config": "" if kind is HitKind.QUIZ else pack.config(template, languages[0]),
            "sample": self._sample(shown, pack) if page is None else None,
            "error": None,
        }

    def _sample(self, shown: HitDetails, pack: PackContent) -> Json:
        if shown.hit.kind is HitKind.QUIZ:
            return {"items": quiz_items(shown.spec, None)}
        return {"task": pack.sample(TEMPLATES[shown.hit.kind])}


def new_texts(rule: Duplicates) -> Message:
    """Return the rule about duplicates as workers read it."""
    if rule.near == 1:
        return gettext(
            "A text that is the same as an earlier one apart from case, punctuation and spacing earns no bonus (yours "
            "or another worker's, in this round or before), and neither does a copy of our own data or of the text "
            "that you are shown."
        )
    return gettext(
        "A text that is %(share)s or more the same as an earlier one earns no bonus (yours or another worker's, in "
        "this round or before), and neither does a copy of our own data or of the text that you are shown.",
        share=Share(rule.near),
    )


def error_setup(error: PageError) -> Json:
    """Return the setup of a page that shows only an error, and whether the HIT should be returned."""
    title = error.title
    task = {
        "title": title,
        "instructions_html": "",
        "instructions_version": "",
        "instructions_read": True,
        "new_texts": "",
        "content_warning": "",
        "consent": False,
        "languages": ["en"],
    }
    return {
        "kind": HitKind.CREATE.value,
        "preview": False,
        "session": None,
        "token": None,
        "api": API,
        "task": task,
        "pay": {"reward_cents": 0, "bonus_cents": 0, "hourly_cents": 0},
        "editor": None,
        "config": "",
        "sample": None,
        "error": {"title": title, "text": error.text, "code": error.code, "give_back": error.should_return},
    }


@cache
def editor_json() -> Mapping[str, Any]:
    """Return the files of the installed editor that a page loads; searched once per process."""
    bundle = editor_bundle()
    known = asdict(bundle)
    # The browser fetches all of them at once, not one after the other.
    chunks = [f"{chunk}.js" for chunk in bundle.chunks if (bundle.folder / f"{chunk}.js").is_file()]
    files = ["runtime.js", "vendor.js", "main.js", *chunks]
    return {**{name: known[name] for name in ("version", "module", "chunks", "styles", "flags")}, "files": files}
