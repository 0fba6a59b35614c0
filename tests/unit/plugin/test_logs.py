import io
import json
import logging
from collections.abc import Iterator

import pytest

from plugin.logs import configure_logs


@pytest.fixture(autouse=True)
def _logging_as_it_was() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


def test_machines_get_one_json_object_per_event() -> None:
    stream = io.StringIO()
    configure_logs("info", "json", stream)
    logging.getLogger("outfox.test").info("paid", extra={"data": {"cents": 45, "worker": "w\n1"}})
    event = json.loads(stream.getvalue())
    assert event["event"] == "paid"
    assert (event["cents"], event["worker"], event["level"]) == (45, "w\n1", "info")
    assert event["time"].endswith("Z")


def test_people_get_one_line_per_event_whatever_text_it_has() -> None:
    stream = io.StringIO()
    configure_logs("info", "text", stream)
    logging.getLogger("outfox.test").info("text\n2026 info forged", extra={"data": {"worker": "w\n1"}})
    assert stream.getvalue().count("\n") == 1
    assert 'worker="w\\n1"' in stream.getvalue()


def test_events_below_the_level_are_not_logged() -> None:
    stream = io.StringIO()
    configure_logs("warning", "text", stream)
    logging.getLogger("outfox.test").info("quiet")
    assert stream.getvalue() == ""


def test_an_error_carries_its_traceback() -> None:
    stream = io.StringIO()
    configure_logs("info", "json", stream)
    try:
        raise ValueError("broken")
    except ValueError:
        logging.getLogger("outfox.test").exception("failed")
    assert "ValueError: broken" in json.loads(stream.getvalue())["error"]
