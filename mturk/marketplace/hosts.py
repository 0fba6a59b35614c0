"""Hosts of addresses, compared as browsers do: however a host is written, it is the same one."""

import ipaddress
import re
import unicodedata
from dataclasses import dataclass
from urllib.parse import urlsplit

PORTS = {"http": 80, "https": 443}
NAME = re.compile(r"[a-z0-9_-]+(\.[a-z0-9_-]+)*")
# A last part like this makes browsers read the whole host as a number.
NUMERIC = re.compile(r"[0-9]+|0x[0-9a-f]*")
LOCAL = "localhost"


class NoHost(ValueError):
    """An address without a host that browsers and we read alike."""


@dataclass(frozen=True)
class Place:
    """A host in its one spelling, and a port."""

    host: str
    port: int

    @property
    def is_loopback(self) -> bool:
        """Whether it is the very machine that asks."""
        if self.host == LOCAL or self.host.endswith(f".{LOCAL}"):
            return True
        try:
            address = ipaddress.ip_address(self.host)
        except ValueError:
            return False
        return address.is_loopback or address.is_unspecified


def place_of(url: str) -> Place:
    """Where an http or https address leads; one that can be read in two ways is refused."""
    try:
        parts = urlsplit(url)
        port = parts.port or PORTS[parts.scheme]
        return Place(_in_one_spelling(parts.hostname or ""), port)
    except (ValueError, KeyError):
        raise NoHost("the host cannot be read") from None


def _in_one_spelling(host: str) -> str:
    if ":" in host:
        if "%" in host:
            raise NoHost(host)
        address = ipaddress.IPv6Address(host)
        return str(address.ipv4_mapped or address)
    name = host.encode("idna").decode("ascii").lower().removesuffix(".")
    # What the older rules for names change is another name by the newer ones, which browsers follow.
    written = unicodedata.normalize("NFKC", host).lower().removesuffix(".")
    if not NAME.fullmatch(name) or (not host.isascii() and name.encode("ascii").decode("idna") != written):
        raise NoHost(host)
    if NUMERIC.fullmatch(name.rpartition(".")[2]):
        # Refuses everything but four decimal numbers: 127.1, 0x7f.1 and 2130706433 are no spellings for an address.
        return str(ipaddress.IPv4Address(name))
    return name
