"""A connection to one endpoint through an unmodified boto3 client: with retries, and unable to pay without a token."""

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from botocore.parsers import ResponseParserError

from crowd.errors import CrowdAccessDenied, CrowdRefused, CrowdUnavailable, TokenExpired, TokenMissing
from crowd.port import Token
from crowd.retries import RetryPolicy
from mturk.error_mapping import AlreadyDone, crowd_error
from mturk.profile import MTURK

# MTurk's service model marks no member as an idempotency token, so boto3 would send these without one.
TOKEN_NEEDED = ("CreateHIT", "CreateHITWithHITType", "SendBonus", "CreateAdditionalAssignmentsForHIT")
LARGEST_PAGE = 100
# Retries are ours: botocore does not know about tokens. One socket for each thread that posts or pays.
NO_RETRIES = Config(
    connect_timeout=5,
    read_timeout=30,
    max_pool_connections=16,
    retries={"total_max_attempts": 1, "mode": "standard"},
)


@dataclass(frozen=True)
class Endpoint:
    """A marketplace's address, its name in our database, and our access key."""

    url: str
    access_key_id: str = field(repr=False)
    secret: str = field(repr=False)
    name: str = "mturk"
    region: str = "us-east-1"


def _now() -> datetime:
    return datetime.now(UTC)


class Connection:
    """Makes the calls of MTurk's protocol; a call that fails after its retries raises a CrowdError."""

    def __init__(self, client: Any, name: str, retries: RetryPolicy, now: Callable[[], datetime] = _now) -> None:
        self.name = name
        self._client = client
        self._retries = retries
        self._now = now
        self._methods = {operation: method for method, operation in client.meta.method_to_api_mapping.items()}
        for operation in TOKEN_NEEDED:
            client.meta.events.register(f"before-parameter-build.mturk.{operation}", _refuse_without_token)

    def call(self, operation: str, **members: Any) -> dict[str, Any]:
        """Make a call that can safely be repeated, and return the answer."""
        return self._retries.run(lambda: self._once(operation, members))

    def call_once(self, operation: str, token: Token, **members: Any) -> dict[str, Any]:
        """Make a call that creates or pays, once for its token; raise AlreadyDone if it was done before."""
        self.check(token)
        doubts: list[CrowdUnavailable] = []

        def send() -> dict[str, Any]:
            try:
                return self._once(operation, {**members, "UniqueRequestToken": token.key})
            except CrowdUnavailable as error:
                doubts.append(error)
                raise

        try:
            return self._retries.run(send, lambda: token.protects(self._now(), MTURK.token_lifetime))
        except AlreadyDone:
            raise
        except CrowdRefused as error:
            if not doubts:
                raise
            # The marketplace may check the balance before the token, so that the refusal may be a consequence of the
            # attempt whose answer was lost.
            raise CrowdUnavailable(f"{error}; an earlier attempt of the same call was not answered") from error

    def pages(self, operation: str, member: str, **members: Any) -> Iterator[dict[str, Any]]:
        """Yield the items of a listing, reading page after page as needed."""
        place: dict[str, str] = {}
        while True:
            page = self.call(operation, **members, **place, MaxResults=LARGEST_PAGE)
            yield from page.get(member, ())
            following = page.get("NextToken")
            if not following:
                return
            if following == place.get("NextToken"):
                raise CrowdRefused(f"{self.name} keeps sending the same page of {operation}")
            place = {"NextToken": following}

    def check(self, token: Token) -> None:
        """Raise an error for a token that is missing, malformed or expired."""
        if not token.key:
            raise TokenMissing(f"a call that creates or pays on {self.name} needs a token")
        longest = MTURK.limits.token_length
        if len(token.key) > longest or not token.key.isascii() or any(one in token.key for one in " \t\r\n[]"):
            raise CrowdRefused(f"a token has at most {longest} ASCII characters, without spaces and brackets")
        if not token.protects(self._now(), MTURK.token_lifetime):
            raise TokenExpired(f"the token {token.key} has expired; check {self.name} for it before sending again")

    def _once(self, operation: str, members: dict[str, Any]) -> dict[str, Any]:
        method = getattr(self._client, self._methods[operation])
        try:
            answer: dict[str, Any] = method(**members)
        except (BotoCoreError, ClientError, ResponseParserError) as error:
            raise crowd_error(error, self.name, operation) from error
        # For botocore any page with status 200, even a proxy's login form, is the empty answer that means "paid".
        if "json" not in answer["ResponseMetadata"]["HTTPHeaders"].get("content-type", ""):
            raise CrowdUnavailable(
                f"the answer to {operation} is not from {self.name}; check its address and any proxy"
            )
        return answer


def connect(
    endpoint: Endpoint,
    retries: RetryPolicy | None = None,
    now: Callable[[], datetime] = _now,
) -> Connection:
    """Return a connection for up to 16 threads; nothing is sent yet."""
    if not endpoint.access_key_id or not endpoint.secret:
        # Without keys boto3 would use any that it finds on this machine.
        raise CrowdAccessDenied(f"{endpoint.name} has no access key; set its id and its secret")
    keep_headers_out_of_logs()
    try:
        client = boto3.session.Session(
            aws_access_key_id=endpoint.access_key_id,
            aws_secret_access_key=endpoint.secret,
            region_name=endpoint.region,
        ).client("mturk", endpoint_url=endpoint.url, config=NO_RETRIES)
    except (BotoCoreError, ValueError) as error:
        raise CrowdRefused(f"{endpoint.url} is not a valid address; use https://host") from error
    return Connection(client, endpoint.name, retries or RetryPolicy(), now)


def _refuse_without_token(params: dict[str, Any], **_event: Any) -> None:
    if not params.get("UniqueRequestToken"):
        raise TokenMissing("a call that creates or pays has no token")


def keep_headers_out_of_logs() -> None:
    """Stop botocore from logging Authorization headers, which contain the key's id, at DEBUG."""
    logger = logging.getLogger("botocore")
    logger.setLevel(max(logging.INFO, logger.getEffectiveLevel()))
