"""Signatures of posts between processes of ours: who holds the secret sent this body, and not long ago."""

import hashlib
import hmac
from collections.abc import Mapping, Sequence

from plugin.errors import PluginError

TIME = "X-Outfox-Time"
SIGNATURE = "X-Outfox-Signature"
SECONDS_VALID = 300
_PURPOSE = b"outfox.post.1"


class BadSignature(PluginError):
    """A post that nobody who holds the secret has sent, or not lately."""

    code = "bad_signature"


def signed(secrets: Sequence[str], body: bytes, now: float) -> dict[str, str]:
    """The headers of a post; the last secret signs."""
    moment = str(int(now))
    return {TIME: moment, SIGNATURE: _signature(secrets[-1], moment, body)}


def check_signature(secrets: Sequence[str], headers: Mapping[str, str], body: bytes, now: float) -> None:
    """Nothing, or a BadSignature that says why; each of the secrets verifies."""
    moment, given = headers.get(TIME, ""), headers.get(SIGNATURE, "")
    if not moment or not given:
        raise BadSignature(f"the post is not signed; send {TIME} and {SIGNATURE}")
    wanted = [_signature(secret, moment, body).encode() for secret in secrets]
    if not any(hmac.compare_digest(one, given.encode("utf-8", "replace")) for one in wanted):
        raise BadSignature("the signature is wrong; give both processes the same OUTFOX_SECRET")
    # Only what was signed by us is looked at closer, so that it is a number of ours.
    if abs(now - int(moment)) > SECONDS_VALID:
        raise BadSignature(f"the post is more than {SECONDS_VALID} seconds old or early; set both machines' clocks")


def _signature(secret: str, moment: str, body: bytes) -> str:
    key = hmac.digest(secret.encode(), _PURPOSE, hashlib.sha256)
    return hmac.new(key, moment.encode("utf-8", "replace") + b"." + body, hashlib.sha256).hexdigest()
