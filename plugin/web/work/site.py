"""The marketplace's site: who may show our pages in a frame, and where they may hand in work."""

from collections.abc import Sequence
from urllib.parse import urlsplit

from common.origins import NO_ORIGIN, origin_of
from plugin.errors import SettingsError
from plugin.settings import PREFIX

SCHEMES = ("http", "https")
# The editor sets styles on elements and makes workers from blobs; scripts come from here only.
OWN = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
    "font-src 'self' data:; connect-src 'self'; worker-src 'self' blob:; base-uri 'none'"
)


class MarketSite:
    """One or several origins of one marketplace: some show HITs on one host and take them in on another."""

    def __init__(self, urls: Sequence[str]) -> None:
        self.origins = tuple(origin_of(url) for url in urls)
        if not self.origins or NO_ORIGIN in self.origins or not all(urlsplit(one).scheme in SCHEMES for one in urls):
            raise SettingsError(f"{' '.join(urls)} is no http address of a site; correct {PREFIX}CROWD_SITE_URL")

    @property
    def content_policy(self) -> str:
        """The Content-Security-Policy of a page in the marketplace's frame."""
        places = " ".join(self.origins)
        return f"{OWN}; form-action {places}; frame-ancestors {places}"

    def takes(self, url: str) -> bool:
        """Whether what is posted below that address reaches the marketplace."""
        # Browsers and urlsplit read these differently, and the browser decides where the form goes.
        if any(one == "\\" or one.isspace() or not one.isprintable() for one in url):
            return False
        if origin_of(url) not in self.origins:
            return False
        parts = urlsplit(url)
        return parts.scheme in SCHEMES and "@" not in parts.netloc
