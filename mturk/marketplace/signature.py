"""AWS Signature Version 4, verified: who signed a request, and that not a byte of it was changed since."""

import hashlib
import hmac
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from urllib.parse import parse_qsl, quote

ALGORITHM = "AWS4-HMAC-SHA256"
SERVICE = "mturk-requester"
TERMINATOR = "aws4_request"
SKEW = timedelta(minutes=15)
ALWAYS_SIGNED = ("host", "x-amz-date")
FIELD = re.compile(r"\s*(Credential|SignedHeaders|Signature)=([^,\s]+)\s*")


class NotSigned(Exception):
    """A request that nobody known signed; `kind` and `status` are AWS's own."""

    def __init__(self, kind: str, status: int, message: str) -> None:
        super().__init__(message)
        self.kind = kind
        self.status = status


@dataclass(frozen=True)
class SignedRequest:
    """What was signed; names of headers in lower case."""

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True)
class _Claim:
    key_id: str
    date: str
    region: str
    signed_headers: tuple[str, ...]
    signature: str

    @property
    def scope(self) -> str:
        return f"{self.date}/{self.region}/{SERVICE}/{TERMINATOR}"


def verify(request: SignedRequest, find_secret: Callable[[str], str | None], now: datetime) -> str:
    """The id of the access key that signed this request, within a quarter of an hour of now."""
    claim = _claim(request.headers)
    for name in ALWAYS_SIGNED:
        _must_sign(claim, name)
    # The target says what is asked for: unsigned, it could be exchanged on the way.
    if "x-amz-target" in request.headers:
        _must_sign(claim, "x-amz-target")
    stamp = request.headers.get("x-amz-date", "")
    _check_time(stamp, claim, now)
    secret = find_secret(claim.key_id)
    if secret is None:
        raise NotSigned("UnrecognizedClientException", 400, "The security token included in the request is invalid.")
    digest = hashlib.sha256(_canonical(request, claim).encode()).hexdigest()
    to_sign = "\n".join((ALGORITHM, stamp, claim.scope, digest))
    expected = _hmac(_signing_key(secret, claim.date, claim.region), to_sign).hex()
    if not hmac.compare_digest(expected.encode(), claim.signature.encode()):
        raise NotSigned(
            "InvalidSignatureException",
            403,
            "The request signature we calculated does not match the signature you provided. "
            "Check your secret access key and signing method.",
        )
    return claim.key_id


def _claim(headers: Mapping[str, str]) -> _Claim:
    header = headers.get("authorization")
    if not header:
        raise NotSigned("MissingAuthenticationTokenException", 403, "Request is missing Authentication Token")
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
    return _Claim(key_id, date, region, tuple(fields["SignedHeaders"].split(";")), fields["Signature"])


def _must_sign(claim: _Claim, name: str) -> None:
    if name not in claim.signed_headers:
        raise _incomplete(f"'{name}' must be a signed header")


def _check_time(stamp: str, claim: _Claim, now: datetime) -> None:
    try:
        signed_at = datetime.strptime(stamp, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    except ValueError:
        raise _incomplete("X-Amz-Date has to be a time such as 20260131T235959Z") from None
    if stamp[:8] != claim.date:
        raise NotSigned("InvalidSignatureException", 403, "Date in Credential scope does not match X-Amz-Date")
    if abs(now - signed_at) > SKEW:
        late = "expired" if signed_at < now else "not yet current"
        raise NotSigned(
            "InvalidSignatureException", 403, f"Signature {late}: {stamp} is more than 15 min from {now:%Y%m%dT%H%M%SZ}"
        )


def _canonical(request: SignedRequest, claim: _Claim) -> str:
    lines = [request.method, quote(request.path or "/", safe="/-_.~"), _query(request.query)]
    for name in claim.signed_headers:
        if name not in request.headers:
            raise _incomplete(f"'{name[:40]}' was signed and is not there")
        lines.append(f"{name}:{' '.join(request.headers[name].split())}")
    lines += ["", ";".join(claim.signed_headers), hashlib.sha256(request.body).hexdigest()]
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


def _incomplete(message: str) -> NotSigned:
    return NotSigned("IncompleteSignatureException", 400, message)
