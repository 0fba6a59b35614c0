"""The kinds of crowds, the links to the pages of their HITs, and whether workers will see these pages."""

from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from urllib.parse import urlsplit
from uuid import UUID

import requests
from itsdangerous import BadSignature, Signer

from common.errors import Hint
from common.origins import NO_ORIGIN, origin_of
from mturk.profile import MARKETPLACE, MTURK
from plugin.errors import PluginError
from plugin.settings import PREFIX, Settings
from round_manager.models import Hit

PROFILES = {one.kind: one for one in (MARKETPLACE, MTURK)}
_SALT = "outfox.hit.1"
TIMEOUT = 5
# This header distinguishes our pages from a page of the owner's.
OURS = "X-Outfox-Pages"
# No HIT has this id: our pages answer its signed link with "this HIT is not known here".
NO_HIT = UUID(int=0)
UNKNOWN_HIT, INVALID_LINK, SERVER_ERROR = 409, 401, 500
ANCESTORS = "frame-ancestors "
SITES = f"{PREFIX}CROWD_SITE_URL"


class PagesUnreachable(PluginError):
    """The workers' pages do not answer at the moment."""

    retry = True


class PagesMisconfigured(PluginError):
    """What answers at the pages' address will not show our HITs."""


class HitLinks:
    """Links to the pages of HITs, signed so that a HIT cannot be opened by guessing its number.

    The last secret signs; older ones still verify.
    """

    def __init__(self, pages: str, secrets: Sequence[str]) -> None:
        self._pages = pages
        self._signer = Signer(list(secrets), salt=_SALT)

    def url(self, hit: Hit) -> str:
        """Return the address of a HIT's page; the same one each time."""
        return self.url_of(hit.public_id)

    def url_of(self, public_id: UUID) -> str:
        """Return the address of the page of the HIT with that public id."""
        return f"{self._pages}/{public_id.hex}?key={self._key(public_id)}"

    def check(self, hit: str, key: str) -> UUID:
        """Return the public id of the HIT that a link opens."""
        try:
            return UUID(self._signer.unsign(f"{hit}.{key}").decode())
        except (BadSignature, ValueError) as error:
            raise PluginError("this link is not one of ours, or was changed on the way") from error

    def _key(self, public_id: UUID) -> str:
        return self._signer.get_signature(public_id.hex).decode()


@dataclass(frozen=True)
class PageCheck:
    """What answers at the pages' address; `framed_by` lists the sites that may show our pages in a frame."""

    are_ours: bool
    framed_by: tuple[str, ...] = ()


def check_pages(settings: Settings) -> PageCheck:
    """Request the pages as a marketplace's preview does; raise an error if workers would not see them."""
    address, setting = settings.hit_pages, page_setting(settings)
    link = HitLinks(address, settings.signing_secrets()).url_of(NO_HIT)
    try:
        preview = PROFILES[settings.crowd_kind].page.preview_query()
        with requests.get(link, preview, timeout=TIMEOUT, stream=True) as answer:
            status, headers = answer.status_code, answer.headers
    except ValueError as error:  # How requests reports invalid addresses; all its other errors are OSErrors.
        raise PagesMisconfigured(f"{address} is not a valid address; correct {setting}") from error
    except requests.exceptions.SSLError as error:
        text = f"the TLS certificate of {address} is not trusted, and browsers would show a warning"
        raise PagesMisconfigured(f"{text}; fix the certificate, or correct {setting}") from error
    except requests.RequestException as error:
        text = f"{address} does not answer, and workers would see an empty frame"
        raise PagesUnreachable(
            f"{text}; start the web app, or correct {setting}", hint=Hint("start_web_app")
        ) from error
    if status >= SERVER_ERROR:
        raise PagesUnreachable(f"{address} answers with HTTP {status}, and workers would see no work; check its log")
    if OURS not in headers:
        if settings.hit_page_url:
            return PageCheck(are_ours=False)
        raise PagesMisconfigured(f"what answers at {address} is not the Outfox web app; correct {setting}")
    if status == INVALID_LINK:
        text = f"the pages at {address} do not accept our links"
        raise PagesMisconfigured(f"{text}; give them and this process the same {PREFIX}SECRET")
    if status != UNKNOWN_HIT:
        text = f"the pages at {address} answer with HTTP {status}"
        raise PagesMisconfigured(f"{text}; check that the web app has the same version")
    return PageCheck(are_ours=True, framed_by=_framed_by(headers.get("Content-Security-Policy", "")))


def page_setting(settings: Settings) -> str:
    """Return the name of the setting that holds the pages' address."""
    return f"{PREFIX}HIT_PAGE_URL" if settings.hit_page_url else f"{PREFIX}WEB_URL"


def frame_problem(settings: Settings) -> str:
    """Return why browsers would not show the pages in the marketplace's frame; an empty string if they would."""
    setting = page_setting(settings)
    if NO_ORIGIN in map(origin_of, (settings.hit_pages, *settings.crowd_sites)):
        text = f"{settings.hit_pages} or {' '.join(settings.crowd_sites)} is not a valid address"
        return f"{text}; correct {setting} or {SITES}"
    page, sites = urlsplit(settings.hit_pages), [urlsplit(one) for one in settings.crowd_sites]
    local, remote = _is_loopback(page.hostname), [one for one in sites if not _is_loopback(one.hostname)]
    if local and remote:
        text = f"{page.hostname} is each worker's own machine, and the marketplace is at {remote[0].hostname}"
        return f"{text}; set {setting} to an address that workers can reach"
    if page.scheme == "http" and not local and any(one.scheme == "https" for one in sites):
        return f"browsers do not show http pages inside an https site; serve the pages over https and set {setting}"
    if page.scheme == "https" and any(one.scheme == "http" for one in sites):
        return "browsers warn when an https page submits to http; serve the marketplace's site over https too"
    return ""


def _is_loopback(host: str | None) -> bool:
    if host is None or host == "localhost" or host.endswith(".localhost"):
        return host is not None
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _framed_by(policy: str) -> tuple[str, ...]:
    rules = [rule.strip() for rule in policy.split(";")]
    return next((tuple(rule.removeprefix(ANCESTORS).split()) for rule in rules if rule.startswith(ANCESTORS)), ())
