"""Basic authentication: the user and password of the backend, and a limit for those who guess them."""

import binascii
import hmac
import ipaddress
import math
import threading
import time
from base64 import b64decode
from collections import OrderedDict, deque
from collections.abc import Callable
from contextlib import suppress
from hashlib import sha256
from typing import Any

from ml_backend.errors import BackendError, TooManyWrongPasswords

# Wrong passwords that one client may send in PERIOD seconds, and that all clients together may send who have not yet
# sent the right one.
MAX_WRONG = 20
MAX_WRONG_IN_TOTAL = 200
PERIOD = 60.0
# How many clients are remembered; the oldest are forgotten first.
MAX_CLIENTS = 10_000
# Providers give one customer a whole network of this size.
IPV6_PREFIX = 64


class InvalidBasicAuth(BackendError):
    """The user or password for basic authentication is invalid."""


class BasicAuth:
    """The user and password that every request must carry, in UTF-8, or in Latin-1 as Label Studio sends them."""

    def __init__(self, user: str, password: str) -> None:
        if not user or not password or ":" in user:
            raise InvalidBasicAuth("basic authentication needs a user without a colon and a password, as user:password")
        pair = f"{user}:{password}"
        expected = [pair.encode()]
        # Latin-1 lacks many letters.
        with suppress(UnicodeEncodeError):
            expected.append(pair.encode("latin-1"))
        self._expected = [sha256(one).digest() for one in expected]

    def allows(self, header: str | None) -> bool:
        """Return whether an Authorization header carries them; compared in constant time."""
        scheme, _, value = (header or "").partition(" ")
        try:
            given = b64decode(value.strip(), validate=True) if scheme.lower() == "basic" else b""
        except (binascii.Error, ValueError):
            given = b""
        digest = sha256(given).digest()
        return any(hmac.compare_digest(digest, one) for one in self._expected)


class WrongPasswordLimiter:
    """Slows down clients that send wrong passwords, per client and in total, in bounded memory.

    A client that has to wait gets no answer about its password. The limit for all clients does not apply to those that
    have sent the right password before, so that strangers cannot lock out Label Studio.
    """

    def __init__(self, seconds: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._lock = threading.Lock()
        self._wrong: OrderedDict[str, deque[float]] = OrderedDict()
        self._all_wrong: deque[float] = deque(maxlen=MAX_WRONG_IN_TOTAL)
        self._known: OrderedDict[str, None] = OrderedDict()

    def check(self, auth: BasicAuth, header: str | None, address: str) -> bool:
        """Return whether the header carries the password; raise TooManyWrongPasswords if the client has to wait."""
        if not header:
            # Without a password nothing is guessed.
            return False
        client = _client(address)
        with self._lock:
            wait = self._wait(client)
        if wait > 0:
            raise TooManyWrongPasswords("too many wrong passwords; try again later", after=math.ceil(wait))
        allowed = auth.allows(header)
        with self._lock:
            self._record(client, allowed=allowed)
        return allowed

    def _wait(self, client: str) -> float:
        """Return for how many seconds the client has to wait."""
        own = self._wrong.get(client)
        if own is not None and len(own) == MAX_WRONG:
            return own[0] + PERIOD - self._seconds()
        if client not in self._known and len(self._all_wrong) == MAX_WRONG_IN_TOTAL:
            return self._all_wrong[0] + PERIOD - self._seconds()
        return 0.0

    def _record(self, client: str, *, allowed: bool) -> None:
        if allowed:
            _remember(self._known, client, None)
            return
        now = self._seconds()
        if client not in self._known:
            self._all_wrong.append(now)
        _remember(self._wrong, client, self._wrong.get(client) or deque(maxlen=MAX_WRONG))
        self._wrong[client].append(now)


def _client(address: str) -> str:
    """Return the address, or the network of an IPv6 address, which one client can have to itself."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv4Address) or parsed.ipv4_mapped:
        return str(getattr(parsed, "ipv4_mapped", None) or parsed)
    return str(ipaddress.ip_network((parsed, IPV6_PREFIX), strict=False))


def _remember(clients: OrderedDict[str, Any], client: str, value: object) -> None:
    clients[client] = value
    clients.move_to_end(client)
    while len(clients) > MAX_CLIENTS:
        clients.popitem(last=False)
