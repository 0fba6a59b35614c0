"""How the worker's site writes money, spans of time and moments."""

from collections.abc import Callable
from datetime import date, datetime
from typing import Any

from markupsafe import Markup

from common.money import dollars
from common.text import count

DAY, HOUR, MINUTE = 86_400, 3_600, 60


def grouped(number: int) -> str:
    """Such as 1,234."""
    return f"{number:,}"


def duration(seconds: int) -> str:
    """The two largest units of it: 45 s, 10 min, 1 h 30 min, 3 days."""
    days, rest = divmod(seconds, DAY)
    hours, rest = divmod(rest, HOUR)
    minutes, rest = divmod(rest, MINUTE)
    units = [(days, count(days, "day")), (hours, f"{hours} h"), (minutes, f"{minutes} min"), (rest, f"{rest} s")]
    return " ".join([text for number, text in units if number][:2]) or "0 s"


def countdown(milliseconds: int) -> str:
    """1:02:03, or 02:03; begun seconds count, as in the script that counts on."""
    minutes, seconds = divmod(max(0, -(-milliseconds // 1_000)), MINUTE)
    hours, minutes = divmod(minutes, MINUTE)
    return f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes:02d}:{seconds:02d}"


def moment(at: datetime) -> Markup:
    """A time to the minute, in UTC until the script has put it into the visitor's zone."""
    return _time(at, "moment", f"{at:%b} {at.day}, {at:%H:%M}")


def day(at: datetime) -> Markup:
    """A date."""
    return _time(at, "day", f"{at:%b} {at.day}")


def weekday(on: date) -> str:
    """Such as Monday, Mar 1."""
    return f"{on:%A}, {on:%b} {on.day}"


def _time(at: datetime, kind: str, text: str) -> Markup:
    stamp = at.isoformat(timespec="seconds")
    return Markup('<time datetime="{}" data-as="{}" title="{} UTC">{}</time>').format(
        stamp, kind, f"{at:%Y-%m-%d %H:%M}", text
    )


FILTERS: dict[str, Callable[..., Any]] = {
    one.__name__: one for one in (dollars, grouped, count, duration, countdown, moment, day, weekday)
}
