"""The port for e-mail: what the domain sends to owners, reviewers and vendors."""

from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True)
class Mail:
    """A plain-text message to one person."""

    to: str
    subject: str
    text: str = field(repr=False)


class Mailer(Protocol):
    """Sends e-mail."""

    def send(self, mail: Mail) -> None:
        """Send the message, or hand it to a server that does."""
        ...
