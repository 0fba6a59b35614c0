"""The workers' pages over real HTTP: the web app, an ML backend with a simple model, and browsers."""

import json
import re
import threading
from dataclasses import dataclass
from datetime import timedelta
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import requests
from werkzeug.serving import WSGIRequestHandler, make_server

from common.clock import SystemClock
from crowd.proof import sign_acceptance
from ml_backend.serving.auth import BasicAuth
from ml_backend.serving.service import VerdictService
from ml_backend.serving.web import backend_app
from ml_backend.verdict import VerdictSigner
from mturk.profile import MARKETPLACE
from plugin.crowd import HitLinks
from plugin.settings import Settings
from plugin.web.app import web_app, work_pages
from plugin.web.inquiries import inquiry_routes
from plugin.web.work.access import BROWSER, PageLimits
from plugin.wiring import Application
from round_manager.models import Hit, HitKind
from templates.label_config import read_elements
from templates.payloads import Span, results
from tests.campaign import Campaign
from tests.fakes.model_provider import FakeModelProvider
from tests.fakes.sink import ListSink
from tests.fakes.target import FakeTarget

SITE = "http://market.example:7500"
SUBMIT_TO = f"{SITE}/s/a-pass"
SECRET = "the-secret-of-links-tokens-and-verdicts"
KEY_SECRET = "the-secret-of-the-requesters-access-key"
PROOF, PREVIEW = MARKETPLACE.page.proof, MARKETPLACE.page.preview_assignment
PATIENCE = 30.0
# Values that no page sends as its active time.
ODD_TIMES: tuple[object, ...] = (-1, 1.5, 1e300, "7", True, [7], {}, 10**30)


class AppServer:
    """A WSGI application on a port; it can be stopped, restarted or replaced."""

    def __init__(self, app: Any, port: int = 0) -> None:
        self._app = app
        self._port = port
        self.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def start(self) -> None:
        self._server = make_server("127.0.0.1", self._port, self._app, threaded=True, request_handler=_Quiet)
        self._port = self._server.server_port
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def exchange(self, app: Any) -> None:
        self._app = self._server.app = app


class WorkSite:
    """The web app for one task, with its ML backend; on a free port by default."""

    def __init__(self, campaign: Campaign, home: Path, port: int = 0) -> None:
        self.campaign = campaign
        models = self.models = FakeModelProvider()
        self.predictor = FakeTarget(campaign.spec, campaign.version)
        models.place(campaign.spec.name, self.predictor, round=campaign.round.number)
        service = VerdictService({campaign.spec.name: campaign.pack}, models, ListSink(), campaign.clock)
        auth, signer = BasicAuth("web", "pass"), VerdictSigner([SECRET])
        self.backend = AppServer(backend_app(service, auth=auth, signer=signer))
        self.settings = Settings(
            home=str(home),
            database_url=campaign.store.engine.url.render_as_string(hide_password=False),
            secret=SECRET,
            ml_backend_url=self.backend.url,
            ml_backend_auth="web:pass",
            crowd_site_url=SITE,
            crowd_key_id="AKID",
            crowd_key_secret=KEY_SECRET,
        )
        self.limits: PageLimits | None = None
        self._application = self._new_application()
        self.web = AppServer(self.new_app(), port)
        self.links = HitLinks(self.settings.hit_pages, self.settings.signing_secrets())

    def use_machine_clock(self) -> None:
        """Let the clock run from now on."""
        self.campaign.clock.now = SystemClock().now  # type: ignore[method-assign]

    def restart(self) -> None:
        """Replace the web app with a new process, which has none of the old one's memory."""
        self._application.lazy_store.close()
        self._application = self._new_application()
        self.web.exchange(self.new_app())

    def close(self) -> None:
        self.web.stop()
        self.backend.stop()
        self._application.lazy_store.close()

    def address(self, hit: Hit, **told: str) -> str:
        """The HIT's link with what our marketplace adds, on the port where we are."""
        link = self.claimed_address(hit, **told)
        if told.get("assignmentId", PREVIEW) == PREVIEW:
            return link
        parameters, now = dict(parse_qsl(urlsplit(link).query, keep_blank_values=True)), self.campaign.clock.now()
        deadline = now + timedelta(seconds=hit.assignment_seconds)
        proof = sign_acceptance(parameters, [KEY_SECRET], issued_at=now, expires_at=deadline)
        return f"{link}&{urlencode({PROOF: proof})}"

    def claimed_address(self, hit: Hit, **told: str) -> str:
        """The HIT's link with parameters that anyone can invent."""
        return f"{self.links.url(hit)}&{urlencode(told)}".replace(Settings().web_url, self.web.url)

    def get(self, hit: Hit, **told: str) -> requests.Response:
        """The HIT's page as a browser in the marketplace's frame gets it."""
        return requests.get(self.address(hit, **told), timeout=PATIENCE)

    def open(
        self, worker: str = "W1", hit: Hit | None = None, *, kind: HitKind = HitKind.CREATE, **told: str
    ) -> "Page":
        """The page of a worker who accepted the HIT, by default a new one."""
        chosen = hit or self.campaign.add_hit(kind)
        told = {"assignmentId": f"AS-{chosen.key}", "hitId": "H", "workerId": worker, "turkSubmitTo": SUBMIT_TO, **told}
        return Page(self, chosen, setup_in(self.get(chosen, **told)))

    def new_app(self) -> Any:
        """Return the web app as a process of its own would start it."""
        store = self._application.lazy_store
        pages = work_pages(self._application, self.limits)
        secret = self.settings.crowd_key_secret
        inquiries = inquiry_routes(store, self.campaign.clock, self.campaign.crowd.name, secret)
        return web_app(
            store,
            self._application.attempt_intake(),
            [SECRET],
            pages=(pages, inquiries),
            proxies=self.settings.web_proxies,
        )

    def _new_application(self) -> Application:
        return Application(self.settings, clock=self.campaign.clock)


@dataclass
class Page:
    """A page in a worker's browser; it knows only its setup."""

    site: WorkSite
    hit: Hit
    setup: dict[str, Any]
    elsewhere: str = ""
    browser: str = "the-key-of-the-first-browser"

    @property
    def headers(self) -> dict[str, str]:
        """The headers of its calls."""
        return {"Authorization": f"Bearer {self.setup['token']}", BROWSER: self.browser}

    def call(self, method: str, path: str, body: Any = None, **options: Any) -> requests.Response:
        url = f"{self.elsewhere or self.site.web.url}{self.setup['api']}{path}"
        return requests.request(method, url, **{"json": body, "headers": self.headers, "timeout": PATIENCE, **options})

    def post(self, path: str, body: Any = None) -> dict[str, Any]:
        """Return the response to a call that succeeds."""
        return _well(self.call("POST", path, body if body is not None else {}))

    def put(self, path: str, body: Any) -> dict[str, Any]:
        return _well(self.call("PUT", path, body))

    def state(self) -> dict[str, Any]:
        return _well(self.call("GET", "/state"))

    def refused(self, path: str, body: Any = None, method: str = "POST") -> dict[str, Any]:
        """Return the status and the response of a call that fails."""
        answer = self.call(method, path, body if body is not None else {})
        assert answer.status_code >= 400, answer.text
        told: dict[str, Any] = answer.json()
        assert set(told) == {"error", "kind", "retry", "code", "hint"}
        return {**told, "status": answer.status_code}

    def result(self, **values: str | Span) -> list[dict[str, Any]]:
        """Return what the editor would serialise with these controls filled in."""
        return results(read_elements(self.setup["config"], "template"), values)

    def written(self, text: str, item: int = 0, **more: str | Span) -> dict[str, Any]:
        """Return a body with every field that the task requires."""
        spec = self.site.campaign.spec
        values: dict[str, str | Span] = {field.name: text for field in spec.with_role("input")}
        values |= {field.name: "Because." for field in spec.with_role("reason")}
        values |= {field.name: field.choices[0] for field in spec.with_role("extra") if field.choices}
        if spec.kind == "qa":
            passage = self.state()["items"][item]["context"]["passage"]
            word = passage.split()[-1]
            values[spec.with_role("span")[0].name] = Span(passage.rindex(word), word)
        elif spec.target.set_by == "annotator":
            values["label"] = spec.label_names[1]
        return {"result": self.result(**{**values, **more}), **self.mark(item)}

    def mark(self, item: int = 0) -> dict[str, str]:
        """Return the mark of the text that the page shows."""
        return {"mark": self.state()["items"][item]["mark"]}

    def fooling(self, item: int = 0) -> dict[str, Any]:
        """Return a body with a text that fools the model, which predicts the label that the text names."""
        target = self.state()["items"][item]["target"]
        wanted = target["name"] if target else (self.site.campaign.spec.label_names or ("", ""))[1]
        others = [name for name in self.site.campaign.spec.label_names if name != wanted]
        return self.written(f"This is {others[0] if others else 'new'}, {self.hit.key} {item}", item)


def setup_in(answer: requests.Response) -> dict[str, Any]:
    """The setup of the page's script."""
    found = re.search(r'<script type="application/json" id="setup">(.*?)</script>', answer.text, re.DOTALL)
    assert found, answer.text
    setup: dict[str, Any] = json.loads(unescape(found[1]) if "&#34;" in found[1] else found[1])
    return setup


def _well(answer: requests.Response) -> dict[str, Any]:
    assert answer.status_code == 200, answer.text
    said: dict[str, Any] = answer.json()
    return said


class _Quiet(WSGIRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_request(self, *arguments: object) -> None:
        pass
