"""One marketplace's endpoint through an unmodified boto3 client: patient, and unable to pay without a token."""

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from botocore.parsers import ResponseParserError

from mturk.crowd import LONGEST_TOKEN, Token
from mturk.errors import CrowdRefused, CrowdUnavailable, NotAllowed, TokenExpired, TokenMissing
from mturk.patience import Patience
from mturk.refusals import Repeated, in_our_words

# MTurk's model marks no member as an idempotency token, so boto3 sends these happily without one.
TOKEN_NEEDED = ("CreateHIT", "CreateHITWithHITType", "SendBonus", "CreateAdditionalAssignmentsForHIT")
LARGEST_PAGE = 100
# Patience tries again, not botocore, which knows no tokens; as many sockets as threads that post and pay.
ONE_TRY = Config(
    connect_timeout=5,
    read_timeout=30,
    max_pool_connections=16,
    retries={"total_max_attempts": 1, "mode": "standard"},
)


@dataclass(frozen=True)
class Endpoint:
    """Where a marketplace answers, what we call it, and the access key that it knows us by."""

    url: str
    access_key_id: str = field(repr=False)
    secret: str = field(repr=False)
    name: str = "mturk"
    region: str = "us-east-1"


def _now() -> datetime:
    return datetime.now(UTC)


class Connection:
    """Calls of the protocol, each answered, or failed in our words once its patience has ended."""

    def __init__(self, client: Any, name: str, patience: Patience, now: Callable[[], datetime] = _now) -> None:
        self.name = name
        self._client = client
        self._patience = patience
        self._now = now
        self._methods = {operation: method for method, operation in client.meta.method_to_api_mapping.items()}
        for operation in TOKEN_NEEDED:
            client.meta.events.register(f"before-parameter-build.mturk.{operation}", _refuse_without_token)

    def call(self, operation: str, **members: Any) -> dict[str, Any]:
        """The answer to a call that can be made again without harm."""
        return self._patience.ask(lambda: self._once(operation, members))

    def call_once(self, operation: str, token: Token, **members: Any) -> dict[str, Any]:
        """The answer to a call that creates or pays, done once for its token; Repeated, where it was done before."""
        self.check(token)
        doubts: list[CrowdUnavailable] = []

        def ask() -> dict[str, Any]:
            try:
                return self._once(operation, {**members, "UniqueRequestToken": token.key})
            except CrowdUnavailable as error:
                doubts.append(error)
                raise

        try:
            return self._patience.ask(ask, lambda: token.protects(self._now()))
        except Repeated:
            raise
        except CrowdRefused as error:
            if not doubts:
                raise
            # Whether the token or, say, the balance is looked at first is the marketplace's affair: the no may be an
            # effect of the try whose answer was lost.
            raise CrowdUnavailable(f"{error}; an earlier try of the same call was not answered") from error

    def pages(self, operation: str, member: str, **members: Any) -> Iterator[dict[str, Any]]:
        """Everything that a listing holds, page after page, as far as somebody reads."""
        place: dict[str, str] = {}
        while True:
            page = self.call(operation, **members, **place, MaxResults=LARGEST_PAGE)
            yield from page.get(member, ())
            following = page.get("NextToken")
            if not following:
                return
            if following == place.get("NextToken"):
                raise CrowdRefused(f"{self.name} sends the same page of {operation} for ever; tell its owner")
            place = {"NextToken": following}

    def check(self, token: Token) -> None:
        """Refuses a token that is none, or that protects no longer."""
        if not token.key:
            raise TokenMissing(f"nothing is created or paid on {self.name} without a token")
        if len(token.key) > LONGEST_TOKEN or not token.key.isascii() or any(one in token.key for one in " \t\r\n[]"):
            raise CrowdRefused(f"a token has up to {LONGEST_TOKEN} plain characters, without spaces and brackets")
        if not token.protects(self._now()):
            raise TokenExpired(
                f"the token {token.key} protects no longer; look whether {self.name} has it, then decide"
            )

    def _once(self, operation: str, members: dict[str, Any]) -> dict[str, Any]:
        method = getattr(self._client, self._methods[operation])
        try:
            answer: dict[str, Any] = method(**members)
        except (BotoCoreError, ClientError, ResponseParserError) as error:
            raise in_our_words(error, self.name, operation) from error
        # botocore takes any page with status 200, a proxy's login form too, for the empty answer that means "paid".
        if "json" not in answer["ResponseMetadata"]["HTTPHeaders"].get("content-type", ""):
            raise CrowdUnavailable(f"what answered {operation} is not {self.name}; check its address, and for a proxy")
        return answer


def connect(
    endpoint: Endpoint,
    patience: Patience | None = None,
    now: Callable[[], datetime] = _now,
) -> Connection:
    """A connection for up to 16 threads at once; nothing is asked yet."""
    if not endpoint.access_key_id or not endpoint.secret:
        # Without them boto3 would take whatever keys it finds on this machine.
        raise NotAllowed(f"there is no access key for {endpoint.name}; set its id and its secret")
    keep_headers_out_of_logs()
    try:
        client = boto3.session.Session(
            aws_access_key_id=endpoint.access_key_id,
            aws_secret_access_key=endpoint.secret,
            region_name=endpoint.region,
        ).client("mturk", endpoint_url=endpoint.url, config=ONE_TRY)
    except (BotoCoreError, ValueError) as error:
        raise CrowdRefused(f"{endpoint.url} is no marketplace's address; write https://host or such") from error
    return Connection(client, endpoint.name, patience or Patience(), now)


def _refuse_without_token(params: dict[str, Any], **_event: Any) -> None:
    if not params.get("UniqueRequestToken"):
        raise TokenMissing("a call that creates or pays was about to be sent without its token")


def keep_headers_out_of_logs() -> None:
    """At DEBUG botocore logs every request's Authorization header, and the key's id with it."""
    logger = logging.getLogger("botocore")
    logger.setLevel(max(logging.INFO, logger.getEffectiveLevel()))
