"""Sign-in of workers: join links, cookies, CSRF tokens, the account page and signing out."""

import hmac
import secrets
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from flask import Blueprint, Response, g, make_response, redirect, render_template, request, url_for
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from mturk.marketplace import credentials, errors, worker_actions
from mturk.marketplace.market import Market
from mturk.marketplace.site import texts
from mturk.marketplace.site.texts import SiteError
from mturk.marketplace.tables.people import Login, Message, Worker
from mturk.marketplace.tables.work import Assignment

COOKIE = "outfox_worker"
JOINING = "outfox_joining"
MAX_WRONG_LINKS = 20
WRONG_LINKS_PERIOD = timedelta(minutes=1)
MAX_ADDRESSES = 10_000


@dataclass(frozen=True)
class Visitor:
    """A signed-in worker, with what the header of every page shows."""

    worker_id: str
    name: str
    country: str
    csrf: str
    keeps_going: bool
    held: int
    unread: int


class LinkGuessLimiter:
    """Limits how many unknown sign-in links one network address may try, so that guessing stays cheap for us."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        self._now = now
        self._attempts: OrderedDict[str, deque[datetime]] = OrderedDict()

    def check(self, address: str) -> None:
        """Refuse an address that tried too many."""
        attempts = self._attempts.get(address)
        if attempts is not None and len(attempts) == MAX_WRONG_LINKS and self._now() - attempts[0] < WRONG_LINKS_PERIOD:
            raise SiteError(texts.TOO_MANY_WRONG_LINKS)

    def count(self, address: str) -> None:
        """Count one more."""
        self._attempts.setdefault(address, deque(maxlen=MAX_WRONG_LINKS)).append(self._now())
        self._attempts.move_to_end(address)
        while len(self._attempts) > MAX_ADDRESSES:
            self._attempts.popitem(last=False)


class SiteAuth:
    """Identifies visitors by a cookie, which is HttpOnly and, if the site uses TLS, Secure."""

    def __init__(self, market: Market, public_url: str) -> None:
        self.market = market
        self.public_url = public_url
        self._secure = public_url.startswith("https://")
        # Browsers accept a __Host- cookie only over TLS from this host, so no other host can set it.
        prefix = "__Host-" if self._secure else ""
        self._cookie, self._joining = prefix + COOKIE, prefix + JOINING
        self._wrong_links = LinkGuessLimiter(market.now)

    def visitor(self) -> Visitor | None:
        """Return the signed-in worker or None, looked up once per request."""
        if "visitor" not in g:
            g.visitor = self._look_up()
        visitor: Visitor | None = g.visitor
        return visitor

    def require_visitor(self) -> Visitor:
        """Return the signed-in worker; end the request if there is none."""
        visitor = self.visitor()
        if visitor is None:
            raise SiteError(texts.SIGNED_OUT)
        return visitor

    def require_form(self) -> Visitor:
        """Return the signed-in worker who sends a form; end the request if its CSRF token is wrong."""
        visitor = self.require_visitor()
        if not hmac.compare_digest(request.form.get("csrf", "").encode(), visitor.csrf.encode()):
            raise SiteError(texts.OLD_FORM)
        return visitor

    def set_keeps_going(self, *, keeps_going: bool) -> None:
        """Store whether this browser accepts the next task after one is submitted."""
        with self.market.write() as session:
            found = credentials.find_login(session, self._token(), self.market.now())
            if found:
                found.keeps_going = keeps_going

    def renew(self, response: Response) -> None:
        """Extend the cookie of a login that is in use."""
        if g.get("renews", False) and not response.headers.getlist("Set-Cookie"):
            self._set(response, self._cookie, self._token(), credentials.LOGIN_LIFE)

    def submit_secret(self, assignment: Assignment) -> str:
        """Return the secret that submits an acceptance from this browser."""
        return credentials.submit_secret(self._token(), assignment.id, assignment.accepted_at or self.market.now())

    def blueprint(self) -> Blueprint:
        """Return the pages for signing in and out, and the account."""
        pages = Blueprint("auth", __name__)
        pages.add_url_rule("/join/<token>", "join", self._show_link)
        pages.add_url_rule("/join/<token>", "joined", self._join, methods=["POST"])
        pages.add_url_rule("/account", "account", self._account)
        pages.add_url_rule("/account/link", "device_link", self._device_link, methods=["POST"])
        pages.add_url_rule("/sign-out", "sign_out", self._sign_out, methods=["POST"])
        return pages

    def _look_up(self) -> Visitor | None:
        token, now = self._token(), self.market.now()
        if not token:
            return None
        with self.market.read() as session:
            found = credentials.find_login(session, token, now)
            visitor = _visitor(session, found, token, now) if found else None
        if found and now - found.seen_at > credentials.LOGIN_USE_INTERVAL:
            with self.market.write() as session:
                credentials.record_login_use(session, token, now)
            g.renews = True
        return visitor

    def _token(self) -> str:
        return request.cookies.get(self._cookie, "")

    def _show_link(self, token: str) -> Response:
        """Show the link without using it up: programs that preview links do not press buttons."""
        owner = self._link_owner(token)
        # One value for all open pages, so that each of them works.
        csrf = request.cookies.get(self._joining) or secrets.token_urlsafe(16)
        response = make_response(render_template("join.html", name=owner.name, csrf=csrf))
        # Otherwise another site could sign a visitor in as another worker.
        self._set(response, self._joining, csrf, timedelta(hours=1))
        return response

    def _join(self, token: str) -> Any:
        self._link_owner(token)
        csrf = request.cookies.get(self._joining, "")
        if not csrf or not hmac.compare_digest(request.form.get("csrf", "").encode(), csrf.encode()):
            raise SiteError(texts.OLD_FORM)
        with self.market.write() as session:
            if self._token():
                credentials.sign_out(session, self._token())
            login_token = credentials.use_link(session, token, self.market.now())
        response = redirect(url_for("work.find", said="welcome"), 303)
        self._set(response, self._cookie, login_token, credentials.LOGIN_LIFE)
        response.delete_cookie(self._joining, secure=self._secure, httponly=True, samesite="Lax")
        return response

    def _link_owner(self, token: str) -> credentials.LinkOwner:
        address = request.remote_addr or ""
        try:
            with self.market.glance() as session:
                return credentials.read_link(session, token, self.market.now())
        except errors.LinkNotFound:
            # Only here, so that valid links from the same address still work.
            self._wrong_links.check(address)
            self._wrong_links.count(address)
            raise

    def _account(self, link: str = "") -> str:
        visitor = self.require_visitor()
        with self.market.glance() as session:
            devices = credentials.count_devices(session, visitor.worker_id, self.market.now())
        return render_template("account.html", here="account", devices=devices, link=link)

    def _device_link(self) -> str:
        visitor = self.require_form()
        with self.market.write() as session:
            token = credentials.create_link(session, visitor.worker_id, self.market.now(), credentials.DEVICE_LINK_LIFE)
        return self._account(f"{self.public_url}/join/{token}")

    def _sign_out(self) -> Any:
        visitor = self.require_form()
        with self.market.write() as session:
            if request.form.get("others"):
                credentials.sign_out_others(session, self._token(), visitor.worker_id)
                return redirect(url_for("auth.account", said="elsewhere"), 303)
            credentials.sign_out(session, self._token())
        response = redirect(url_for("work.find"), 303)
        response.delete_cookie(self._cookie, secure=self._secure, httponly=True, samesite="Lax")
        return response

    def _set(self, response: Any, name: str, value: str, life: timedelta) -> None:
        response.set_cookie(name, value, max_age=life, secure=self._secure, httponly=True, samesite="Lax", path="/")


def _visitor(session: Session, found: Login, token: str, now: datetime) -> Visitor:
    worker = session.get_one(Worker, found.worker_id)
    unread = select(func.count()).where(Message.worker_id == worker.id, Message.read_at.is_(None))
    return Visitor(
        worker_id=worker.id,
        name=worker.name,
        country=worker.country,
        csrf=credentials.csrf_token(token),
        keeps_going=found.keeps_going,
        held=len(worker_actions.held_assignments(session, worker, now)),
        unread=session.scalar(unread) or 0,
    )
