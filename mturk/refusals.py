"""What boto3 raises, in our words; the only place where MTurk's error codes are known."""

from typing import Any

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    NoCredentialsError,
    ParamValidationError,
    PartialCredentialsError,
)

from mturk.errors import (
    CrowdBusy,
    CrowdError,
    CrowdRefused,
    CrowdUnavailable,
    NoFunds,
    NotAllowed,
    UnknownToCrowd,
    WrongState,
)

FAMILY = "AWS.MechanicalTurk."
SERVER_FAULT = 500
TOO_MANY = 429
KEYS_REFUSED = (401, 403)
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
KEY_TROUBLE = {
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
STATES = {"HITAlreadyPassedReview", "HITTooOldForExtension", "InvalidMaximumAssignmentsIncrease"}


class Repeated(CrowdRefused):
    """The marketplace has done this before: what was asked for is there already."""

    code = "repeated"


def in_our_words(error: Exception, crowd: str, operation: str) -> CrowdError:
    """The CrowdError that says what a failed call means; never with a key in it."""
    if isinstance(error, ClientError):
        return _answered(error.response, crowd, operation)
    if isinstance(error, NoCredentialsError | PartialCredentialsError):
        return NotAllowed(f"there is no access key for {crowd}; set its id and its secret")
    if isinstance(error, ParamValidationError):
        return CrowdRefused(f"{operation} was not sent to {crowd}: {error}", "ParamValidation")
    if isinstance(error, BotoCoreError):
        kind = type(error).__name__
        return CrowdUnavailable(f"{crowd} did not answer {operation} ({kind}); check its address and that it runs")
    return CrowdUnavailable(f"{crowd} answered {operation} with something unreadable; check its address")


def _answered(response: dict[str, Any], crowd: str, operation: str) -> CrowdError:
    status = int(response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
    kind = str(response.get("Error", {}).get("Code", ""))
    # Where a proxy answers instead of the marketplace, its page stands in place of a message.
    said = " ".join(str(response.get("Error", {}).get("Message", "")).split())[:300]
    full = str(response.get("TurkErrorCode") or kind)
    code = full.removeprefix(FAMILY)
    if kind in THROTTLED or code in THROTTLED or status == TOO_MANY:
        return CrowdBusy(f"{crowd} asks us to slow down at {operation}; try again later")
    if status >= SERVER_FAULT:
        return CrowdUnavailable(f"{crowd} failed at {operation} (HTTP {status}); try again later")
    if status in KEYS_REFUSED or kind in KEY_TROUBLE or code in KEY_TROUBLE:
        # What the other side says here can hold the key's id.
        advice = "check the access key's id and secret, and this machine's clock"
        return NotAllowed(f"{crowd} does not accept our access key for {operation} ({code}); {advice}", full)
    return _kind(code, said)(f"{crowd} refused {operation}: {said or code}", full)


def _kind(code: str, said: str) -> type[CrowdRefused]:
    if code.endswith("DoesNotExist"):
        return UnknownToCrowd
    if code == "InsufficientFunds":
        return NoFunds
    if code in STATES or (code.startswith("Invalid") and code.endswith("State")):
        return WrongState
    # The code of a repeated bonus or extension is written down nowhere; what MTurk says to it is known.
    if code.endswith("AlreadyExists") or code == "DuplicateRequest" or "already been processed" in said:
        return Repeated
    return CrowdRefused
