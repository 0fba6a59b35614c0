"""Faults of Label Studio (unreachable, slow, broken, replaced, access revoked): reported, and nothing is lost."""

import threading

import pytest

from plugin.labelstudio.adapter import SdkLabelStudio
from round_manager.labelstudio.port import LabelStudioUnavailable, ProjectNotFound, TokenRejected
from round_manager.labelstudio.push import PushResult
from round_manager.labelstudio.sync import SyncResult
from round_manager.models import Example
from tests.fakes.label_studio_adapter import Adapters, adapters, tidy_studio

__all__ = ["adapters", "tidy_studio"]


def test_a_restart_of_label_studio_loses_nothing_and_takes_the_same_port(adapters: Adapters) -> None:
    adapter = adapters(contexts=3)
    made = adapter.connect()
    adapter.push()
    tasks = adapter.tasks(made.projects["create"])
    for task in tasks:
        adapter.annotate(task["id"], adapter.written(f"text {task['id']}", task))

    def stop_after_one() -> None:
        if len(adapter.judge.asked) == 1:
            adapter.studio.server.stop()

    seen: list[str] = []
    adapter.judge.before = stop_after_one
    direct = SdkLabelStudio(adapter.studio.server.url, adapter.studio.server.token)
    try:
        with pytest.raises(LabelStudioUnavailable):
            adapter.sync()
        adapter.judge.before = lambda: None
        with pytest.raises(LabelStudioUnavailable):
            direct.whoami()
        away = adapter.status()
        assert (away.user, away.retry) == (None, True)
        assert away.projects[0].last_error or away.projects[1].last_error
        adapter.studio.server.check()  # its port is free again
    finally:
        adapter.studio.server.start(lambda what, _seconds: seen.append(what))
    assert set(seen) == {"Label Studio is starting"}, "it migrates nothing"
    adapter.sync()
    assert len(adapter.rows(Example)) == 3
    assert all(one.last_error is None for one in adapter.status().projects)


@pytest.mark.parametrize("status", [500, 502, 429])
def test_a_failing_label_studio_is_reported_and_caught_up(adapters: Adapters, status: int) -> None:
    adapter = adapters(contexts=1)
    made = adapter.connect()
    adapter.push()
    (task,) = adapter.tasks(made.projects["create"])
    adapter.annotate(task["id"], adapter.written("a text", task))
    adapter.proxy.broken = status
    with pytest.raises(LabelStudioUnavailable) as caught:
        adapter.sync()
    assert caught.value.status == status
    adapter.proxy.broken = None
    assert f"answers {status}" in (adapter.status().projects[0].last_error or "")
    assert adapter.sync() == SyncResult(read=1, examples=1)


def test_a_lost_answer_does_not_duplicate_the_tasks(adapters: Adapters) -> None:
    adapter = adapters()
    project = adapter.connect().projects["create"]
    adapter.proxy.lost_answers = 504
    with pytest.raises(LabelStudioUnavailable):
        adapter.push()
    adapter.proxy.lost_answers = None
    pushed = adapter.push()
    assert pushed.found == len(adapter.pack.contexts)
    keys = [task["meta"]["outfox"] for task in adapter.tasks(project)]
    assert len(keys) == len(set(keys)) == len(adapter.pack.contexts)


def test_a_slow_label_studio_times_out(adapters: Adapters) -> None:
    adapter = adapters(contexts=1, seconds=0.5)
    adapter.proxy.hold = threading.Event()
    with pytest.raises(LabelStudioUnavailable):
        adapter.remote.whoami()
    adapter.proxy.hold.set()


def test_another_server_is_not_taken_for_label_studio(adapters: Adapters) -> None:
    adapter = adapters(contexts=1)
    adapter.proxy.broken = 200
    status = adapter.status()
    assert (status.user, status.retry) == (None, False)


def test_a_revoked_token_is_reported_and_nothing_is_lost(adapters: Adapters) -> None:
    adapter = adapters(contexts=1)
    made = adapter.connect()
    adapter.push()
    (task,) = adapter.tasks(made.projects["create"])
    adapter.annotate(task["id"], adapter.written("a text", task))
    good, adapter.remote = adapter.remote, SdkLabelStudio(adapter.proxy.url, "0" * 40)
    with pytest.raises(TokenRejected):
        adapter.sync()
    assert not adapter.status().retry
    adapter.remote = good
    assert adapter.sync() == SyncResult(read=1, examples=1)


def test_a_personal_access_token_works(adapters: Adapters) -> None:
    adapter = adapters(contexts=1)
    token = adapter.call("POST", "token/")["token"]
    adapter.remote = SdkLabelStudio(adapter.studio.server.url, token)
    assert adapter.remote.whoami() == adapter.studio.server.email
    adapter.connect()
    assert adapter.push() == PushResult(contexts=1)
    broken = SdkLabelStudio(adapter.studio.server.url, f"{token[:-4]}AAAA")
    with pytest.raises(TokenRejected):
        broken.whoami()


def test_a_deleted_project_is_reported_and_created_again(adapters: Adapters) -> None:
    adapter = adapters(contexts=2)
    old = adapter.connect().projects["create"]
    adapter.push()
    task = adapter.tasks(old)[0]
    adapter.annotate(task["id"], adapter.written("before", task))
    adapter.sync()
    adapter.call("DELETE", f"projects/{old}/")
    with pytest.raises(ProjectNotFound, match=f"project {old} of sentiment"):
        adapter.sync()
    new = adapter.connect().projects["create"]
    assert new != old
    assert adapter.push().contexts == 2
    task = adapter.tasks(new)[0]
    adapter.annotate(task["id"], adapter.written("after", task))
    assert adapter.sync() == SyncResult(read=1, examples=1)
    assert [one.fields["text"] for one in adapter.rows(Example)] == ["before", "after"]
