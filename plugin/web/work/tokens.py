"""Tokens: what a page shows with each call in place of a cookie, which a frame of another site would not be sent."""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from itsdangerous import BadData, URLSafeSerializer

from plugin.web.bearer import bearer_token
from plugin.web.work.errors import PageGone

_SALT = "outfox.work.1"
_GONE = "this page is not known here; open the HIT again on the marketplace"


@dataclass(frozen=True)
class PageHeld:
    """What a token stands for: a session, and where its HIT is handed in.

    The marketplace names that place anew each time the HIT is accepted, so it belongs to the page and not the session.
    """

    session: UUID
    submit_to: str


class PageTokens:
    """Makes tokens, and believes only its own; the last secret signs, older ones still verify."""

    def __init__(self, secrets: Sequence[str]) -> None:
        self._serializer = URLSafeSerializer(list(secrets), salt=_SALT)

    def make(self, page: PageHeld) -> str:
        """The token of a page."""
        return str(self._serializer.dumps([page.session.hex, page.submit_to]))

    def read(self, authorization: str) -> PageHeld:
        """The page whose token an Authorization header holds, or a PageGone."""
        try:
            session, submit_to = self._serializer.loads(bearer_token(authorization))
            return PageHeld(UUID(session), str(submit_to))
        except (BadData, ValueError) as error:
            raise PageGone(_GONE) from error
