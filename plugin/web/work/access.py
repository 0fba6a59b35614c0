"""Access to worker pages: the token of each page, the marketplace's site, and limits on how fast pages may call."""

import re
import threading
import time
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from urllib.parse import urlsplit
from uuid import UUID

from itsdangerous import BadData, URLSafeSerializer

from common.database import EPOCH, MICROSECOND
from common.messages import gettext
from common.origins import NO_ORIGIN, origin_of
from plugin.errors import SettingsError
from plugin.settings import PREFIX
from plugin.web.middleware import bearer_token
from plugin.web.work.errors import PageGone, SlowDown
from round_manager.services.context import ServiceContext
from round_manager.services.work import admit_browser
from round_manager.work.addresses import AddressHasher
from round_manager.work.browsers import SEEN_EVERY, PageBrowser, fingerprint
from round_manager.work.errors import REOPEN_HIT

_SALT = "outfox.work.1"
# The header with the key of the browser.
BROWSER = "X-Outfox-Browser"
BROWSER_KEY = re.compile("[A-Za-z0-9-]{16,64}")
SCHEMES = ("http", "https")
# The editor sets styles on elements and creates workers from blobs; scripts come from our own origin only.
OWN = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
    "font-src 'self' data:; connect-src 'self'; worker-src 'self' blob:; base-uri 'none'"
)
MOST_KNOWN = 10_000
TOO_FAST = gettext("that was very fast; wait a few seconds and go on")


@dataclass(frozen=True)
class OpenPage:
    """What a token stands for: a session, and the place where its HIT is submitted.

    The marketplace names that place anew each time the HIT is accepted, so it belongs to the page, not the session.
    `proven_at` is when the marketplace proved the acceptance, if it did. A guest is another browser than the page's
    own: it sees nothing that was typed there.
    """

    session: UUID
    submit_to: str
    proven_at: datetime | None = None
    is_guest: bool = False


class PageTokens:
    """Creates and verifies the tokens that a page sends with each call; a frame of another site gets no cookies.

    The last secret signs; older ones still verify.
    """

    def __init__(self, secrets: Sequence[str]) -> None:
        self._serializer = URLSafeSerializer(list(secrets), salt=_SALT)

    def make(self, page: OpenPage) -> str:
        """Return the token of a page."""
        proven = None if page.proven_at is None else (page.proven_at - EPOCH) // MICROSECOND
        return str(self._serializer.dumps([page.session.hex, page.submit_to, proven]))

    def read(self, authorization: str) -> OpenPage:
        """Return the page whose token an Authorization header carries, or raise PageGone."""
        try:
            session, submit_to, proven = self._serializer.loads(bearer_token(authorization))
            proven_at = None if proven is None else EPOCH + proven * MICROSECOND
            return OpenPage(UUID(session), str(submit_to), proven_at)
        except (BadData, ValueError) as error:
            text = gettext("this page is not known here; open the HIT again on the marketplace")
            raise PageGone(text, hint=REOPEN_HIT) from error


class BrowserGuard:
    """Lets a page's own browser in, by the key that the page's script keeps and sends with each call.

    The last browser of each page is remembered for a moment, so that most calls ask no database.
    """

    def __init__(self, context: Callable[[], ServiceContext], hasher: AddressHasher) -> None:
        self._context = context
        self._hasher = hasher
        self._known: dict[UUID, tuple[str, datetime, bool]] = {}

    def admit(self, page: OpenPage, key: str, address: str) -> OpenPage:
        """Return the page as this browser may use it, or raise PageInOtherBrowser; `address` is the client's."""
        if not BROWSER_KEY.fullmatch(key):
            text = gettext("this page is outdated; open the HIT again on the marketplace")
            raise PageGone(text, hint=REOPEN_HIT)
        context, mark = self._context(), fingerprint(page.session, key)
        now = context.now()
        known = self._known.get(page.session)
        if known and known[0] == mark and timedelta() <= now - known[1] < SEEN_EVERY:
            return replace(page, is_guest=known[2])
        browser = PageBrowser(mark, page.proven_at, self._hasher.hash(address))
        admitted = replace(page, is_guest=admit_browser(context, page.session, browser))
        if len(self._known) >= MOST_KNOWN:
            self._known = {}
        self._known[page.session] = (mark, now, admitted.is_guest)
        return admitted


class MarketSite:
    """The origins of one marketplace's site, which may show our pages in a frame and receive finished work.

    Some marketplaces show HITs on one host and receive them on another.
    """

    def __init__(self, urls: Sequence[str]) -> None:
        self.origins = tuple(origin_of(url) for url in urls)
        if not self.origins or NO_ORIGIN in self.origins or not all(urlsplit(one).scheme in SCHEMES for one in urls):
            raise SettingsError(f"{' '.join(urls)} is not an http address of a site; correct {PREFIX}CROWD_SITE_URL")

    @property
    def content_policy(self) -> str:
        """The Content-Security-Policy of a page in the marketplace's frame."""
        places = " ".join(self.origins)
        return f"{OWN}; form-action {places}; frame-ancestors {places}"

    def accepts(self, url: str) -> bool:
        """Whether a form that is posted below that address reaches the marketplace."""
        # Browsers and urlsplit read these characters differently, and the browser decides where the form goes.
        if any(one == "\\" or one.isspace() or not one.isprintable() for one in url):
            return False
        if origin_of(url) not in self.origins:
            return False
        parts = urlsplit(url)
        return parts.scheme in SCHEMES and "@" not in parts.netloc


@dataclass(frozen=True)
class CallRate:
    """A burst of calls, and then a number per second."""

    burst: int
    per_second: float


# A class of students may open one link at the same time, and must get in beside an attacker who forges names.
OPENINGS = CallRate(500, 5.0)
# Attempts on all pages of a link where the marketplace does not prove who opened them: 30 a minute for a HIT with up to
# this many places, and more for one that has more.
UNPROVEN_ATTEMPTS = CallRate(30, 0.5)
PLACES = 10


class RateLimit:
    """One rate, counted for each of many callers."""

    def __init__(self, rate: CallRate, time_now: Callable[[], float] = time.monotonic) -> None:
        self._rate = rate
        self._now = time_now
        self._used: dict[Hashable, tuple[float, float]] = {}
        self._lock = threading.Lock()

    def take(self, caller: Hashable, weight: float = 1) -> None:
        """Count one call, or raise SlowDown; refused calls do not count."""
        with self._lock:
            now = self._now()
            used = self._used_by(caller, now)
            if used + weight > self._rate.burst:
                raise SlowDown(TOO_FAST)
            if len(self._used) >= MOST_KNOWN:
                self._used = {one: kept for one, kept in self._used.items() if self._used_by(one, now) > 0}
            self._used[caller] = (used + weight, now)

    def _used_by(self, caller: Hashable, now: float) -> float:
        used, at = self._used.get(caller, (0.0, now))
        return max(0.0, used - (now - at) * self._rate.per_second)


class PageLimits:
    """Limits far above what people do, for each session, worker and HIT; each process counts in its own memory."""

    def __init__(self, time_now: Callable[[], float] = time.monotonic) -> None:
        self._calls = RateLimit(CallRate(120, 5.0), time_now)
        self._attempts = RateLimit(CallRate(12, 0.5), time_now)
        self._attempts_of_link = RateLimit(CallRate(60, 5.0), time_now)
        self._unproven_attempts_of_link = RateLimit(UNPROVEN_ATTEMPTS, time_now)
        self._openings = RateLimit(OPENINGS, time_now)

    def call(self, session: UUID) -> None:
        """Count a call of a page."""
        self._calls.take(session)

    def ask(self, worker: int, hit: int, *, places: int | None = None) -> None:
        """Count an attempt; `places` is the number of the HIT's assignments if nothing proves the acceptance."""
        if places is not None:
            self._unproven_attempts_of_link.take(hit, PLACES / max(PLACES, places))
        self._attempts.take(worker)
        self._attempts_of_link.take(hit)

    def open(self, hit: UUID) -> None:
        """Count a new worker on a HIT's link; anyone who has the link can claim to be any worker."""
        self._openings.take(hit)
