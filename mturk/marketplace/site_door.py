"""Who is visiting: coming in by a link, staying signed in, forms that no other site can send, and going."""

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

from mturk.marketplace import sessions, site_told, working
from mturk.marketplace.market import Market
from mturk.marketplace.site_tables import Login
from mturk.marketplace.site_told import Stopped
from mturk.marketplace.tables import Assignment, Message, Worker

COOKIE = "outfox_worker"
JOINING = "outfox_joining"
WRONG_LINKS = 20
WRONG_LINKS_WITHIN = timedelta(minutes=1)
ADDRESSES = 10_000


@dataclass(frozen=True)
class Visit:
    """A signed-in worker's visit, and what the top of every page shows of them."""

    worker_id: str
    name: str
    country: str
    csrf: str
    keeps_going: bool
    held: int
    unread: int


class WrongLinks:
    """Counts links that nobody was given, by where they come from: guessing is hopeless, and must be cheap for us."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        self._now = now
        self._heard: OrderedDict[str, deque[datetime]] = OrderedDict()

    def check(self, address: str) -> None:
        """Stops somebody who tries too many of them."""
        heard = self._heard.get(address)
        if heard is not None and len(heard) == WRONG_LINKS and self._now() - heard[0] < WRONG_LINKS_WITHIN:
            raise Stopped(site_told.TOO_MANY)

    def note(self, address: str) -> None:
        """One more."""
        self._heard.setdefault(address, deque(maxlen=WRONG_LINKS)).append(self._now())
        self._heard.move_to_end(address)
        while len(self._heard) > ADDRESSES:
            self._heard.popitem(last=False)


class Door:
    """Tells who is visiting; the cookie is HttpOnly, and goes over TLS only where the site does."""

    def __init__(self, market: Market, public_url: str) -> None:
        self.market = market
        self.public_url = public_url
        self._secure = public_url.startswith("https://")
        # A name with __Host- is taken by browsers only over TLS, for this very host, and so cannot be planted.
        prefix = "__Host-" if self._secure else ""
        self._cookie, self._joining = prefix + COOKIE, prefix + JOINING
        self._wrong_links = WrongLinks(market.now)

    def visit(self) -> Visit | None:
        """Who is visiting, looked up once for each request."""
        if "visit" not in g:
            g.visit = self._look_up()
        visit: Visit | None = g.visit
        return visit

    def visitor(self) -> Visit:
        """Who is visiting; nobody goes on who is not signed in."""
        visit = self.visit()
        if visit is None:
            raise Stopped(site_told.SIGNED_OUT)
        return visit

    def sender(self) -> Visit:
        """Who sends a form; one that was not made for this login changes nothing."""
        visit = self.visitor()
        if not hmac.compare_digest(request.form.get("csrf", "").encode(), visit.csrf.encode()):
            raise Stopped(site_told.OLD_FORM)
        return visit

    def keep_going(self, *, going: bool) -> None:
        """Remembers what this browser's worker wants to happen after a task."""
        with self.market.write() as session:
            found = sessions.login(session, self._token(), self.market.now())
            if found:
                found.keeps_going = going

    def renew(self, response: Response) -> None:
        """Has a browser whose login is in use keep its cookie for as long again."""
        if g.get("renews", False) and not response.headers.getlist("Set-Cookie"):
            self._set(response, self._cookie, self._token(), sessions.LOGIN_LIFE)

    def work_secret(self, assignment: Assignment) -> str:
        """What hands in the work of an acceptance from this browser."""
        return sessions.work_secret(self._token(), assignment.id, assignment.accepted_at or self.market.now())

    def blueprint(self) -> Blueprint:
        """The pages about coming and going."""
        pages = Blueprint("door", __name__)
        pages.add_url_rule("/join/<token>", "join", self._show_link)
        pages.add_url_rule("/join/<token>", "joined", self._join, methods=["POST"])
        pages.add_url_rule("/account", "account", self._account)
        pages.add_url_rule("/account/link", "device_link", self._device_link, methods=["POST"])
        pages.add_url_rule("/sign-out", "sign_out", self._sign_out, methods=["POST"])
        return pages

    def _look_up(self) -> Visit | None:
        token, now = self._token(), self.market.now()
        if not token:
            return None
        with self.market.read() as session:
            found = sessions.login(session, token, now)
            visit = _visit(session, found, token, now) if found else None
        if found and now - found.seen_at > sessions.NOTED_EVERY:
            with self.market.write() as session:
                sessions.note_use(session, token, now)
            g.renews = True
        return visit

    def _token(self) -> str:
        return request.cookies.get(self._cookie, "")

    def _show_link(self, token: str) -> Response:
        """Looking uses nothing up: programs that fetch a preview of a link do not press buttons."""
        guest = self._guest(token)
        # The same for every page that is open: whichever of them is used, it works.
        planted = request.cookies.get(self._joining) or secrets.token_urlsafe(16)
        response = make_response(render_template("join.html", name=guest.name, csrf=planted))
        # Or another site could sign somebody in as somebody else, who then works for a stranger.
        self._set(response, self._joining, planted, timedelta(hours=1))
        return response

    def _join(self, token: str) -> Any:
        self._guest(token)
        planted = request.cookies.get(self._joining, "")
        if not planted or not hmac.compare_digest(request.form.get("csrf", "").encode(), planted.encode()):
            raise Stopped(site_told.OLD_FORM)
        with self.market.write() as session:
            if self._token():
                sessions.sign_out(session, self._token())
            kept = sessions.join(session, token, self.market.now())
        response = redirect(url_for("work.find", said="welcome"), 303)
        self._set(response, self._cookie, kept, sessions.LOGIN_LIFE)
        response.delete_cookie(self._joining, secure=self._secure, httponly=True, samesite="Lax")
        return response

    def _guest(self, token: str) -> sessions.Guest:
        address = request.remote_addr or ""
        try:
            with self.market.glance() as session:
                return sessions.guest(session, token, self.market.now())
        except sessions.LinkUnknown:
            # Only here: others at the same address come in with their right links meanwhile.
            self._wrong_links.check(address)
            self._wrong_links.note(address)
            raise

    def _account(self, link: str = "") -> str:
        visit = self.visitor()
        with self.market.glance() as session:
            devices = sessions.devices(session, visit.worker_id, self.market.now())
        return render_template("account.html", here="account", devices=devices, link=link)

    def _device_link(self) -> str:
        visit = self.sender()
        with self.market.write() as session:
            token = sessions.invite(session, visit.worker_id, self.market.now(), sessions.DEVICE_LINK_LIFE)
        return self._account(f"{self.public_url}/join/{token}")

    def _sign_out(self) -> Any:
        visit = self.sender()
        with self.market.write() as session:
            if request.form.get("others"):
                sessions.sign_out_others(session, self._token(), visit.worker_id)
                return redirect(url_for("door.account", said="elsewhere"), 303)
            sessions.sign_out(session, self._token())
        response = redirect(url_for("work.find"), 303)
        response.delete_cookie(self._cookie, secure=self._secure, httponly=True, samesite="Lax")
        return response

    def _set(self, response: Any, name: str, value: str, life: timedelta) -> None:
        response.set_cookie(name, value, max_age=life, secure=self._secure, httponly=True, samesite="Lax", path="/")


def _visit(session: Session, found: Login, token: str, now: datetime) -> Visit:
    worker = session.get_one(Worker, found.worker_id)
    unread = select(func.count()).where(Message.worker_id == worker.id, Message.read_at.is_(None))
    return Visit(
        worker_id=worker.id,
        name=worker.name,
        country=worker.country,
        csrf=sessions.form_token(token),
        keeps_going=found.keeps_going,
        held=len(working.held(session, worker, now)),
        unread=session.scalar(unread) or 0,
    )
