"""Sign-in of workers: join links, cookies, CSRF tokens, the account page and signing out."""

import hmac
import secrets
from collections import OrderedDict, deque
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from flask import Blueprint, Response, g, make_response, redirect, render_template, request, url_for

from mturk.marketplace.errors import LinkNotFound
from mturk.marketplace.market import Market
from mturk.marketplace.services import sign_in
from mturk.marketplace.services.sign_in import Visitor
from mturk.marketplace.site import texts
from mturk.marketplace.site.texts import StatusPageError

COOKIE = "outfox_worker"
JOINING = "outfox_joining"
MAX_WRONG_LINKS = 20
WRONG_LINKS_PERIOD = timedelta(minutes=1)
MAX_ADDRESSES = 10_000


class LinkGuessLimiter:
    """Limits how many unknown sign-in links one network address may try, so that guessing stays cheap for us."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        self._now = now
        self._attempts: OrderedDict[str, deque[datetime]] = OrderedDict()

    def check(self, address: str) -> None:
        """Refuse an address that tried too many."""
        attempts = self._attempts.get(address)
        if attempts is not None and len(attempts) == MAX_WRONG_LINKS and self._now() - attempts[0] < WRONG_LINKS_PERIOD:
            raise StatusPageError(texts.TOO_MANY_WRONG_LINKS)

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
            token = self.login_token()
            g.visitor = sign_in.find_visitor(self.market, token) if token else None
        visitor: Visitor | None = g.visitor
        return visitor

    def require_visitor(self) -> Visitor:
        """Return the signed-in worker; otherwise end the request."""
        visitor = self.visitor()
        if visitor is None:
            raise StatusPageError(texts.SIGNED_OUT)
        return visitor

    def require_form(self) -> Visitor:
        """Return the signed-in worker who sends a form; end the request if its CSRF token is wrong."""
        visitor = self.require_visitor()
        if not hmac.compare_digest(request.form.get("csrf", "").encode(), visitor.csrf.encode()):
            raise StatusPageError(texts.OLD_FORM)
        return visitor

    def login_token(self) -> str:
        """Return the token of this browser's login, or an empty string."""
        return request.cookies.get(self._cookie, "")

    def renew(self, response: Response) -> None:
        """Extend the cookie of a login that is in use."""
        visitor: Visitor | None = g.get("visitor")
        if visitor and visitor.renewed and not response.headers.getlist("Set-Cookie"):
            self._set(response, self._cookie, self.login_token(), sign_in.LOGIN_LIFE)

    def blueprint(self) -> Blueprint:
        """Return the pages for signing in and out, and the account."""
        pages = Blueprint("auth", __name__)
        pages.add_url_rule("/join/<token>", "join", self._show_link)
        pages.add_url_rule("/join/<token>", "joined", self._join, methods=["POST"])
        pages.add_url_rule("/account", "account", self._account)
        pages.add_url_rule("/account/link", "device_link", self._device_link, methods=["POST"])
        pages.add_url_rule("/sign-out", "sign_out", self._sign_out, methods=["POST"])
        return pages

    def _show_link(self, token: str) -> Response:
        """Show the link without using it up: programs that preview links do not press buttons."""
        name = self._link_owner_name(token)
        # One value for all open pages, so that each of them works.
        csrf = request.cookies.get(self._joining) or secrets.token_urlsafe(16)
        response = make_response(render_template("join.html", name=name, csrf=csrf))
        # Otherwise another site could sign a visitor in as another worker.
        self._set(response, self._joining, csrf, timedelta(hours=1))
        return response

    def _join(self, token: str) -> Any:
        self._link_owner_name(token)
        csrf = request.cookies.get(self._joining, "")
        if not csrf or not hmac.compare_digest(request.form.get("csrf", "").encode(), csrf.encode()):
            raise StatusPageError(texts.OLD_FORM)
        login_token = sign_in.sign_in(self.market, token, self.login_token())
        response = redirect(url_for("work.find", said="welcome"), 303)
        self._set(response, self._cookie, login_token, sign_in.LOGIN_LIFE)
        self._delete(response, self._joining)
        return response

    def _link_owner_name(self, token: str) -> str:
        address = request.remote_addr or ""
        try:
            return sign_in.link_owner_name(self.market, token)
        except LinkNotFound:
            # Only here, so that valid links from the same address still work.
            self._wrong_links.check(address)
            self._wrong_links.count(address)
            raise

    def _account(self, link: str = "") -> str:
        devices = sign_in.count_devices(self.market, self.require_visitor().worker_id)
        return render_template("account.html", here="account", devices=devices, link=link)

    def _device_link(self) -> str:
        token = sign_in.create_device_link(self.market, self.require_form().worker_id)
        return self._account(f"{self.public_url}/join/{token}")

    def _sign_out(self) -> Any:
        visitor = self.require_form()
        if request.form.get("others"):
            sign_in.sign_out_others(self.market, self.login_token(), visitor.worker_id)
            return redirect(url_for("auth.account", said="elsewhere"), 303)
        sign_in.sign_out(self.market, self.login_token())
        response = redirect(url_for("work.find"), 303)
        self._delete(response, self._cookie)
        return response

    def _set(self, response: Any, name: str, value: str, life: timedelta) -> None:
        response.set_cookie(name, value, max_age=life, secure=self._secure, httponly=True, samesite="Lax", path="/")

    def _delete(self, response: Any, name: str) -> None:
        response.delete_cookie(name, secure=self._secure, httponly=True, samesite="Lax")
