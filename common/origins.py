"""Origins of web addresses, as a Content-Security-Policy names them."""

import re
from urllib.parse import urlsplit

NO_ORIGIN = "'none'"
_HOST = re.compile(r"[a-z0-9._-]+")


def origin_of(url: str) -> str:
    """Return the scheme, host and port of an address; `'none'` for an address that no browser opens."""
    try:
        parts = urlsplit(url)
        host, port = (parts.hostname or "").encode("idna").decode(), parts.port
    except ValueError:
        return NO_ORIGIN
    if ":" not in host and not _HOST.fullmatch(host):
        # The origin becomes part of a header, in which some characters would start a new directive.
        return NO_ORIGIN
    bracketed = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{bracketed}" + (f":{port}" if port else "")
