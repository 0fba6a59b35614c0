"""The port for e-mail to owners, reviewers and vendors, and an adapter that only logs."""

import logging
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


_log = logging.getLogger(__name__)


class LogMailer:
    """Logs the recipient and the subject of each message; the text can contain what people typed and is not logged."""

    def send(self, mail: Mail) -> None:
        """Log the message."""
        _log.info("mail", extra={"data": {"to": mail.to, "subject": mail.subject}})
