"""Signed verdicts: what a worker saw can be carried by a browser and still be believed."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from itsdangerous import BadData, URLSafeSerializer

from ml_backend.errors import VerdictError
from ml_backend.verdict import ModelSaid, Verdict

SHORTEST_SECRET = 32
_SALT = "outfox.verdict.1"


class VerdictSigner:
    """Signs verdicts for one holder and believes only its own; the last secret signs, older ones still verify.

    The holder is whom the verdict was shown to (an assignment, a session): a verdict copied to another is refused.
    """

    def __init__(self, secrets: Sequence[str]) -> None:
        if not secrets or any(len(secret) < SHORTEST_SECRET for secret in secrets):
            raise VerdictError(f"a signing secret needs at least {SHORTEST_SECRET} characters; see `outfox doctor`")
        self._serializer = URLSafeSerializer(list(secrets), salt=_SALT)

    def sign(self, verdict: Verdict, holder: str) -> str:
        """The verdict as a token that a browser may carry."""
        said = [
            [one.version, one.prediction, one.confidence, dict(one.probabilities), one.fooled] for one in verdict.said
        ]
        about = [str(verdict.id), verdict.task, verdict.inputs_hash, verdict.target]
        body = [holder, *about, said, verdict.fooled, verdict.judged_at.isoformat()]
        return str(self._serializer.dumps(body))

    def read(self, token: str, holder: str, *, now: datetime, max_age: timedelta) -> Verdict:
        """The verdict in a token, if we signed it, for this holder, and not longer ago than max_age."""
        try:
            body: list[Any] = self._serializer.loads(token)
        except BadData as error:
            raise VerdictError("this verdict was not signed here, or was changed on the way") from error
        signed_for, own_id, task, inputs, target, said, fooled, when = body
        if signed_for != holder:
            raise VerdictError("this verdict was given to somebody else")
        judged_at = datetime.fromisoformat(when)
        if not timedelta(0) <= now - judged_at <= max_age:
            raise VerdictError("this verdict is too old; ask the model again")
        models = tuple(ModelSaid(*one) for one in said)
        return Verdict(UUID(own_id), task, inputs, target, models, fooled, judged_at)
