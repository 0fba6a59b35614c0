"""URLs and hosts, normalized the way browsers do, so that two spellings of one host compare as equal."""

import ipaddress
import re
import unicodedata
from dataclasses import dataclass
from urllib.parse import urlsplit

from mturk.marketplace.errors import InvalidParameter

PORTS = {"http": 80, "https": 443}
NAME = re.compile(r"[a-z0-9_-]+(\.[a-z0-9_-]+)*")
# Browsers read a host whose last label looks like this as an IPv4 address.
NUMERIC = re.compile(r"[0-9]+|0x[0-9a-f]*")
LOCALHOST = "localhost"


class InvalidHost(ValueError):
    """A URL without a host, or with one that browsers may read differently than we do."""


@dataclass(frozen=True)
class HostPort:
    """A normalized host, and a port."""

    host: str
    port: int

    @property
    def is_local_name(self) -> bool:
        """Whether it is a name of the local machine."""
        return self.host == LOCALHOST or self.host.endswith(f".{LOCALHOST}")

    @property
    def is_loopback(self) -> bool:
        """Whether it is the local machine."""
        if self.is_local_name:
            return True
        try:
            address = ipaddress.ip_address(self.host)
        except ValueError:
            return False
        return address.is_loopback or address.is_unspecified


def parse_host(url: str) -> HostPort:
    """Return the host and port of an http or https URL; refuse a host that can be read in two ways."""
    try:
        parts = urlsplit(url)
        port = parts.port or PORTS[parts.scheme]
        return HostPort(_normalize_host(parts.hostname or ""), port)
    except (ValueError, KeyError):
        raise InvalidHost("the host is invalid") from None


def public_address(url: str) -> str:
    """Return the URL at which browsers reach the marketplace, without a trailing slash."""
    try:
        parts = urlsplit(url.strip())
        valid = parts.scheme in PORTS and parts.hostname and parts.username is None
        _ = parts.port
    except ValueError:
        valid = False
    if not valid or parts.path.strip("/") or parts.query or parts.fragment:
        raise InvalidParameter(f"{url!r} is not a public URL; use https://host or http://host:port, without a path")
    return f"{parts.scheme}://{parts.netloc}"


def _normalize_host(host: str) -> str:
    if ":" in host:
        if "%" in host:
            raise InvalidHost(host)
        address = ipaddress.IPv6Address(host)
        return str(address.ipv4_mapped or address)
    name = host.encode("idna").decode("ascii").lower().removesuffix(".")
    # Python follows IDNA 2003. A name that it maps to another one is a different name in browsers (IDNA 2008).
    unicode_name = unicodedata.normalize("NFKC", host).lower().removesuffix(".")
    if not NAME.fullmatch(name) or (not host.isascii() and name.encode("ascii").decode("idna") != unicode_name):
        raise InvalidHost(host)
    if NUMERIC.fullmatch(name.rpartition(".")[2]):
        # Accepts four decimal numbers only, not 127.1, 0x7f.1 or 2130706433.
        return str(ipaddress.IPv4Address(name))
    return name
