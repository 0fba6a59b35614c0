"""Structured logs: one line per event, for people as text, for machines as JSON.

Values go in as `extra={"data": {...}}`, never into the message; text that people typed goes in at DEBUG only.
"""

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Any, TextIO


def configure_logs(level: str, form: str, stream: TextIO | None = None) -> None:
    """From here on the process logs at this level, in this form, to standard error."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonLines() if form == "json" else TextLines())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    # Their INFO is about every request and every file, which is ours to say.
    for noisy in ("httpx", "httpcore", "urllib3", "werkzeug", "filelock", "alembic"):
        logging.getLogger(noisy).setLevel(max(logging.WARNING, logging.getLogger().level))


class JsonLines(logging.Formatter):
    """An event as one JSON object; values that JSON does not know become text."""

    def format(self, record: logging.LogRecord) -> str:
        event: dict[str, Any] = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": record.getMessage(),
            **getattr(record, "data", {}),
        }
        if record.exc_info:
            event["error"] = self.formatException(record.exc_info)
        return json.dumps(event, ensure_ascii=False, default=str)


class TextLines(logging.Formatter):
    """An event as one readable line, its values behind it as key=value."""

    def format(self, record: logging.LogRecord) -> str:
        values = "".join(
            f" {key}={json.dumps(value, ensure_ascii=False, default=str)}"
            for key, value in getattr(record, "data", {}).items()
        )
        # A line break in a message could forge a second event.
        message = record.getMessage().replace("\r", "\\r").replace("\n", "\\n")
        line = f"{_time(record)} {record.levelname.lower():7} {record.name}: {message}{values}"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


def _time(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
