"""Where events may be sent: requesters name the queues, so a queue must not lead into the operator's own network.

A host is checked twice: when a requester names it, as far as its spelling shows an address, and before each delivery,
after its name was resolved. The delivery then connects to the address that was checked, so that a name which resolves
to another address a moment later changes nothing. Nothing is connected to for a check.
"""

import ipaddress
import socket
from collections.abc import Callable, Iterable
from urllib.parse import urlsplit

from common.errors import CodedError
from mturk.marketplace.errors import InvalidEndpoint, InvalidParameter
from mturk.marketplace.urls import HostPort, parse_host

IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address
IpNetwork = ipaddress.IPv4Network | ipaddress.IPv6Network
Resolve = Callable[[str, int], Iterable[str]]

LOOPBACK = "127.0.0.0/8 ::1/128"
# IPv6 networks whose addresses end with an IPv4 address: NAT64, and the deprecated IPv4-compatible addresses.
_ENDS_WITH_IPV4 = (ipaddress.IPv6Network("64:ff9b::/96"), ipaddress.IPv6Network("64:ff9b:1::/96"))
_COMPATIBLE = ipaddress.IPv6Network("::/96")
_SIXTEEN_BYTES_END = 0xFFFF_FFFF


class DestinationRefused(CodedError):
    """The queue of a requester is at an address to which no event is sent."""


class InvalidQueueNetworks(InvalidParameter):
    """The private networks in which queues are allowed are not a list of networks."""


class QueueNetworks:
    """The addresses to which events may be sent: public ones, and the private networks that the operator allows."""

    def __init__(self, allowed: str = "", *, resolve: Resolve | None = None) -> None:
        self._allowed = tuple(_network(one) for one in allowed.split())
        self._resolve = resolve or resolve_host

    def check_url(self, url: str) -> None:
        """Refuse the URL of a queue if its spelling shows that events must not be sent there; nothing is resolved."""
        try:
            parts, host = urlsplit(url), parse_host(url)
        except ValueError:
            raise InvalidEndpoint("Notification.Destination has to be the URL of an SQS queue") from None
        address = _literal(host)
        private = address is not None and not is_public(address)
        if address is not None and not self._allows(address):
            raise InvalidEndpoint("Notification.Destination: queues at private addresses are not allowed here")
        # Without TLS, the events could be read and the queue impersonated on the way.
        if not (parts.scheme == "https" or private) or not parts.path.strip("/") or parts.username is not None:
            raise InvalidEndpoint("Notification.Destination has to be the https:// URL of an SQS queue")

    def address(self, url: str) -> str:
        """Return the address to connect to for this URL; raise DestinationRefused if one of the host's is not allowed.

        All of them are checked: otherwise a name with a public and a private address would pass now and then.
        """
        try:
            host = parse_host(url)
            found = list(self._resolve(host.host, host.port))
            addresses = [ipaddress.ip_address(one) for one in found]
        except (OSError, ValueError):
            raise DestinationRefused("the host of the queue cannot be resolved") from None
        if not addresses or not all(map(self._allows, addresses)):
            raise DestinationRefused("the host of the queue has an address to which no event is sent")
        return found[0]

    def _allows(self, address: IpAddress) -> bool:
        address = embedded(address)
        return is_public(address) or any(address in network for network in self._allowed)


def embedded(address: IpAddress) -> IpAddress:
    """Return the IPv4 address that an IPv6 address stands for, or the address itself."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    inner = address.ipv4_mapped or address.sixtofour or (address.teredo[1] if address.teredo else None)
    if inner is None and any(address in network for network in _ENDS_WITH_IPV4):
        inner = ipaddress.IPv4Address(int(address) & _SIXTEEN_BYTES_END)
    return inner or address


def is_public(address: IpAddress) -> bool:
    """Return whether an address is one of the public internet."""
    address = embedded(address)
    if isinstance(address, ipaddress.IPv6Address) and (address in _COMPATIBLE or address.is_site_local):
        return False
    return address.is_global and not (address.is_multicast or address.is_reserved or address.is_unspecified)


def resolve_host(host: str, port: int) -> list[str]:
    """Return the addresses of a host, in the order in which they should be tried."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


def _literal(host: HostPort) -> IpAddress | None:
    """Return the address that a host spells out; None for a name."""
    if host.is_local_name:
        return ipaddress.IPv4Address("127.0.0.1")
    try:
        return ipaddress.ip_address(host.host)
    except ValueError:
        return None


def _network(text: str) -> IpNetwork:
    try:
        return ipaddress.ip_network(text)
    except ValueError as error:
        raise InvalidQueueNetworks(f"{text!r} is not a network such as 10.0.0.0/8 ({error})") from error
