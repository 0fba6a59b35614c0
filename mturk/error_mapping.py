"""Maps the errors that boto3 raises to CrowdErrors; MTurk's error codes are known only here."""

from typing import Any

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    NoCredentialsError,
    ParamValidationError,
    PartialCredentialsError,
)

from crowd.errors import (
    CrowdAccessDenied,
    CrowdBusy,
    CrowdError,
    CrowdRefused,
    CrowdUnavailable,
    InsufficientFunds,
    NotOnCrowd,
    WrongCrowdState,
)

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


class AlreadyDone(CrowdRefused):
    """The marketplace has already done this call."""

    code = "already_done"


def crowd_error(error: Exception, crowd: str, operation: str) -> CrowdError:
    """Return the CrowdError for a failed call; its message never contains an access key."""
    if isinstance(error, ClientError):
        return _from_response(error.response, crowd, operation)
    if isinstance(error, NoCredentialsError | PartialCredentialsError):
        return CrowdAccessDenied(f"{crowd} has no access key; set its id and its secret")
    if isinstance(error, ParamValidationError):
        return CrowdRefused(f"{operation} was not sent to {crowd}: {error}", "ParamValidation")
    if isinstance(error, BotoCoreError):
        kind = type(error).__name__
        return CrowdUnavailable(
            f"{crowd} did not answer {operation} ({kind}); check that it is running at this address"
        )
    return CrowdUnavailable(f"{crowd} sent an unreadable response to {operation}; check its address")


def _from_response(response: dict[str, Any], crowd: str, operation: str) -> CrowdError:
    status = int(response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
    kind = str(response.get("Error", {}).get("Code", ""))
    # If a proxy answers instead of the marketplace, the message is its page.
    message = " ".join(str(response.get("Error", {}).get("Message", "")).split())[:300]
    full = str(response.get("TurkErrorCode") or kind)
    code = full.removeprefix(FAMILY)
    if kind in THROTTLED or code in THROTTLED or status == TOO_MANY:
        return CrowdBusy(f"{crowd} limits the rate of {operation}; try again later")
    if status >= SERVER_FAULT:
        return CrowdUnavailable(f"{crowd} failed at {operation} (HTTP {status}); try again later")
    if status in ACCESS_STATUSES or kind in ACCESS_ERRORS or code in ACCESS_ERRORS:
        # The message of the marketplace can contain the key's id.
        advice = "check the access key's id and secret, and this machine's clock"
        return CrowdAccessDenied(f"{crowd} rejected the access key for {operation} ({code}); {advice}", full)
    return _refusal_class(code, message)(f"{crowd} refused {operation}: {message or code}", full)


def _refusal_class(code: str, message: str) -> type[CrowdRefused]:
    if code.endswith("DoesNotExist"):
        return NotOnCrowd
    if code == "InsufficientFunds":
        return InsufficientFunds
    if code in WRONG_STATES or (code.startswith("Invalid") and code.endswith("State")):
        return WrongCrowdState
    # MTurk does not document the error code of a repeated bonus, but its message is known.
    if code.endswith("AlreadyExists") or code == "DuplicateRequest" or "already been processed" in message:
        return AlreadyDone
    return CrowdRefused
