"""Inquiries: what a marketplace asks a requester's web app, so that workers see work, money and outcomes as they are.

A marketplace knows HITs and payments, and nothing of what is inside: whether a HIT still holds work for this worker,
which bonus is possible, what became of the examples that were submitted. Our marketplace may ask. Its operator stores
the address of a requester's web app; it then posts a small JSON document to `PATH` there, signed like a proof of
acceptance. Everything is optional: an inquiry that fails or comes too late is as good as none, an answer may leave out
HITs and assignments that it does not know, and neither side depends on fields that it does not know.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from crowd.errors import CrowdError
from crowd.proof import sign_text, verify_text

PATH = "/crowd/inquiries"
SIGNATURE = "X-Outfox-Inquiry"
_KEY = b"outfox inquiry 1"
# An inquiry is answered at once.
LIFETIME = timedelta(seconds=30)
MOST_HITS, MOST_ASSIGNMENTS, MOST_BYTES = 500, 100, 100_000
LONGEST_ID, LONGEST_TEXT = 255, 300


class InquiryUnreadable(CrowdError):
    """An inquiry or its answer is not the document that it should be."""


@dataclass(frozen=True)
class Inquiry:
    """Which of these HITs hold work for the worker, and what became of these assignments of theirs.

    `held` are all HITs of this requester that the worker has accepted and not submitted.
    """

    worker_id: str
    hits: tuple[str, ...] = ()
    held: tuple[str, ...] = ()
    assignments: tuple[str, ...] = ()

    def to_json(self) -> bytes:
        """Return the body of the request."""
        names = {"worker": self.worker_id, "hits": self.hits, "held": self.held, "assignments": self.assignments}
        return json.dumps(names).encode()

    @classmethod
    def from_json(cls, body: bytes) -> "Inquiry":
        """Return the inquiry of a request's body, or raise InquiryUnreadable."""
        found = _object(body)
        worker = found.get("worker")
        if not isinstance(worker, str) or not 0 < len(worker) <= LONGEST_ID:
            raise InquiryUnreadable("the inquiry names no worker")
        hits, held = _ids(found.get("hits"), MOST_HITS), _ids(found.get("held"), MOST_HITS)
        return cls(worker, hits, held, _ids(found.get("assignments"), MOST_ASSIGNMENTS))


@dataclass(frozen=True)
class HitOffer:
    """Whether a HIT can be offered to the worker; if not, `code` says why.

    `bonus_cents` is the most that it can earn beyond its reward; `finish` are held HITs of which one must be finished
    or returned first.
    """

    is_available: bool
    code: str = ""
    bonus_cents: int = 0
    finish: tuple[str, ...] = ()


@dataclass(frozen=True)
class ExampleOutcome:
    """What became of one example: its text, an outcome's code, and the bonus that it earns or may earn."""

    text: str = field(repr=False)
    outcome: str
    bonus_cents: int = 0


@dataclass(frozen=True)
class InquiryAnswer:
    """Offers by HIT, outcomes by assignment, and what all undecided examples of the worker may earn together."""

    offers: Mapping[str, HitOffer] = field(default_factory=dict)
    outcomes: Mapping[str, tuple[ExampleOutcome, ...]] = field(default_factory=dict)
    waiting_examples: int = 0
    waiting_cents: int = 0

    def as_data(self) -> dict[str, Any]:
        """Return the answer as it is sent."""
        return {
            "offers": {
                hit: {
                    "available": one.is_available,
                    "code": one.code,
                    "bonus_cents": one.bonus_cents,
                    "finish": one.finish,
                }
                for hit, one in self.offers.items()
            },
            "outcomes": {
                assignment: [
                    {"text": one.text, "outcome": one.outcome, "bonus_cents": one.bonus_cents} for one in examples
                ]
                for assignment, examples in self.outcomes.items()
            },
            "waiting": {"examples": self.waiting_examples, "cents": self.waiting_cents},
        }

    @classmethod
    def from_json(cls, body: bytes) -> "InquiryAnswer":
        """Return the answer of a response's body, or raise InquiryUnreadable."""
        found = _object(body)
        try:
            offers = {
                hit: HitOffer(
                    one["available"] is not False, str(one.get("code", "")), _cents(one), _ids(one.get("finish"))
                )
                for hit, one in found.get("offers", {}).items()
            }
            outcomes = {
                assignment: tuple(
                    ExampleOutcome(str(one["text"])[:LONGEST_TEXT], str(one["outcome"]), _cents(one))
                    for one in examples
                )
                for assignment, examples in found.get("outcomes", {}).items()
            }
            waiting = found.get("waiting", {})
            return cls(offers, outcomes, int(waiting.get("examples", 0)), int(waiting.get("cents", 0)))
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise InquiryUnreadable("the answer to an inquiry has another form") from error


def sign_inquiry(body: bytes, secrets: Iterable[str], *, now: datetime) -> str:
    """Return the signature of an inquiry, which each of the secrets verifies."""
    return sign_text(body.decode(), secrets, _KEY, issued_at=now, expires_at=now + LIFETIME)


def verify_inquiry(signature: str, body: bytes, secret: str, *, now: datetime) -> None:
    """Raise ProofInvalid or ProofExpired unless the marketplace signed this inquiry just now."""
    verify_text(signature, body.decode(errors="replace"), secret, _KEY, now=now)


def _object(body: bytes) -> dict[str, Any]:
    try:
        found = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise InquiryUnreadable("this is not JSON") from error
    if not isinstance(found, dict):
        raise InquiryUnreadable("this is not a JSON object")
    return found


def _ids(given: Any, most: int = MOST_HITS) -> tuple[str, ...]:
    if given is None:
        return ()
    found: Sequence[Any] = given if isinstance(given, list) and len(given) <= most else [None]
    if not all(isinstance(one, str) and len(one) <= LONGEST_ID for one in found):
        raise InquiryUnreadable(f"a list of at most {most} ids is expected")
    return tuple(found)


def _cents(one: Mapping[str, Any]) -> int:
    return max(0, int(one.get("bonus_cents", 0)))
