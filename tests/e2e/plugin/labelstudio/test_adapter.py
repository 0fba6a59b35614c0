"""The adapter with the real Label Studio: connect, push and sync, and nothing changes without need."""

from datetime import timedelta

import pytest

from round_manager.labelstudio.port import BackendAuth
from round_manager.labelstudio.predictions import BlindProject, PredictionResult
from round_manager.labelstudio.push import PushResult
from round_manager.labelstudio.sync import SyncResult
from round_manager.models import Example, Vote
from tests.fakes.label_studio_adapter import Adapters, adapters, others, tidy_studio
from tests.fakes.label_studio_proxy import proxy_of
from tests.fakes.registry import eventually

__all__ = ["adapters", "others", "tidy_studio"]


# Answers are selected in a text. The next test does this with labels.
def test_from_a_context_to_an_example_to_its_votes(adapters: Adapters, others: list[int]) -> None:
    adapter = adapters("qa", contexts=4)
    made = adapter.connect()
    assert adapter.push() == PushResult(contexts=4)
    tasks = adapter.tasks(made.projects["create"])
    # Every label appears, so that at least one text fools the fake model.
    for task in tasks:
        target = task["data"].get("target")
        labels = [one for one in adapter.pack.spec.label_names if one != target]
        text = f"{labels[0] if labels else 'none'} {task['id']}"
        adapter.annotate(task["id"], adapter.written(text, task), user=others[2])
    assert adapter.sync() == SyncResult(read=4, examples=4)
    examples = adapter.rows(Example)
    assert [one.label for one in examples] == [task["data"].get("target") for task in tasks]
    assert [one.context_id for one in examples] == sorted(one.context_id for one in examples)
    assert adapter.sync() == SyncResult()

    sent = adapter.push().validations
    assert sent == sum(one.votes_wanted for one in examples) > 0
    for task in adapter.tasks(made.projects["validate"]):
        assert not {"target", "target_title", "why_right", "why_wrong", "hate_type"} & set(task["data"])
        number = int(task["meta"]["outfox"].rpartition(":")[2])
        adapter.annotate(task["id"], adapter.judged(task), user=others[number - 1])
    assert adapter.sync() == SyncResult(read=sent, votes=sent)
    assert len(adapter.rows(Vote)) == sent
    assert adapter.push() == PushResult()


def test_after_the_round_only_annotated_checks_stay(adapters: Adapters, others: list[int]) -> None:
    adapter = adapters(contexts=4)
    made = adapter.connect()
    adapter.push()
    for task in adapter.tasks(made.projects["create"]):
        label = next(one for one in adapter.pack.spec.label_names if one != task["data"]["target"])
        adapter.annotate(task["id"], adapter.written(f"{label} {task['id']}", task), user=others[2])
    adapter.sync()
    sent = adapter.push().validations
    first, *rest = adapter.tasks(made.projects["validate"])
    adapter.annotate(first["id"], adapter.judged(first), user=others[0])
    assert sent == len(rest) + 1 > 2
    assert adapter.sync() == SyncResult(read=1, votes=1)
    adapter.close_round()
    adapter.annotate(rest[0]["id"], adapter.judged(rest[0]), user=others[0])
    assert adapter.sync() == SyncResult(read=1, problems=1, cleared=sent - 2)
    there = [task["id"] for task in adapter.tasks(made.projects["validate"])]
    assert there == [first["id"], rest[0]["id"]]
    adapter.proxy.requests.clear()
    assert (adapter.sync(), adapter.push()) == (SyncResult(), PushResult())
    assert adapter.proxy.changing == []


def test_repeating_everything_changes_nothing(adapters: Adapters) -> None:
    adapter = adapters()
    auth = BackendAuth("user", "word")
    made = adapter.connect(auth=auth)
    adapter.push()
    project = made.projects["create"]
    before = adapter.studio.get(f"webhooks/?project={project}")
    adapter.proxy.requests.clear()
    assert adapter.connect(auth=auth).changes == ()
    assert adapter.push() == PushResult()
    assert adapter.sync() == SyncResult()
    assert adapter.proxy.changing == []
    assert adapter.studio.get(f"webhooks/?project={project}") == before


def test_the_backend_is_interactive_and_follows_the_round_without_its_password(adapters: Adapters) -> None:
    adapter = adapters()
    made = adapter.connect(auth=BackendAuth("user", "word"))
    (backend,) = adapter.studio.get(f"ml?project={made.projects['create']}")
    assert backend["url"] == f"{adapter.backend.url}/tasks/sentiment/rounds/1"
    assert (backend["is_interactive"], backend["basic_auth_user"]) == (True, "user")
    assert adapter.studio.get(f"ml?project={made.projects['validate']}") == []
    adapter.call(
        "PATCH",
        f"ml/{backend['id']}",
        {**backend, "basic_auth_pass": "", "url": f"{adapter.backend.url}/tasks/sentiment"},
    )
    adapter.connect(ml_backend=None)
    (again,) = adapter.studio.get(f"ml?project={made.projects['create']}")
    assert again["url"] == backend["url"]
    assert again["basic_auth_pass_is_set"]
    assert again["id"] == backend["id"]


def test_the_webhook_carries_no_content(adapters: Adapters) -> None:
    adapter = adapters(contexts=1)
    with proxy_of("http://127.0.0.1:9") as web:
        web.broken = 204
        made = adapter.connect(web_url=web.url)
        adapter.push()
        (task,) = adapter.tasks(made.projects["create"])
        adapter.annotate(task["id"], adapter.written("a text", task))
        hint = ("POST", "/webhooks/label-studio/sentiment")
        eventually(lambda: hint in web.requests, "the webhook comes")
    webhooks = adapter.studio.get(f"webhooks/?project={made.projects['create']}")
    (ours,) = [one for one in webhooks if "label-studio" in one["url"]]
    assert ours["send_payload"] is False


def test_an_edit_moves_the_task_so_that_it_is_read_again(adapters: Adapters) -> None:
    adapter = adapters(contexts=2)
    made = adapter.connect()
    adapter.push()
    first, second = adapter.tasks(made.projects["create"])
    annotation = adapter.annotate(first["id"], adapter.written("as it was", first))
    adapter.annotate(second["id"], adapter.written("another", second))
    assert adapter.sync().examples == 2
    adapter.call("PATCH", f"annotations/{annotation}/", {"result": adapter.written("as it is", first)})
    assert adapter.sync() == SyncResult(read=1, problems=1)
    (problem,) = adapter.status().projects[0].problems
    assert problem.annotation == annotation
    assert adapter.rows(Example)[0].fields["text"] == "as it was"


def test_skipped_tasks_drafts_and_other_tasks_are_ignored(adapters: Adapters) -> None:
    adapter = adapters(contexts=2)
    project = adapter.connect().projects["create"]
    adapter.push()
    first, second = adapter.tasks(project)
    skipped = {"result": adapter.written("skipped", first), "was_cancelled": True}
    adapter.call("POST", f"tasks/{first['id']}/annotations/", skipped)
    adapter.call("POST", f"tasks/{second['id']}/drafts", {"result": adapter.written("a draft", second)})
    theirs = adapter.remote.add_tasks(project, [{"data": first["data"]}])
    adapter.annotate(theirs[0], adapter.written("theirs", first))
    assert adapter.sync() == SyncResult()
    assert adapter.rows(Example) == []


def test_a_quiet_sync_costs_two_requests_however_many_tasks_there_are(adapters: Adapters) -> None:
    adapter = adapters()
    project = adapter.connect().projects["create"]
    adapter.push()
    tasks = adapter.tasks(project)
    adapter.annotate(tasks[0]["id"], adapter.written("one", tasks[0]))
    adapter.sync()
    costs = []
    for _ in range(2):
        adapter.proxy.requests.clear()
        adapter.sync()
        costs.append(len(adapter.proxy.requests))
        adapter.remote.add_tasks(project, [{"data": tasks[0]["data"]} for _ in range(400)])
    assert costs == [2, 2]


def test_predictions_are_stored_once_per_version(adapters: Adapters) -> None:
    adapter = adapters(contexts=3)
    project = adapter.connect().projects["create"]
    adapter.push()
    task = adapter.tasks(project)[0]
    adapter.annotate(task["id"], adapter.written("rather positive", task))
    adapter.sync()
    assert adapter.predict() == PredictionResult(project, sent=1, there=0, lacking=2)
    assert adapter.predict() == PredictionResult(project, sent=0, there=1, lacking=2)
    (prediction,) = adapter.tasks(project)[0]["predictions"]
    assert (prediction["model_version"], prediction["score"]) == ("v1", 0.75)
    assert "Positive" in prediction["result"][0]["value"]["text"][0]
    assert adapter.sync() == SyncResult()


def test_predictions_can_go_to_another_project(adapters: Adapters) -> None:
    adapter = adapters("qa", contexts=1)
    made = adapter.connect()
    own = adapter.remote.create_project({"title": "mine", "label_config": adapter.pack.validate_xml}).id
    passage = "Bridges are repaired in strict rotation."
    adapter.remote.add_tasks(own, [{"data": {"passage": passage, "question": "What is strict ?"}}])
    assert adapter.predict(project=own) == PredictionResult(own, sent=1, there=0, lacking=0)
    (task,) = adapter.tasks(own)
    (value,) = [one["value"] for one in task["predictions"][0]["result"]]
    assert passage[value["start"] : value["end"]] == value["text"] == "strict"
    with pytest.raises(BlindProject):
        adapter.predict(project=made.projects["validate"])


def test_the_same_moment_is_read_page_by_page(adapters: Adapters) -> None:
    adapter = adapters(contexts=3)
    project = adapter.connect().projects["create"]
    adapter.push()
    for task in adapter.tasks(project):
        adapter.annotate(task["id"], adapter.written(f"text {task['id']}", task))
    found = adapter.remote.changed_tasks(project, None).tasks
    assert [one.changed_at for one in found] == sorted(one.changed_at for one in found)
    (same,) = adapter.remote.tasks_changed_at(project, found[1].changed_at).tasks
    assert same.id == found[1].id
    assert adapter.remote.tasks_changed_at(project, found[1].changed_at, after=same.id).tasks == ()
    later = adapter.remote.changed_tasks(project, found[1].changed_at + timedelta(microseconds=1))
    assert [one.id for one in later.tasks] == [found[2].id]
