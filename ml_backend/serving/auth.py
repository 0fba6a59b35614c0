"""Basic authentication, as Label Studio sends it to an ML backend."""

import binascii
import hmac
from base64 import b64decode
from hashlib import sha256

from ml_backend.errors import BackendError


class BasicAuth:
    """A user and a password that every request must carry."""

    def __init__(self, user: str, password: str) -> None:
        if not user or not password or ":" in user:
            raise BackendError("basic authentication needs a user without a colon, and a password; write user:password")
        self._expected = sha256(f"{user}:{password}".encode()).digest()

    def allows(self, header: str | None) -> bool:
        """Whether an Authorization header carries them; a wrong one takes as long as the right one."""
        scheme, _, value = (header or "").partition(" ")
        try:
            given = b64decode(value.strip(), validate=True) if scheme.lower() == "basic" else b""
        except (binascii.Error, ValueError):
            given = b""
        return hmac.compare_digest(sha256(given).digest(), self._expected)
