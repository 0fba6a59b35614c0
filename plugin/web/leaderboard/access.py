"""Who may read a leaderboard: clients with a task's data token, or everyone if the task is public.

A browser shows its token once, in a form, and then has a cookie. The cookie is for one task, names the token by its key
and never contains the token itself; scripts cannot read it, other sites' forms do not send it, and revoking the token
ends it at once. A token in the address would end up in logs and histories, so none is read from there.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from flask import Request, Response
from itsdangerous import BadData, URLSafeTimedSerializer

from common.errors import Hint
from plugin.errors import PluginError
from plugin.web.middleware import bearer_token
from round_manager.services.context import ServiceContext
from round_manager.services.data_access import ReadableTask, read_task

COOKIE = "outfox_leaderboard"
SECONDS = 12 * 3600
_SESSION, _FORM = "outfox.leaderboard.session.1", "outfox.leaderboard.form.1"
FORM_FIELD = "form_token"


class FormOutdated(PluginError):
    """A form was sent from another site, or from a page that is outdated."""


@dataclass(frozen=True)
class Reader:
    """A client that may read a task's leaderboard; with the key of its token, if it has one."""

    task: ReadableTask
    has_cookie: bool

    @property
    def token(self) -> str:
        """The key of the client's token, empty without one."""
        return self.task.token


class BoardAccess:
    """Lets clients in by a token in the Authorization header or by the cookie. The last secret signs."""

    def __init__(self, secrets: Sequence[str], *, secure: bool) -> None:
        self._sessions = URLSafeTimedSerializer(list(secrets), salt=_SESSION)
        self._forms = URLSafeTimedSerializer(list(secrets), salt=_FORM)
        self._secure = secure

    def admit(self, context: ServiceContext, request: Request, task: str) -> Reader:
        """Return the client of a request; raise DataRefused if it may not read the task."""
        secret = bearer_token(request.headers.get("Authorization", ""))
        key = "" if secret else self._key(request, task)
        found = read_task(context, task, secret, key=key)
        return Reader(found, has_cookie=bool(key) and found.token == key)

    def sign_in(self, context: ServiceContext, request: Request, response: Response, task: str, secret: str) -> None:
        """Give the browser a cookie for a valid token; raise DataRefused for another."""
        self._check_site(request)
        found = read_task(context, task, secret.strip())
        if not found.token:
            # A public task is read without a token, but this one was meant for something.
            raise FormOutdated("this token is not valid for this task; ask the task's owner for another one")
        self._set(response, task, str(self._sessions.dumps([task, found.token])), SECONDS)

    def sign_out(self, request: Request, response: Response, task: str) -> None:
        """Remove the browser's cookie."""
        self._check_site(request)
        self._set(response, task, "", 0)

    def form_token(self, reader: Reader) -> str:
        """Return what a form of this client sends along, so that other sites cannot send it."""
        return str(self._forms.dumps([reader.task.name, reader.token]))

    def check_form(self, request: Request, reader: Reader) -> None:
        """Raise FormOutdated if a form does not come from this client's page; a header with a token needs none."""
        self._check_site(request)
        if not reader.has_cookie:
            return
        try:
            sent = self._forms.loads(request.form.get(FORM_FIELD, ""), max_age=SECONDS)
        except BadData:
            sent = None
        if sent != [reader.task.name, reader.token]:
            hint = Hint("list_data_tokens")
            raise FormOutdated("this page is outdated; load it again and send the form once more", hint=hint)

    def _key(self, request: Request, task: str) -> str:
        try:
            of_task, key = self._sessions.loads(request.cookies.get(COOKIE, ""), max_age=SECONDS)
        except (BadData, ValueError, TypeError):
            return ""
        return str(key) if of_task == task else ""

    def _check_site(self, request: Request) -> None:
        # Every current browser sends it; programs do not.
        if request.headers.get("Sec-Fetch-Site", "same-origin") not in ("same-origin", "none"):
            raise FormOutdated("this form was sent from another site; open the leaderboard itself")

    def _set(self, response: Response, task: str, value: str, seconds: int) -> None:
        response.set_cookie(
            COOKIE, value, max_age=seconds, path=f"/leaderboard/{task}", secure=self._secure, httponly=True,
            samesite="Lax",
        )  # fmt: skip
