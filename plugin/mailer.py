"""A mailer that sends nothing: it logs that a message would be sent."""

import logging

from round_manager.mailer import Mail

_log = logging.getLogger(__name__)


class LogMailer:
    """Logs the recipient and the subject of each message; the text can contain what people typed and is not logged."""

    def send(self, mail: Mail) -> None:
        """Log the message."""
        _log.info("mail", extra={"data": {"to": mail.to, "subject": mail.subject}})
