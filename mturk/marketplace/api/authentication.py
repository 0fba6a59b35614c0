"""AWS Signature Version 4: verify who signed a request, with a short-lived cache of access keys."""

import hashlib
import hmac
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from urllib.parse import parse_qsl, quote

from sqlalchemy import select

from mturk.marketplace.api.protocol import ProtocolError
from mturk.marketplace.market import Market
from mturk.marketplace.tables.people import AccessKey, Requester

KEY_CACHE_SECONDS = 30.0
ALGORITHM = "AWS4-HMAC-SHA256"
SERVICE = "mturk-requester"
TERMINATOR = "aws4_request"
SKEW = timedelta(minutes=15)
ALWAYS_SIGNED = ("host", "x-amz-date")
FIELD = re.compile(r"\s*(Credential|SignedHeaders|Signature)=([^,\s]+)\s*")


class SignatureError(ProtocolError):
    """A request without a valid signature."""

    code = "invalid_request_signature"


@dataclass(frozen=True)
class SignedRequest:
    """The signed parts of a request; header names are in lower case."""

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True)
class _Authorization:
    key_id: str
    date: str
    region: str
    signed_headers: tuple[str, ...]
    signature: str

    @property
    def scope(self) -> str:
        return f"{self.date}/{self.region}/{SERVICE}/{TERMINATOR}"


def verify_signature(request: SignedRequest, find_secret: Callable[[str], str | None], now: datetime) -> str:
    """Return the id of the access key that signed this request less than 15 minutes ago."""
    authorization = _parse_authorization(request.headers)
    for name in ALWAYS_SIGNED:
        _must_sign(authorization, name)
    # The target names the operation: unsigned, it could be replaced on the way.
    if "x-amz-target" in request.headers:
        _must_sign(authorization, "x-amz-target")
    stamp = request.headers.get("x-amz-date", "")
    _check_time(stamp, authorization, now)
    secret = find_secret(authorization.key_id)
    if secret is None:
        raise SignatureError(
            "UnrecognizedClientException", 400, "The security token included in the request is invalid."
        )
    digest = hashlib.sha256(_canonical(request, authorization).encode()).hexdigest()
    to_sign = "\n".join((ALGORITHM, stamp, authorization.scope, digest))
    expected = _hmac(_signing_key(secret, authorization.date, authorization.region), to_sign).hex()
    if not hmac.compare_digest(expected.encode(), authorization.signature.encode()):
        raise SignatureError(
            "InvalidSignatureException",
            403,
            "The request signature we calculated does not match the signature you provided. "
            "Check your secret access key and signing method.",
        )
    return authorization.key_id


def _parse_authorization(headers: Mapping[str, str]) -> _Authorization:
    header = headers.get("authorization")
    if not header:
        raise SignatureError("MissingAuthenticationTokenException", 403, "Request is missing Authentication Token")
    algorithm, _, rest = header.partition(" ")
    matches = [FIELD.fullmatch(part) for part in rest.split(",")]
    fields = {match[1]: match[2] for match in matches if match}
    if algorithm != ALGORITHM or len(fields) != 3 or len(matches) != 3:
        raise _incomplete(
            "the Authorization header has to be AWS4-HMAC-SHA256 with Credential, SignedHeaders, Signature"
        )
    scope = fields["Credential"].split("/")
    if len(scope) != 5 or scope[3:] != [SERVICE, TERMINATOR]:
        raise _incomplete(f"Credential has to end in <date>/<region>/{SERVICE}/{TERMINATOR}")
    key_id, date, region = scope[:3]
    return _Authorization(key_id, date, region, tuple(fields["SignedHeaders"].split(";")), fields["Signature"])


def _must_sign(authorization: _Authorization, name: str) -> None:
    if name not in authorization.signed_headers:
        raise _incomplete(f"'{name}' must be a signed header")


def _check_time(stamp: str, authorization: _Authorization, now: datetime) -> None:
    try:
        signed_at = datetime.strptime(stamp, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    except ValueError:
        raise _incomplete("X-Amz-Date has to be a time such as 20260131T235959Z") from None
    if stamp[:8] != authorization.date:
        raise SignatureError("InvalidSignatureException", 403, "Date in Credential scope does not match X-Amz-Date")
    if abs(now - signed_at) > SKEW:
        late = "expired" if signed_at < now else "not yet current"
        raise SignatureError(
            "InvalidSignatureException", 403, f"Signature {late}: {stamp} is more than 15 min from {now:%Y%m%dT%H%M%SZ}"
        )


def _canonical(request: SignedRequest, authorization: _Authorization) -> str:
    lines = [request.method, quote(request.path or "/", safe="/-_.~"), _query(request.query)]
    for name in authorization.signed_headers:
        if name not in request.headers:
            raise _incomplete(f"'{name[:40]}' was signed but is missing")
        lines.append(f"{name}:{' '.join(request.headers[name].split())}")
    lines += ["", ";".join(authorization.signed_headers), hashlib.sha256(request.body).hexdigest()]
    return "\n".join(lines)


def _query(query: str) -> str:
    pairs = sorted((quote(key, safe="-_.~"), quote(value, safe="-_.~")) for key, value in parse_qsl(query, True))
    return "&".join(f"{key}={value}" for key, value in pairs)


@lru_cache(maxsize=256)
def _signing_key(secret: str, date: str, region: str) -> bytes:
    key = ("AWS4" + secret).encode()
    for part in (date, region, SERVICE, TERMINATOR):
        key = _hmac(key, part)
    return key


def _hmac(key: bytes, text: str) -> bytes:
    return hmac.new(key, text.encode(), hashlib.sha256).digest()


def _incomplete(message: str) -> SignatureError:
    return SignatureError("IncompleteSignatureException", 400, message)


class AccessKeyCache:
    """Looks up access keys; a revoked one stays valid until it expires here, after 30 seconds at most."""

    def __init__(self, market: Market, seconds: Callable[[], float] = time.monotonic) -> None:
        self._market = market
        self._seconds = seconds
        self._found: dict[str, tuple[float, str, Requester]] = {}

    def secret(self, key_id: str) -> str | None:
        """Return the secret of a key, or None if it does not exist."""
        known = self._find(key_id)
        return known[1] if known else None

    def requester(self, key_id: str) -> Requester:
        """Return the requester whose key it is."""
        known = self._find(key_id)
        if known is None:
            raise LookupError("this access key does not exist")
        return known[2]

    def _find(self, key_id: str) -> tuple[float, str, Requester] | None:
        known = self._found.get(key_id)
        if known is not None and self._seconds() - known[0] < KEY_CACHE_SECONDS:
            return known
        with self._market.glance() as session:
            found = session.execute(
                select(AccessKey.secret, Requester)
                .join(Requester, Requester.id == AccessKey.requester_id)
                .where(AccessKey.id == key_id)
            ).one_or_none()
        if found is None:
            # Unknown keys are not cached: guessing them must not fill the memory.
            self._found.pop(key_id, None)
            return None
        known = self._found[key_id] = (self._seconds(), found[0], found[1])
        return known
