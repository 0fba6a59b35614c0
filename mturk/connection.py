"""A connection to one endpoint through an unmodified boto3 client: with retries, and unable to pay without a token.

It maps the errors that boto3 raises to CrowdErrors; MTurk's error codes are known only here.
"""

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    NoCredentialsError,
    ParamValidationError,
    PartialCredentialsError,
)
from botocore.parsers import ResponseParserError

from crowd import errors
from crowd.port import Token
from mturk.profile import MTURK

FAMILY = "AWS.MechanicalTurk."
SERVER_FAULT = 500
TOO_MANY = 429
ACCESS_STATUSES = (401, 403)
THROTTLED = {
    "Throttling",
    "ThrottlingException",
    "ThrottledException",
    "RequestThrottled",
    "RequestThrottledException",
    "RequestLimitExceeded",
    "TooManyRequestsException",
    "SlowDown",
}
ACCESS_ERRORS = {
    "AccessDenied",
    "AccessDeniedException",
    "ExpiredTokenException",
    "IncompleteSignature",
    "IncompleteSignatureException",
    "InvalidClientTokenId",
    "InvalidSignatureException",
    "MissingAuthenticationToken",
    "MissingAuthenticationTokenException",
    "NotAuthorized",
    "OptInRequired",
    "PermissionDeniedException",
    "RequestExpired",
    "SignatureDoesNotMatch",
    "UnrecognizedClientException",
}
WRONG_STATES = {"HITAlreadyPassedReview", "HITTooOldForExtension", "InvalidMaximumAssignmentsIncrease"}
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


class AlreadyDone(errors.CrowdRefused):
    """The marketplace has already done this call."""


def crowd_error(error: Exception, crowd: str, operation: str) -> errors.CrowdError:
    """Return the CrowdError for a failed call; its message never contains an access key."""
    if isinstance(error, ClientError):
        return _from_response(error.response, crowd, operation)
    if isinstance(error, NoCredentialsError | PartialCredentialsError):
        return errors.CrowdAccessDenied(f"{crowd} has no access key; set its id and its secret")
    if isinstance(error, ParamValidationError):
        return errors.CrowdRefused(f"{operation} was not sent to {crowd}: {error}", "ParamValidation")
    if isinstance(error, BotoCoreError):
        kind = type(error).__name__
        return errors.CrowdUnavailable(
            f"{crowd} did not answer {operation} ({kind}); check that it is running at this address"
        )
    return errors.CrowdUnavailable(f"{crowd} sent an unreadable response to {operation}; check its address")


def _from_response(response: dict[str, Any], crowd: str, operation: str) -> errors.CrowdError:
    status = int(response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
    kind = str(response.get("Error", {}).get("Code", ""))
    # If a proxy answers instead of the marketplace, the message is its page.
    message = " ".join(str(response.get("Error", {}).get("Message", "")).split())[:300]
    full = str(response.get("TurkErrorCode") or kind)
    code = full.removeprefix(FAMILY)
    if kind in THROTTLED or code in THROTTLED or status == TOO_MANY:
        return errors.CrowdBusy(f"{crowd} limits the rate of {operation}; try again later")
    if status >= SERVER_FAULT:
        return errors.CrowdUnavailable(f"{crowd} failed at {operation} (HTTP {status}); try again later")
    if status in ACCESS_STATUSES or kind in ACCESS_ERRORS or code in ACCESS_ERRORS:
        # The message of the marketplace can contain the key's id.
        advice = "check the access key's id and secret, and this machine's clock"
        return errors.CrowdAccessDenied(f"{crowd} rejected the access key for {operation} ({code}); {advice}", full)
    return _refusal_class(code, message)(f"{crowd} refused {operation}: {message or code}", full)


def _refusal_class(code: str, message: str) -> type[errors.CrowdRefused]:
    if code.endswith("DoesNotExist"):
        return errors.NotOnCrowd
    if code == "InsufficientFunds":
        return errors.InsufficientFunds
    if code in WRONG_STATES or (code.startswith("Invalid") and code.endswith("State")):
        return errors.WrongCrowdState
    # MTurk does not document the error code of a repeated bonus, but its message is known.
    if code.endswith("AlreadyExists") or code == "DuplicateRequest" or "already been processed" in message:
        return AlreadyDone
    return errors.CrowdRefused


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

    def __init__(self, client: Any, name: str, retries: errors.RetryPolicy, now: Callable[[], datetime] = _now) -> None:
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
        doubts: list[errors.CrowdUnavailable] = []

        def send() -> dict[str, Any]:
            try:
                return self._once(operation, {**members, "UniqueRequestToken": token.key})
            except errors.CrowdUnavailable as error:
                doubts.append(error)
                raise

        try:
            return self._retries.run(send, lambda: token.protects(self._now(), MTURK.token_lifetime))
        except AlreadyDone:
            raise
        except errors.CrowdRefused as error:
            if not doubts:
                raise
            # The marketplace may check the balance before the token, so that the refusal may be a consequence of the
            # attempt whose answer was lost.
            raise errors.CrowdUnavailable(f"{error}; an earlier attempt of the same call was not answered") from error

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
                raise errors.CrowdRefused(f"{self.name} keeps sending the same page of {operation}")
            place = {"NextToken": following}

    def check(self, token: Token) -> None:
        """Raise an error for a token that is missing, malformed or expired."""
        if not token.key:
            raise errors.TokenMissing(f"a call that creates or pays on {self.name} needs a token")
        longest = MTURK.limits.token_length
        if len(token.key) > longest or not token.key.isascii() or any(one in token.key for one in " \t\r\n[]"):
            raise errors.CrowdRefused(f"a token has at most {longest} ASCII characters, without spaces and brackets")
        if not token.protects(self._now(), MTURK.token_lifetime):
            raise errors.TokenExpired(
                f"the token {token.key} has expired; check {self.name} for it before sending again"
            )

    def _once(self, operation: str, members: dict[str, Any]) -> dict[str, Any]:
        method = getattr(self._client, self._methods[operation])
        try:
            answer: dict[str, Any] = method(**members)
        except (BotoCoreError, ClientError, ResponseParserError) as error:
            raise crowd_error(error, self.name, operation) from error
        # For botocore any page with status 200, even a proxy's login form, is the empty answer that means "paid".
        if "json" not in answer["ResponseMetadata"]["HTTPHeaders"].get("content-type", ""):
            raise errors.CrowdUnavailable(
                f"the answer to {operation} is not from {self.name}; check its address and any proxy"
            )
        return answer


def connect(
    endpoint: Endpoint,
    retries: errors.RetryPolicy | None = None,
    now: Callable[[], datetime] = _now,
) -> Connection:
    """Return a connection for up to 16 threads; nothing is sent yet."""
    if not endpoint.access_key_id or not endpoint.secret:
        # Without keys boto3 would use any that it finds on this machine.
        raise errors.CrowdAccessDenied(f"{endpoint.name} has no access key; set its id and its secret")
    keep_headers_out_of_logs()
    try:
        client = boto3.session.Session(
            aws_access_key_id=endpoint.access_key_id,
            aws_secret_access_key=endpoint.secret,
            region_name=endpoint.region,
        ).client("mturk", endpoint_url=endpoint.url, config=NO_RETRIES)
    except (BotoCoreError, ValueError) as error:
        raise errors.CrowdRefused(f"{endpoint.url} is not a valid address; use https://host") from error
    return Connection(client, endpoint.name, retries or errors.RetryPolicy(), now)


def _refuse_without_token(params: dict[str, Any], **_event: Any) -> None:
    if not params.get("UniqueRequestToken"):
        raise errors.TokenMissing("a call that creates or pays has no token")


def keep_headers_out_of_logs() -> None:
    """Stop botocore from logging Authorization headers, which contain the key's id, at DEBUG."""
    logger = logging.getLogger("botocore")
    logger.setLevel(max(logging.INFO, logger.getEffectiveLevel()))
