"""Proofs of acceptance: a marketplace signs the parameters with which it opens a HIT's page in its frame.

A page's parameters name an assignment and a worker, and anyone can invent both. A marketplace that shares a secret with
the requester can add a signature over all of them: only it can say which worker holds which assignment. The signature
is one more query parameter, which pages that do not know it ignore.

The key is derived from the secret of the requester's access key, which both sides have already. A marketplace signs
with every key of the requester, so that keys can be replaced while work is under way.
"""

import base64
import hashlib
import hmac
import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta

from crowd.errors import CrowdError

_KEY = b"outfox acceptance proof 1"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_SEPARATOR = "."
# A requester has one key, and two while one is replaced.
MOST_KEYS = 5
# The clocks of two machines differ.
LEEWAY = timedelta(minutes=1)


class ProofInvalid(CrowdError):
    """The proof of acceptance is missing, or is not the marketplace's signature over these parameters."""


class ProofExpired(CrowdError):
    """The proof of acceptance was valid until the assignment's deadline."""


def sign_acceptance(
    parameters: Mapping[str, str], secrets: Iterable[str], *, issued_at: datetime, expires_at: datetime
) -> str:
    """Return the proof for a page's query parameters, which each of the secrets verifies."""
    return _sign(sorted(parameters.items()), secrets, _KEY, issued_at, expires_at)


def verify_acceptance(proof: str, parameters: Mapping[str, str], secret: str, *, now: datetime) -> datetime:
    """Return when the proof was issued; `parameters` are those of the page without the proof itself."""
    return _verify(proof, sorted(parameters.items()), secret, _KEY, now)


def sign_text(text: str, secrets: Iterable[str], purpose: bytes, *, issued_at: datetime, expires_at: datetime) -> str:
    """Return a signature of a text for one purpose; signatures for different purposes are never the same."""
    return _sign([text], secrets, purpose, issued_at, expires_at)


def verify_text(signature: str, text: str, secret: str, purpose: bytes, *, now: datetime) -> datetime:
    """Return when a text was signed for this purpose, or raise ProofInvalid or ProofExpired."""
    return _verify(signature, [text], secret, purpose, now)


def _sign(
    content: Sequence[object], secrets: Iterable[str], purpose: bytes, issued_at: datetime, expires_at: datetime
) -> str:
    times = [str((at - _EPOCH) // _MICROSECOND) for at in (issued_at, expires_at)]
    signed = [_signature(secret, purpose, times, content) for secret in list(secrets)[:MOST_KEYS]]
    return _SEPARATOR.join([*times, *signed])


def _verify(proof: str, content: Sequence[object], secret: str, purpose: bytes, now: datetime) -> datetime:
    issued, expires, *signatures = proof.split(_SEPARATOR, maxsplit=MOST_KEYS + 1) + [""] * 2
    wanted = _signature(secret, purpose, [issued, expires], content)
    if not any(hmac.compare_digest(one.encode(errors="replace"), wanted.encode()) for one in signatures):
        raise ProofInvalid("the marketplace did not sign these parameters")
    if now > _time(expires) + LEEWAY:
        raise ProofExpired("the time of the assignment is over")
    return _time(issued)


def _signature(secret: str, purpose: bytes, times: list[str], content: Sequence[object]) -> str:
    key = hmac.digest(secret.encode(), purpose, hashlib.sha256)
    text = json.dumps([*times, *content])
    return base64.urlsafe_b64encode(hmac.digest(key, text.encode(), hashlib.sha256)).rstrip(b"=").decode()


def _time(microseconds: str) -> datetime:
    return _EPOCH + int(microseconds) * _MICROSECOND
