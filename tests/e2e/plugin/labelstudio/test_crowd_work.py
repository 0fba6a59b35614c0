"""Crowd work in the real Label Studio: uploaded once, shown by the editor, and never read back."""

import json
import os
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from label_studio_sdk.label_interface.interface import LabelInterface
from playwright.sync_api import Page, expect

from common.clock import SystemClock
from plugin.settings import load_settings
from plugin.wiring import Application
from round_manager.database.store import open_store
from round_manager.labelstudio.crowd_upload import CrowdUpload, upload_crowd_work
from round_manager.labelstudio.port import WORKER_FIELD, LabelStudioUnavailable
from round_manager.labelstudio.sync import SyncResult
from round_manager.models import Example
from round_manager.services.context import ServiceContext
from round_manager.tasks.contexts import update_contexts
from round_manager.tasks.rounds import open_round
from round_manager.tasks.tasks import find_task
from round_manager.validation.decisions import decide_round
from round_manager.work.validation_work import Judgement
from templates import find_pack
from templates.payloads import Json
from templates.rows import Context
from tests.campaign import Campaign, find_campaign
from tests.campaign.label_studio import UPLOAD_PAUSE
from tests.conftest import Outfox
from tests.e2e.browser import Complaints
from tests.e2e.plugin.labelstudio.conftest import Studio
from tests.e2e.plugin.labelstudio.projects import Project
from tests.fakes.label_studio_adapter import Adapter, Adapters, adapters, tidy_studio
from tests.integration.round_manager.database.sample_rows import new_model

__all__ = ["adapters", "tidy_studio"]


def show(adapter: Adapter, campaign: Campaign) -> CrowdUpload:
    return upload_crowd_work(adapter.store, adapter.remote, adapter.name, campaign.clock)


def crowds_tasks(adapter: Adapter, project: int) -> list[Json]:
    return [task for task in adapter.tasks(project) if WORKER_FIELD in task["data"]]


# The other packs have labels too.
@pytest.mark.parametrize("name", ["nli", "qa"])
def test_uploaded_work_appears_beside_in_house_work(adapters: Adapters, name: str) -> None:
    adapter = adapters(name, contexts=4)
    made = adapter.connect()
    adapter.push()
    campaign = find_campaign(adapter.store, adapter.pack, SystemClock().now())
    example = campaign.write_example()
    for worker in ("V1", "V2"):
        campaign.judge_as(worker, campaign.agreeing(example))
    assert len(campaign.votes()) == 2
    # Whether answers agree is for the policy to say; until then they are held back.
    decide_round(adapter.store, campaign.round, now=campaign.now)
    assert show(adapter, campaign) == CrowdUpload(sent=3)
    for kind, count in (("create", 1), ("validate", 2)):
        project = made.projects[kind]
        tasks = crowds_tasks(adapter, project)
        assert (len(tasks), {task["is_labeled"] for task in tasks}) == (count, {True})
        interface: Any = LabelInterface(adapter.studio.get(f"projects/{project}")["label_config"])
        for task in tasks:
            (annotation,) = task["annotations"]
            assert interface.validate_annotation({"result": annotation["result"]})
            assert annotation["ground_truth"] is False
    offered = adapter.call("GET", f"projects/{made.projects['create']}/next")
    assert WORKER_FIELD not in offered["data"]
    adapter.annotate(offered["id"], adapter.written("another", offered))
    assert adapter.sync() == SyncResult(read=1, examples=1)
    assert [len(adapter.rows(Example)), adapter.sync()] == [2, SyncResult()]
    assert adapter.status().projects[0].unread == 0


def test_a_lost_answer_duplicates_nothing(adapters: Adapters) -> None:
    adapter = adapters(contexts=2)
    project = adapter.connect().projects["create"]
    campaign = find_campaign(adapter.store, adapter.pack, SystemClock().now())
    campaign.write_example()
    send = adapter.remote.add_tasks

    def send_and_hear_nothing(project_id: int, tasks: Sequence[Json]) -> list[int]:
        adapter.proxy.lost_answers = 504
        return send(project_id, tasks)

    adapter.remote.add_tasks = send_and_hear_nothing  # type: ignore[method-assign]
    with pytest.raises(LabelStudioUnavailable):
        show(adapter, campaign)
    adapter.proxy.lost_answers = None
    campaign.clock.advance(UPLOAD_PAUSE)
    assert show(adapter, campaign) == CrowdUpload(found=1)
    assert len(crowds_tasks(adapter, project)) == 1


def test_refused_uploads_are_reported_without_quotes(adapters: Adapters) -> None:
    adapter = adapters(contexts=2)
    project = adapter.connect().projects["create"]
    campaign = find_campaign(adapter.store, adapter.pack, SystemClock().now())
    text = campaign.write_example().fields["text"]
    other = adapter.pack.create_xml.replace("$prompt", "$another")
    adapter.call("PATCH", f"projects/{project}", {"label_config": other})
    assert show(adapter, campaign) == CrowdUpload(refused=1)
    refusal = adapter.status().projects[0].crowd.refusal or ""
    assert refusal
    assert text not in refusal


def test_the_editor_shows_uploaded_work(
    adapters: Adapters, page: Page, labelling: Callable[[Project, int], Complaints]
) -> None:
    adapter = adapters("qa", contexts=1)
    made = adapter.connect(ml_backend=None)
    campaign = find_campaign(adapter.store, adapter.pack, SystemClock().now())
    with adapter.store.write() as session:
        shown = Context("fox", {"passage": "🦊 🦊 The fox sleeps in the den."}, (), {})
        update_contexts(session, find_task(session, "qa"), [shown], now=campaign.now)
    example = campaign.write_example()
    show(adapter, campaign)
    (task,) = crowds_tasks(adapter, made.projects["create"])
    url = f"{adapter.studio.server.url}/projects/{made.projects['create']}/data"
    labelling(Project(made.projects["create"], "qa: write", url), task["id"])
    expect(page.get_by_text(example.fields["question"]).first).to_be_visible()
    marked = page.locator(".htx-highlight")
    expect(marked.first).to_have_text("den.")


def test_the_command_and_the_web_app_upload_crowd_work(
    outfox: Outfox, tidy_studio: Studio, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OUTFOX_LABEL_STUDIO_URL", tidy_studio.server.url)
    monkeypatch.setenv("OUTFOX_LABEL_STUDIO_TOKEN", tidy_studio.server.token)
    assert [outfox("db", "upgrade").code, outfox("task", "create", "sentiment").code] == [0, 0]
    assert outfox("labelstudio", "connect", "sentiment", "--ml-backend", "", "--web-url", "").code == 0
    settings = load_settings(os.environ)
    with open_store(settings.database) as store:
        with store.write() as session:
            task = find_task(session, "sentiment")
            model = new_model(task.id, "sentiment-v1")
            session.add(model)
            session.flush()
            open_round(session, task, [model], now=SystemClock().now(), actor="tests", reason="to try it")
        campaign = find_campaign(store, find_pack("sentiment"), SystemClock().now())
        campaign.write_example()
        synced = json.loads(outfox("labelstudio", "sync", "sentiment", "--json").out)
        assert synced["crowd"] == {"sent": 1, "found": 0, "refused": 0}
        assert "1 shown, 0 to send" in outfox("labelstudio", "status", "sentiment").out
        campaign.judge_as("V1", Judgement(flag=campaign.spec.validation.flag_reasons[0]))
        context = ServiceContext(store, SystemClock())
        connected = Application(settings).connected_label_studio(lambda: context)
        assert connected is not None
        connected.read("sentiment")
    told = json.loads(outfox("labelstudio", "status", "sentiment", "--json").out)
    assert [one["crowd"]["shown"] for one in told["projects"]] == [1, 1]
