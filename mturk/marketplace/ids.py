"""Ids as MTurk makes them: capitals and digits, not to be guessed; and what is stored of a secret."""

import hashlib
import secrets
import string

ALPHABET = string.ascii_uppercase + string.digits


def entity_id() -> str:
    """The id of a HIT, an assignment, a type or a qualification."""
    return "3" + _random(29)


def person_id() -> str:
    """The id of a worker or a requester."""
    return "A" + _random(13)


def access_key_id() -> str:
    """The public half of an access key."""
    return "AKIA" + _random(16)


def access_secret() -> str:
    """The secret half of an access key."""
    return secrets.token_urlsafe(30)


def hashed(token: str) -> str:
    """What is stored of a secret: it is random and long, so nobody can go back by guessing."""
    return hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()


def _random(length: int) -> str:
    return "".join(secrets.choice(ALPHABET) for _ in range(length))
