"""Tokens in Authorization headers."""

SCHEME = "bearer"


def bearer_token(header: str) -> str:
    """The token that an Authorization header carries, none where it carries no such thing.

    The name of the scheme is written in any case (RFC 9110, 11.1).
    """
    scheme, _, token = header.partition(" ")
    return token.strip() if scheme.lower() == SCHEME else ""
