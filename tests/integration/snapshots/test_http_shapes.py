"""What the web app, the ML backend and the marketplace answer over HTTP keeps its status, content type and keys."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
from botocore.exceptions import ClientError
from werkzeug.test import Client

from common.clock import SystemClock
from crowd.inquiries import PATH, SIGNATURE, Inquiry, sign_inquiry
from mturk.marketplace.app import marketplace_app
from mturk.marketplace.destinations import LOOPBACK, QueueNetworks
from mturk.marketplace.site.app import worker_site
from plugin.attempt_delivery import sign
from plugin.labelstudio.editor import font_files
from plugin.web.app import ServeProcess, front_page, web_app, work_pages
from plugin.web.data_routes import data_pages
from plugin.web.inquiries import inquiry_routes
from plugin.web.leaderboard.routes import leaderboard_pages
from plugin.web.submission_routes import submission_routes
from plugin.wiring import Application
from round_manager.database.store import Store
from round_manager.evaluation.figures import read_figures
from round_manager.labelstudio.projects import WEBHOOK_HEADER, webhook_secret
from round_manager.models import HitKind
from round_manager.services.board_snapshots import take_snapshot
from round_manager.services.context import Actor, ServiceContext
from round_manager.services.data_access import create_token
from round_manager.services.leaderboards import default_board
from round_manager.services.submissions import Limits, allow_submissions
from tests.campaign import start_campaign
from tests.campaign.base import built_in_pack
from tests.conftest import Outfox
from tests.fakes import calls
from tests.fakes.evaluations import store_evaluations
from tests.fakes.market import MarketServer
from tests.integration.databases import Databases
from tests.integration.mturk.marketplace.conftest import TYPE, Requests
from tests.integration.mturk.marketplace.conftest import question as external_question
from tests.integration.plugin.web.work.work_site import PATIENCE, SECRET, Page, WorkSite
from tests.integration.snapshots import snapshot
from tests.integration.snapshots.http_recorder import HttpRecorder, route_name, routes

TASK = "nli"
WEB, BACKEND, MARKETPLACE = "http-web.json", "http-backend.json", "http-marketplace.json"


@pytest.fixture
def site(any_store: Store, tmp_path: Path) -> Iterator[WorkSite]:
    """Workers' pages, with an ML backend behind them."""
    terms: dict[str, Any] = {"validation": {"gold_rate": 0.0}, "work": {"validations_per_hit": 2}}
    made = WorkSite(start_campaign(any_store, TASK, **terms), tmp_path / "home")
    yield made
    made.close()


def test_the_web_app(site: WorkSite, outfox: Outfox, monkeypatch: pytest.MonkeyPatch) -> None:
    recorder, application = HttpRecorder(), Application(site.settings, clock=site.campaign.clock)
    door = application.lazy_store
    pages = (
        front_page(door),
        work_pages(application),
        data_pages(site.settings, door, site.campaign.clock),
        leaderboard_pages(site.settings, door, site.campaign.clock),
        submission_routes(door, site.campaign.clock, application.submitted_files(), site.settings.archives_location),
        inquiry_routes(door, site.campaign.clock, site.campaign.crowd.name, site.settings.crowd_key_secret),
    )
    app = web_app(door, application.attempt_intake(), [SECRET], pages=pages)
    recorded = recorder.wrap(app, route_name(app.url_map))
    site.web.exchange(recorded)
    try:
        ask_operators_routes(Client(recorded))
        work_on_pages(site)
        monkeypatch.setenv("OUTFOX_DATABASE_URL", site.settings.database)
        read_data(site, outfox)
        read_leaderboard(site, outfox)
    finally:
        door.close()
    recorder.compare(WEB)


def test_the_ml_backend(site: WorkSite) -> None:
    recorder, backend, pack = HttpRecorder(), site.backend, built_in_pack(TASK)
    site.models.place(TASK, site.predictor)
    app: Any = backend._app
    backend.exchange(recorder.wrap(app, route_name(app.url_map, backend_route)))
    session = requests.Session()
    session.auth = ("web", "pass")
    written = calls.writes(pack, "It is entailment.")
    judged = {"fields": {"premise": "A day.", "hypothesis": "A night."}, "target": "neutral", "holder": "somebody"}
    for base in (f"/tasks/{TASK}", f"/tasks/{TASK}/rounds/1"):
        for name in ("health", "versions"):
            session.get(f"{backend.url}{base}/{name}", timeout=PATIENCE)
        bodies: list[tuple[str, Any]] = [
            ("setup", calls.setup(pack)),
            ("predict", calls.predict(pack)),
            ("predict", calls.predict(pack, written)),
            ("predict", {"tasks": "none"}),
            ("webhook", {"action": "ANNOTATION_CREATED", "project": {"id": 1}}),
            ("webhook", {}),
            ("judge", judged),
            ("judge", {}),
        ]
        for name, body in bodies:
            session.post(f"{backend.url}{base}/{name}", json=body, timeout=PATIENCE)
    for path in ("/health", "/status", "/metrics", "/tasks/nothing/health", "/elsewhere"):
        session.get(f"{backend.url}{path}", timeout=PATIENCE)
    requests.get(f"{backend.url}/status", timeout=PATIENCE)
    recorder.compare(BACKEND)


def test_the_marketplaces_api(any_databases: Databases) -> None:
    recorder, url = HttpRecorder(), any_databases.empty()

    def app(market: Any, address: str) -> Any:
        queues = QueueNetworks(LOOPBACK)
        made = marketplace_app(market, public_url=address, queues=queues, signing_time=SystemClock().now)
        return recorder.wrap(made, operation)

    with MarketServer(url, app=app) as server:
        use_all_operations(server)
        requests.get(f"{server.url}/health", timeout=PATIENCE)
    found = supported_operations(any_databases)
    recorder.compare(MARKETPLACE)
    well = {name for name, answers in recorder.shapes.items() if any(one.startswith("200 ") for one in answers)}
    assert found - well == set(), "call these operations in the test"


@pytest.mark.parametrize("part", ["web", "backend"])
def test_every_route_has_a_snapshot(part: str, site: WorkSite, tmp_path: Path) -> None:
    if part == "backend":
        app: Any = site.backend._app
        found, stored = routes(app.url_map) | {"POST /tasks/<task>/predict"}, snapshot.stored(BACKEND)
    else:
        process = ServeProcess(Application(site.settings), tmp_path, sync_every=60.0)
        found, stored = routes(process.app.url_map), snapshot.stored(WEB)
        process.close(5.0)
    assert found - stored.keys() == set(), "call these routes in the tests above"


def test_routes_keep_their_paths(site: WorkSite, any_databases: Databases, tmp_path: Path) -> None:
    backend: Any = site.backend._app
    process = ServeProcess(Application(site.settings), tmp_path, sync_every=60.0)
    process.close(5.0)
    with MarketServer(any_databases.empty()) as server:
        worker_routes = routes(worker_site(server.market, server.url).url_map)
    snapshot.compare_names(
        "routes.json",
        {
            "web": sorted(routes(process.app.url_map)),
            "backend": sorted(routes(backend.url_map)),
            "site": sorted(worker_routes),
        },
    )


def backend_route(path: str) -> str | None:
    """Predictions are answered before Flask sees them."""
    if not path.endswith("/predict"):
        return None
    return "/tasks/<task>/rounds/<n>/predict" if "/rounds/" in path else "/tasks/<task>/predict"


def operation(environ: dict[str, Any]) -> str:
    """Return the operation that a call of the MTurk protocol names, else the path."""
    return str(environ.get("HTTP_X_AMZ_TARGET", "")).rpartition(".")[2] or environ["PATH_INFO"]


def ask_operators_routes(client: Client) -> None:
    for path in ("/", "/health", "/metrics", "/elsewhere"):
        client.get(path)
    for body in (b'{"tries": []}', b'{"tries": [{}]}', b"nothing"):
        client.post("/api/attempts", data=body, headers=sign([SECRET], body, time.time()))
    client.post("/api/attempts", data=b"{}")
    hook = f"/webhooks/label-studio/{TASK}"
    client.post(hook, data=b"{}", headers={WEBHOOK_HEADER: webhook_secret([SECRET], TASK)})
    client.post(hook, data=b"{}")


def work_on_pages(site: WorkSite) -> None:
    page = site.open("W1")
    load_files(site, page)
    page.state()
    page.put("/items/0/draft", {**page.written("A draft."), "active_ms": 100})
    page.post("/beat", {"active_ms": 200})
    page.post("/instructions", {"version": page.setup["task"]["instructions_version"]})
    target = page.state()["items"][0]["target"]["name"]
    for number in range(5):
        page.post("/items/0/tries", page.written(f"This is {target}, number {number}."))
    page.post("/items/0/report", {"text": "The text is in French."})
    page.post("/report", {"text": "The button is hidden."})
    page.post("/items/0/skip", {"reason": "I do not understand it.", **page.mark()})
    for item in range(len(page.state()["items"])):
        page.post(f"/items/{item}/tries", page.fooling(item))
        page.post(f"/items/{item}/hand-in", page.fooling(item))
    page.state()
    page.post("/finish")
    page.refused("/items/0/tries", {})
    page.call("GET", "/state", headers={})
    page.call("POST", "/items/0/tries", data=b"nothing", json=None)
    for name in ("AUTHOR1", "AUTHOR2"):
        site.campaign.add_example(name)
    judging = site.open("V1", kind=HitKind.VALIDATE)
    judging.state()
    label = site.campaign.spec.label_names[0]
    judging.post("/items/0/judgement", {"result": judging.result(label=label)})
    judging.post("/items/1/judgement", {"result": judging.result(label=label)})
    judging.state()
    judging.post("/finish")
    quiz = site.open("Q1", kind=HitKind.QUIZ)
    quiz.state()
    assert site.campaign.spec.quiz is not None
    right = [one.answer for one in site.campaign.spec.quiz.questions]
    quiz.put("/quiz/draft", {"answers": [None, *right[1:]]})
    quiz.post("/quiz", {"answers": [1 - right[0], *right[1:]]})
    quiz.post("/quiz", {"answers": right})
    quiz.state()
    asked = Inquiry("W1", hits=(str(page.hit.external_id),), assignments=("NONE",)).to_json()
    signature = sign_inquiry(asked, [site.settings.crowd_key_secret], now=site.campaign.now)
    requests.post(f"{site.web.url}{PATH}", asked, headers={SIGNATURE: signature}, timeout=PATIENCE)
    site.get(page.hit, assignmentId="ASSIGNMENT_ID_NOT_AVAILABLE", hitId="H")
    requests.get(f"{site.web.url}/hits/{page.hit.public_id.hex}?sig=wrong", timeout=PATIENCE)


def load_files(site: WorkSite, page: Page) -> None:
    """The files that a worker's page loads."""
    module = f"/editor/{page.setup['editor']['version']}/runtime.js"
    font = sorted(path.name for path in Path(font_files()).iterdir() if path.is_file())[0]
    for path in (module, f"/static/fonts/{font}", "/pages/work.css", "/pages/any/work.css", "/pages/nothing.js"):
        requests.get(f"{site.web.url}{path}", timeout=PATIENCE)


def read_data(site: WorkSite, outfox: Outfox) -> None:
    def get(path: str) -> None:
        requests.get(f"{site.web.url}/data/{path}", timeout=PATIENCE)

    get(TASK)
    site.campaign.mark_closed()
    for command in (("round", "freeze", TASK), ("data", "publish", TASK)):
        ran = outfox(*command)
        assert ran.code == 0, ran
    get(TASK)
    for name in ("manifest.json", "votes.jsonl", "examples.parquet", "examples.csv", "nothing"):
        get(f"{TASK}/rounds/1/{name}")
    get(f"{TASK}/rounds/9/votes.jsonl")
    submit_models(site)


def submit_models(site: WorkSite) -> None:
    context = ServiceContext(site.campaign.store, site.campaign.clock)
    allow_submissions(context, Actor("ada"), TASK, Limits())
    token = create_token(context, Actor("ada"), TASK, days=1).secret
    base, allowed = f"{site.web.url}/data/{TASK}/submissions", {"Authorization": f"Bearer {token}"}
    csv = {"Content-Type": "text/csv", **allowed}
    for query, headers in (("name=mine", csv), ("name=mine", csv), ("name=", csv), ("url=http://x", csv), ("", {})):
        requests.post(f"{base}?{query}", b"id,prediction\n", headers=headers, timeout=PATIENCE)
    listed = requests.get(base, headers=allowed, timeout=PATIENCE).json()
    own = f"{base}/{listed['submissions'][0]['id']}"
    requests.get(own, headers=allowed, timeout=PATIENCE)
    for _ in range(3):
        requests.delete(own, headers=allowed, timeout=PATIENCE)
    requests.get(own, headers=allowed, timeout=PATIENCE)


def read_leaderboard(site: WorkSite, outfox: Outfox) -> None:
    """The task is public by now; a token is needed only to save a board."""
    base = f"{site.web.url}/leaderboard/{TASK}"
    store_evaluations(Path(site.settings.archives_location), {"va": "ada", "vb": "bo"}, task=TASK)
    made = ServiceContext(site.campaign.store, site.campaign.clock), Actor("ada")
    token = {"Authorization": f"Bearer {create_token(*made, TASK, days=1).secret}"}
    figures = read_figures(site.settings.archives_location, TASK).figures
    taken = take_snapshot(*made, TASK, default_board(figures), figures)
    sent = {"name": "Mine", "w.performance": "1"}
    for path in ("", "?board=none", "/models/va", "/models/none", f"/snapshots/{taken.sha256}.json"):
        requests.get(f"{base}{path}", timeout=PATIENCE)
    for name in ("ranking.csv", "ranking.parquet", "figures.json"):
        requests.get(f"{base}/{name}", timeout=PATIENCE)
    requests.get(base.replace(TASK, "none"), timeout=PATIENCE)
    for headers in (token, token, {}):
        requests.post(f"{base}/boards", data=sent, headers=headers, timeout=PATIENCE)
    requests.post(f"{base}/session", data={"token": "none"}, timeout=PATIENCE)
    requests.post(f"{base}/session/end", timeout=PATIENCE, allow_redirects=False)


def use_all_operations(server: MarketServer) -> None:
    lab = Requests(server, server.client())
    client, ann = lab.client, server.make_worker("Ann")
    client.get_account_balance()
    hits = [lab.hit(MaxAssignments=2), lab.hit()]
    made = client.create_hit(**TYPE, LifetimeInSeconds=3600, Question=external_question(), UniqueRequestToken="one")
    works = [server.work(ann, lab.type_id) for _ in range(2)]
    client.list_hits()
    client.get_hit(HITId=hits[0]["HITId"])
    client.list_reviewable_hits(HITTypeId=lab.type_id)
    for hit in hits:
        client.list_assignments_for_hit(HITId=hit["HITId"])
    client.get_assignment(AssignmentId=works[0].id)
    client.approve_assignment(AssignmentId=works[0].id, RequesterFeedback="Good.")
    client.reject_assignment(AssignmentId=works[1].id, RequesterFeedback="Empty.")
    client.get_assignment(AssignmentId=works[1].id)
    client.send_bonus(
        WorkerId=ann.id, AssignmentId=works[0].id, BonusAmount="0.50", Reason="Thanks.", UniqueRequestToken="two"
    )
    client.list_bonus_payments(AssignmentId=works[0].id)
    client.update_hit_review_status(HITId=hits[1]["HITId"])
    client.create_additional_assignments_for_hit(
        HITId=hits[1]["HITId"], NumberOfAdditionalAssignments=1, UniqueRequestToken="three"
    )
    client.update_expiration_for_hit(HITId=made["HIT"]["HITId"], ExpireAt=0)
    client.delete_hit(HITId=made["HIT"]["HITId"])
    use_qualifications(lab, ann.id)
    client.create_worker_block(WorkerId=ann.id, Reason="Spam.")
    client.list_worker_blocks()
    client.delete_worker_block(WorkerId=ann.id)
    client.notify_workers(Subject="Hello", MessageText="Thank you.", WorkerIds=[ann.id, "ANOBODY0000000"])
    notification = {
        "Destination": "http://127.0.0.1:9/1/queue", "Transport": "SQS", "Version": "2014-08-15", "EventTypes": ["Ping"]
    }  # fmt: skip
    client.update_notification_settings(HITTypeId=lab.type_id, Notification=notification)
    client.send_test_event_notification(Notification=notification, TestEventType="Ping")
    with pytest.raises(ClientError):
        client.get_hit(HITId="NOTHING")


def use_qualifications(lab: Requests, worker: str) -> None:
    client = lab.client
    kind = client.create_qualification_type(Name="Knows", Description="It.", QualificationTypeStatus="Active")
    known = kind["QualificationType"]["QualificationTypeId"]
    client.get_qualification_type(QualificationTypeId=known)
    client.update_qualification_type(QualificationTypeId=known, Description="All of it.")
    client.list_qualification_types(MustBeRequestable=False)
    client.associate_qualification_with_worker(QualificationTypeId=known, WorkerId=worker, IntegerValue=1)
    client.get_qualification_score(QualificationTypeId=known, WorkerId=worker)
    client.list_workers_with_qualification_type(QualificationTypeId=known)
    wanted = [{"QualificationTypeId": known, "Comparator": "Exists"}]
    other = client.create_hit_type(**{**TYPE, "Title": "Another", "QualificationRequirements": wanted})
    lab.hit(HITTypeId=other["HITTypeId"])
    client.list_hits_for_qualification_type(QualificationTypeId=known)
    client.disassociate_qualification_from_worker(QualificationTypeId=known, WorkerId=worker, Reason="No.")
    client.delete_qualification_type(QualificationTypeId=known)


def supported_operations(databases: Databases) -> set[str]:
    """Return the operations of the protocol that a marketplace does not refuse as unsupported."""
    supported = set()
    with MarketServer(databases.empty()) as another:
        client = another.client(parameter_validation=False)
        for method, name in client.meta.method_to_api_mapping.items():
            try:
                shape = client.meta.service_model.operation_model(name).input_shape
                getattr(client, method)(**{member: dummy(shape.members[member]) for member in shape.required_members})
            except ClientError as error:
                if "NotSupported" in str(error.response.get("TurkErrorCode")):
                    continue
            supported.add(name)
    return supported


def dummy(shape: Any) -> Any:
    """Return some value for a required parameter."""
    return {"integer": 1, "list": [], "structure": {}, "timestamp": 0, "boolean": True}.get(shape.type_name, "X")
