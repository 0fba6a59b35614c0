"""Whether workers will see the pages that HITs link to: asked at their address, and read out of the settings."""

from dataclasses import dataclass
from ipaddress import ip_address
from urllib.parse import urlsplit
from uuid import UUID

import requests

from common.origins import NO_ORIGIN, origin_of
from plugin.crowd import crowd_profile
from plugin.errors import PluginError
from plugin.hit_links import HitLinks
from plugin.settings import PREFIX, Settings

SECONDS_TO_ANSWER = 5
# With this header, pages of ours can be told from a page of the owner's.
OURS = "X-Outfox-Pages"
# No HIT has this id: its link, rightly signed, is answered with "this HIT is not known here".
NO_HIT = UUID(int=0)
UNKNOWN_HIT, FOREIGN_LINK, BROKEN = 409, 401, 500
ANCESTORS = "frame-ancestors "
SITES = f"{PREFIX}CROWD_SITE_URL"


class PagesAway(PluginError):
    """The pages do not answer now."""

    code = "pages_away"
    retry = True


class PagesWrong(PluginError):
    """Something answers that will not show our HITs."""

    code = "pages_wrong"


@dataclass(frozen=True)
class PagesSeen:
    """What answers at the pages' address; `framed_by` is what our own pages say of who may show them in a frame."""

    are_ours: bool
    framed_by: tuple[str, ...] = ()


def look_at_pages(settings: Settings) -> PagesSeen:
    """The pages, asked for as a marketplace's preview does; an error that tells the cure where no worker sees one."""
    address, setting = settings.hit_pages, page_setting(settings)
    link = HitLinks(address, settings.signing_secrets()).url_of(NO_HIT)
    try:
        preview = crowd_profile(settings).page.preview_query()
        with requests.get(link, preview, timeout=SECONDS_TO_ANSWER, stream=True) as answer:
            status, headers = answer.status_code, answer.headers
    except ValueError as error:  # What requests says of addresses that are none; all its errors are OSErrors too.
        raise PagesWrong(f"{address} is no address of a page; correct {setting}") from error
    except requests.exceptions.SSLError as error:
        told = f"{address} speaks no https that this machine trusts, and browsers would show a warning"
        raise PagesWrong(f"{told}; mend its certificate, or correct {setting}") from error
    except requests.RequestException as error:
        told = f"{address} does not answer, and workers would see an empty frame"
        raise PagesAway(f"{told}; start `outfox serve`, or correct {setting}") from error
    if status >= BROKEN:
        raise PagesAway(f"{address} answers with HTTP {status}, and workers would see no work; look at its log")
    if OURS not in headers:
        if settings.hit_page_url:
            return PagesSeen(are_ours=False)
        raise PagesWrong(f"what answers at {address} is not `outfox serve`; correct {setting}")
    if status == FOREIGN_LINK:
        raise PagesWrong(f"the pages at {address} do not know our links; give them and this command one {PREFIX}SECRET")
    if status != UNKNOWN_HIT:
        raise PagesWrong(f"the pages at {address} answer with HTTP {status}; is `outfox serve` of this version?")
    return PagesSeen(are_ours=True, framed_by=_framed_by(headers.get("Content-Security-Policy", "")))


def page_setting(settings: Settings) -> str:
    """The setting that says where the pages are."""
    return f"{PREFIX}HIT_PAGE_URL" if settings.hit_page_url else f"{PREFIX}WEB_URL"


def frame_problem(settings: Settings) -> str:
    """Why browsers would not show the pages in the marketplace's frame, with the cure; empty where they would."""
    setting = page_setting(settings)
    if NO_ORIGIN in map(origin_of, (settings.hit_pages, *settings.crowd_sites)):
        return f"{settings.hit_pages} or {' '.join(settings.crowd_sites)} is no address; correct {setting} or {SITES}"
    page, sites = urlsplit(settings.hit_pages), [urlsplit(one) for one in settings.crowd_sites]
    near, far = _is_here(page.hostname), [one for one in sites if not _is_here(one.hostname)]
    if near and far:
        seen = f"{page.hostname} is every worker's own machine, and the marketplace is at {far[0].hostname}"
        return f"{seen}; set {setting} to an address that workers reach"
    if page.scheme == "http" and not near and any(one.scheme == "https" for one in sites):
        return f"browsers show no http page inside an https site; serve the pages by https, and set {setting} to that"
    if page.scheme == "https" and any(one.scheme == "http" for one in sites):
        return "browsers warn of what an https page hands in by http; let the marketplace's site be https too"
    return ""


def _is_here(host: str | None) -> bool:
    if host is None or host == "localhost" or host.endswith(".localhost"):
        return host is not None
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _framed_by(policy: str) -> tuple[str, ...]:
    rules = [rule.strip() for rule in policy.split(";")]
    return next((tuple(rule.removeprefix(ANCESTORS).split()) for rule in rules if rule.startswith(ANCESTORS)), ())
