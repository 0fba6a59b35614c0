"""What commands answer with --json keeps its keys and types.

Each scenario runs the commands of one part on a world that other tests use too. The last test checks that no command
with --json is left out.
"""

import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from io import BytesIO
from pathlib import Path

import click
import pytest

from common.clock import SystemClock
from ml_backend.artefact import version_folder
from ml_backend.registry.model_pool import ModelPool
from round_manager.database.store import open_store
from round_manager.evaluation.submitted_files import SubmittedFiles
from round_manager.jobs import JobOwner
from round_manager.learning.training_data import closed_rounds
from round_manager.learning.training_jobs import start_job
from round_manager.services.context import Actor, ServiceContext
from round_manager.services.data_access import create_token
from round_manager.services.submissions import SubmissionOrder, requeue_submission, submit
from round_manager.tasks.tasks import create_task
from round_manager.work.reports import report
from templates.label_config import read_elements
from templates.payloads import results
from tests.campaign import start_campaign
from tests.campaign.base import built_in_pack
from tests.campaign.training import TASK, find_training, first_round_rows, small_pack
from tests.conftest import Outfox, replace_in
from tests.fakes.evaluations import store_evaluations
from tests.fakes.label_studio import FakeLabelStudio
from tests.fakes.registry import QuickRegistry, corrupt, load_fixed, make_version
from tests.fakes.trainer import FakeTrainer
from tests.integration.outfox.published import write_csv
from tests.integration.plugin.cli.crowd.conftest import books, commands, market, page  # noqa: F401 - fixtures
from tests.integration.plugin.cli.crowd.crowd_commands import SENTIMENT, CrowdCommands
from tests.integration.snapshots import snapshot
from tests.integration.snapshots.commands import leaf_commands
from tests.integration.snapshots.recorder import Recorder
from tests.unit.ml_backend.conftest import tiny_base  # noqa: F401 - a fixture

PARTS = (
    "crowd", "crowd-trouble", "marketplace", "rounds", "imports", "validation", "labelstudio", "models", "tasks",
    "leaderboards",
)  # fmt: skip
LONG_AGO = timedelta(days=40)
# Commands that cannot run in a test of this size, and why.
EXCEPTIONS = {
    "task launch": "trains, and fills projects in Label Studio; test_launch.py reads its answer",
    "demo": "starts Label Studio and four more processes for minutes; tests/e2e/demo reads its answer",
}


@pytest.fixture
def ask(outfox: Outfox) -> Recorder:
    """Runs commands with --json and keeps the shapes of their answers."""
    return Recorder(outfox)


def stored_file(part: str) -> str:
    return f"json-{part}.json"


def test_crowd_commands(ask: Recorder, commands: CrowdCommands, tmp_path: Path) -> None:  # noqa: F811 - a fixture
    post = ("crowd post", SENTIMENT, "--kind", "create", "--hits")
    ask("crowd status")
    ask(*post, 3, "--dry-run")
    ask(*post, 6, "--yes")
    ask("crowd post", SENTIMENT, "--kind", "validate", "--hits", 1, "--yes")
    ann, bob = commands.market.make_worker("Ann"), commands.market.make_worker("Bob")
    commands.workers.update(Ann=ann, Bob=bob)
    ask("crowd workers grant", SENTIMENT, ann.id, "--dry-run")
    ask("crowd workers grant", SENTIMENT, ann.id, bob.id, "--why", "they know how")
    works = [commands.submit_hit(name, minutes=5) for name in ("Ann", "Bob", "Ann", "Bob")]
    commands.accept_hit("Ann")
    ask("crowd status", SENTIMENT)
    ask("crowd approve", SENTIMENT, "--all", "--dry-run")
    ask("crowd approve", works[0], works[1], "--why", "good")
    ask("crowd reject", works[2], "--reason", "It is empty.", "--dry-run")
    ask("crowd reject", works[2], "--reason", "It is empty.")
    ask("crowd reject", works[2], "--reason", "A mistake.", "--override", "--dry-run")
    ask("crowd reject", works[2], "--reason", "A mistake.", "--override")
    bonus = ("crowd bonus", works[0], "$0.60", "--reason", "Thank you!")
    ask(*bonus, "--dry-run")
    ask(*bonus, "--yes")
    commands.mark_sent(commands.owe_bonus(works[1]))
    ask("crowd status", "--no-collect")
    ask("crowd reconcile", "--dry-run")
    ask("crowd reconcile")
    commands.owe_bonus(works[1], "Another one.")
    ask("crowd pay", "--dry-run")
    ask("crowd pay", SENTIMENT, "--yes")
    ask("crowd pay", SENTIMENT, "--top-up", "--dry-run")
    ask("crowd balance")
    ask("crowd statement")
    ask("crowd statement", SENTIMENT, "--days", 2)
    ask("crowd workers list")
    ask("crowd block", bob.id, "--reason", "Spam.", "--dry-run")
    ask("crowd block", bob.id, "--reason", "Spam.")
    ask("crowd workers list", SENTIMENT)
    ask("crowd block", bob.id, "--lift")
    message = ("crowd workers message", "--task", SENTIMENT, "--subject", "Hello", "--text", "Thank you.")
    ask(*message, "--dry-run")
    ask(*message, "--yes")
    ask("crowd workers message", "ANOBODY0000000", "--subject", "Hello", "--text", "Thank you.", "--yes")
    ask("crowd workers withdraw", SENTIMENT, bob.id, "--reason", "Copied texts.", "--dry-run")
    ask("crowd workers withdraw", SENTIMENT, bob.id, "--reason", "Copied texts.")
    names = tmp_path / "names.csv"
    names.write_text(f"worker_id,name\n{ann.id},Ann\n", encoding="utf-8")
    ask("crowd workers names", names)
    ask("crowd group create", "Vendor")
    ask("crowd group add", "Vendor", ann.id, bob.id)
    ask("crowd group remove", "Vendor", bob.id)
    ask("crowd group assign", SENTIMENT, "Vendor")
    ask("crowd group list")
    ask("crowd report", SENTIMENT)
    ask("crowd expire", SENTIMENT, "--all", "--dry-run")
    ask("crowd expire", SENTIMENT, "--all", "--yes")
    ask("crowd status")
    ask.error("error: an unknown assignment", "crowd", "approve", "NONE")
    ask.compare(stored_file("crowd"))


def test_crowd_commands_where_something_went_wrong(ask: Recorder, commands: CrowdCommands) -> None:  # noqa: F811 - a fixture
    work = commands.paid_hit()
    paid, unpaid = commands.owe_bonus(work), commands.owe_bonus(work, "Another one.")
    for key in (paid, unpaid):
        commands.mark_sent(key, ago=LONG_AGO)
    unsent, sent = commands.plan_hits(), commands.plan_hits(sent_ago=LONG_AGO)
    assert unsent
    ask("crowd status", "--no-collect")
    ask("crowd reconcile")
    ask("crowd status", "--no-collect")
    ask("crowd reconcile", "--unpaid", unpaid, "--dry-run")
    ask("crowd reconcile", "--paid", paid, "--why", "The worker has it.")
    ask("crowd reconcile", "--unpaid", unpaid)
    ask("crowd reconcile", "--not-posted", sent, "--why", "It is not listed there.")
    commands.post_hits(2)
    commands.lose_hit()
    ask("crowd status")
    ask("crowd approve", "--all", code=2)
    ask.compare(stored_file("crowd-trouble"))


def test_marketplace_commands(ask: Recorder, commands: CrowdCommands, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    url = commands.market.market.engine.url.render_as_string(hide_password=False)
    monkeypatch.setenv("OUTFOX_MARKETPLACE_DATABASE", url)
    commands.paid_hit()
    made = ask("marketplace account", "Another lab")
    ask("marketplace account", "Another lab")
    ask("marketplace deposit", "Another lab", "12.50")
    ask("marketplace web-app", "Another lab", "http://127.0.0.1:8080")
    ask("marketplace key", "Another lab")
    ask("marketplace key", "Another lab", "--revoke", made["access_key_id"])
    (invited,) = ask("marketplace invite", "Eve", "--country", "US", "--adult")
    ask("marketplace invite", "--again", invited["worker_id"])
    ask("marketplace workers")
    ask("marketplace status")
    ask("marketplace payout", "--dry-run")
    paid = ask("marketplace payout", "--yes")
    ask("marketplace payout", "--batch", paid["id"])
    ask.error("error: an unknown account", "marketplace", "deposit", "Nobody", "1")
    ask.compare(stored_file("marketplace"))


def test_task_commands(ask: Recorder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ml_backend.targets.loading.load_target", load_fixed)
    ask("config")
    ask("db upgrade")
    ask("db upgrade")
    ask("db check")
    ask("task list")
    ask("task create", "sentiment")
    ask("task create", "sentiment")
    ask("task create", "qa")
    ask("task list")
    ask("task show", "sentiment")
    file = tmp_path / "mine.jsonl"
    file.write_text('{"prompt": "A walk in the rain."}\n', encoding="utf-8")
    ask("context upload", "sentiment", file, "--dry-run")
    ask("context upload", "sentiment", file, "--replace", "--why", "our own")
    ask("context list", "sentiment")
    ask("context list", "sentiment", "--retired", "--most", 2)
    gold = tmp_path / "gold.jsonl"
    gold.write_text('{"text": "A walk that I remember.", "label": "positive"}\n', encoding="utf-8")
    ask("task gold", "sentiment", gold, "--why", "private")
    ask("task gold", "sentiment")
    ask("data publish", "sentiment", "--why", "open data")
    token = ask("data token", "sentiment", "--days", 30, "--why", "a thesis")
    ask("data list")
    ask("data revoke", token["key"])
    ask("data list", "sentiment")
    ask("data unpublish", "sentiment")
    ask("templates list")
    ask("templates show", "qa")
    ask("templates show", "sentiment")
    ask("templates render", "sentiment")
    ask("templates new", "--from", "sentiment", tmp_path / "moods")
    ask("templates check", "sentiment")
    prompts = tmp_path / "prompts.csv"
    prompts.write_text("prompt\nWrite about a bus.\nWrite about a train.\n", encoding="utf-8")
    ask("templates fill", tmp_path / "moods", "--contexts", prompts)
    ask("templates export", tmp_path / "moods", tmp_path / "moods.zip")
    ask("templates import", tmp_path / "moods.zip", "--to", tmp_path / "packs", "--name", "feelings")
    ask("templates diff", "sentiment", tmp_path / "packs" / "feelings")
    (tmp_path / "moods" / "seed.jsonl").write_text("nothing\n", encoding="utf-8")
    ask.error("error: a broken pack", "templates", "check", tmp_path / "moods")
    ask.error("error: an unknown task", "task", "show", "nothing")
    ask("status")
    ask("doctor", code=None)
    ask.compare(stored_file("tasks"))


def test_round_commands(ask: Recorder, home_tables: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert home_tables
    monkeypatch.setattr("ml_backend.targets.loading.load_target", load_fixed)
    models = tmp_path / "home" / "models"
    make_version(models)
    ask("task create", "sentiment")
    ask("round list", "sentiment")
    ask("round show", "sentiment")
    ask("round budget", "sentiment", "500", "--why", "enough")
    ask("manage", "--once", "--dry-run")
    ask("round open", "sentiment", "--yes", "--why", "we begin")
    with serving(models):
        ask("round open", "sentiment", "--yes")
        ask("model rotate", "sentiment", make_version(models, "negative"))
        ask("model pins", "sentiment")
        ask("model rollback", "sentiment")
    ask("round pause", "sentiment", "--why", "a holiday")
    ask("round pause", "sentiment")
    ask("round show", "sentiment")
    ask("status", "sentiment")
    ask("round resume", "sentiment")
    ask("round list", "sentiment")
    ask("manage", "--once", "--skip", "train")
    ask("round close", "sentiment", "--why", "enough")
    ask("round show", "sentiment", "--round", 1)
    ask("round list", "sentiment")
    ask("task show", "sentiment")
    ask("manage", "--once", "--skip", "train", "--dry-run")
    ask("manage", "--once", "--skip", "train")
    ask("status")
    ask("doctor", code=None)
    ask("round close", "sentiment", "--now")
    with monkeypatch.context() as patch:
        patch.setenv("OUTFOX_ARCHIVES", "/dev/null/archives")
        ask("manage", "--once", "--skip", "train", code=None)
    ask("status")
    ask.error("error: nothing to pause", "round", "pause", "sentiment")
    ask.compare(stored_file("rounds"))


def test_import_commands(ask: Recorder, home_tables: str, tmp_path: Path) -> None:
    assert home_tables
    about = ("--source", "https://example.org", "--licence", "CC-BY-4.0")
    rows = [
        {"id": n, "text": f"Text {n}.", "label": "positive", "split": "train" if n < 4 else "test", "round": 1 + n % 2,
         "votes": "positive; positive; negative", "model": "bert", "prediction": "neutral"}
        for n in range(8)
    ]  # fmt: skip
    file = write_csv(tmp_path / "published.csv", rows)
    ask("task create", "sentiment")
    ask("round import", "sentiment", "--form", "csv", *about, file, "--dry-run")
    ask("round import", "sentiment", "--form", "csv", *about, file, "--citation", "Ours, 2026")
    ask("round list", "sentiment")
    ask("round show", "sentiment", "--round", 1)
    ask("round metrics", "sentiment")
    ask("round verify", "sentiment", "--round", 1)
    ask("status", "sentiment")
    ask("suite import", "sentiment", "checks", "--form", "csv", *about, "--hidden", "--slices", "round", file)
    ask("suite list", "sentiment")
    ask("suite verify", "sentiment", "checks")
    broken = write_csv(tmp_path / "broken.csv", [{"id": 1, "text": "", "label": "maybe"}])
    ask.error("error: a broken line", "round", "import", "sentiment", "--form", "csv", *about, broken)
    ask.error("error: no licence", "round", "import", "sentiment", "--form", "csv", "--source", "here", file)
    ask.compare(stored_file("imports"))


def test_validation_commands(ask: Recorder, home_tables: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_store(home_tables) as store:
        campaign = start_campaign(store)
        examples = [*campaign.confirmed_examples("W1"), *campaign.confirmed_examples("W2")]
        flagged, late = campaign.add_example(), campaign.add_example()
        page = campaign.open_page("W4")
        with campaign.store.write() as session:
            report(session, page, 0, "The text is in French.", now=campaign.now)
            report(session, page, None, "The button is hidden.", now=campaign.now)
        campaign.vote(examples[0], None, None)
        campaign.vote(examples[1], campaign.other_label(examples[1]), None)
        campaign.vote(flagged, flag="It names a person")
        campaign.vote(late, None, None)
        ask("status")
        ask("round decide", "sentiment")
        campaign.vote(late, flag="It names a person")
        ask("round flags", "sentiment")
        ask("round decide", "sentiment", flagged.public_id, "--withdraw", "--why", "it does")
        ask("round decide", "sentiment", late.public_id, "--keep", "--why", "it does not")
        ask("round aggregate", "sentiment")
        ask("round aggregate", "sentiment", "--settle", "--why", "the model is sure")
        ask("round metrics", "sentiment")
        for by in ("worker", "validator"):
            ask("round metrics", "sentiment", "--by", by)
        ask("round suspects", "sentiment")
        ask("crowd reports", "sentiment")
        ask("context list", "sentiment", "--most", 2)
        ask("round show", "sentiment")
        ask("status", "sentiment")
        campaign.mark_closed()
    ask.error("error: a round that is not frozen", "round", "verify", "sentiment")
    frozen = ask("round freeze", "sentiment", "--why", "the paper")
    ask("round freeze", "sentiment")
    ask("round withheld", "sentiment")
    ask("round verify", "sentiment")
    ask("round verify", frozen["archive"])
    ask("round show", "sentiment")
    ask("status")
    take_submissions(ask, home_tables, tmp_path, monkeypatch)
    (Path(frozen["archive"]) / "votes.jsonl").write_text("spoiled", encoding="utf-8")
    ask("round verify", "sentiment", code=1)
    ask.compare(stored_file("validation"))


def take_submissions(ask: Recorder, url: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Submit predictions for a round that does not exist, so that no sandbox is needed."""
    for module in ("ml_backend.sandbox.process", "round_manager.services.submission_runs"):
        monkeypatch.setattr(f"{module}.check_sandbox", lambda: None)
    ask("submissions list", "sentiment")
    ask("submissions allow", "sentiment", "--per-day", 3, "--why", "a shared task")
    files, order = SubmittedFiles(folder / "home" / "submissions"), SubmissionOrder("csv", "mine", data=("round 9",))
    with open_store(url) as store:
        context = ServiceContext(store, SystemClock())
        token = create_token(context, Actor("ada"), "sentiment", days=1)
        read = BytesIO(b"id,prediction\n").read
        key = submit(context, files, token, order, read).row.key
    ask("submissions show", "sentiment", key)
    ask("submissions run", "sentiment")
    ask("submissions run", "sentiment", key)
    ask("submissions list", "sentiment")
    with open_store(url) as store:
        requeue_submission(ServiceContext(store, SystemClock()), Actor("ada"), "sentiment", key)
    ask("submissions cancel", "sentiment", key)
    ask("submissions remove", "sentiment", key)
    ask("submissions close", "sentiment")
    ask.error("error: an unknown submission", "submissions", "show", "sentiment", "0")


def test_label_studio_commands(
    ask: Recorder, home_tables: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    studio = FakeLabelStudio()
    monkeypatch.setattr("plugin.labelstudio.adapter.SdkLabelStudio", lambda url, token: studio)
    monkeypatch.setattr("ml_backend.targets.loading.load_target", load_fixed)
    monkeypatch.setenv("OUTFOX_LABEL_STUDIO_TOKEN", "a" * 40)
    make_version(tmp_path / "home" / "models")
    ask("task create", "sentiment")
    ask("round open", "sentiment", "--yes")
    ask("labelstudio status")
    ask("labelstudio connect", "sentiment")
    ask("labelstudio connect", "sentiment")
    ask("labelstudio push", "sentiment")
    create, _ = sorted(studio.projects)
    written = {"text": "This is positive.", "why_right": "It is not.", "why_wrong": "It says so."}
    config = read_elements(studio.projects[create]["label_config"], "template")
    first, second = studio.numbers(create)[:2]
    studio.annotate(first, results(config, written))
    studio.annotate(second, [])
    ask("labelstudio sync", "sentiment")
    ask("labelstudio push", "sentiment")
    ask("labelstudio sync", "--all", "--from-start")
    ask("labelstudio predictions", "sentiment")
    ask("labelstudio status", "sentiment")
    ask.compare(stored_file("labelstudio"))


def test_model_commands(
    ask: Recorder,
    home_tables: str,
    tiny_base: Path,  # noqa: F811 - a fixture
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pack, models = small_pack(tmp_path / "packs", {"positive": 40}), tmp_path / "home" / "models"
    replace_in(pack.folder / "task.yaml", "base: embedded", f"base: {tiny_base}")
    ask("model list")
    ask("model train", pack.folder, "--mode", "head", "--epochs", 1)
    ask("model evaluate", pack.folder)
    ask("evaluate", pack.folder, models / TASK / version_folder(models, TASK).name)
    ask("model predict", pack.folder, "text=A lovely day.")
    ask("model predict", pack.folder, "text=A lovely day.", "--target", "negative")
    shutil.rmtree(models)
    # From here on models take no time.
    monkeypatch.setattr("ml_backend.targets.loading.load_target", load_fixed)
    monkeypatch.setattr("ml_backend.targets.footprint.version_peak_bytes", lambda directory: None)
    monkeypatch.setattr("round_manager.learning.training_data.LocalTrainer", lambda folder, *_: FakeTrainer(folder))
    ask("task create", pack.folder)
    ask("model jobs", TASK)
    with open_store(home_tables) as store:
        training = find_training(store, pack, models)
        (base,) = training.pin("positive")
        training.add_closed_round(first_round_rows())
        ask("model retrain", TASK, code=2)
        ask("model jobs", TASK)
        ask("model list", TASK)
        ask("model lineage", TASK)
        ask("model lineage", TASK, "--check")
        other = make_version(models, "negative", content={"parent": base})
        ask("model rotate", TASK, other, "--why", "it is better")
        ask("model rollback", TASK, "--why", "it is not")
        ask("model pins", TASK)
        ask("model publish", TASK, base, "--to", tmp_path / "elsewhere")
        ask("model verify", TASK)
        corrupt(models / TASK / other)
        ask("model verify", TASK, code=2)
        with store.write() as session:
            trainer = JobOwner("ada", socket.gethostname(), 2**22 + 1)
            round = closed_rounds(session, training.task_in(session))[-1]
            start_job(session, training.task_in(session), round, "head", trainer, now=datetime.now(UTC))
        ask("model jobs", TASK)
        ask("status", TASK)
        ask("model cancel", TASK)
        ask("model jobs", TASK)
    ask.error("error: an unknown version", "model", "rotate", TASK, "m000000000000")
    ask.compare(stored_file("models"))


def test_leaderboard_commands(ask: Recorder, home_tables: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store_evaluations(tmp_path / "archives", {"va": "ada", "vb": "bo"})
    monkeypatch.setenv("OUTFOX_ARCHIVES", str(tmp_path / "archives"))
    with open_store(home_tables) as store, store.write() as session:
        create_task(session, built_in_pack(SENTIMENT), now=datetime.now(UTC))
    ask("leaderboard show", SENTIMENT)
    ask("leaderboard show", SENTIMENT, "--to", tmp_path / "board.csv")
    ask("data rows", SENTIMENT, "--on", "seed", "--to", tmp_path / "rows.jsonl")
    ask("leaderboard create", SENTIMENT, "Fast", "--weights", "performance=4,throughput=2", "--data-weights", "seed=0")
    ask("leaderboard snapshot", SENTIMENT, "--board", "Fast")
    ask("leaderboard hide", SENTIMENT, "bo")
    ask("leaderboard list", SENTIMENT)
    ask("leaderboard unhide", SENTIMENT, "bo")
    ask("leaderboard remove", SENTIMENT, "Fast")
    ask.error("error: an unknown board", "leaderboard", "show", SENTIMENT, "--board", "Fast")
    ask.compare(stored_file("leaderboards"))


def test_every_command_with_json_has_a_snapshot() -> None:
    with_json = {name for name, command in leaf_commands() if "--json" in options_of(command)}
    covered = {name for part in PARTS for name in snapshot.stored(stored_file(part)) if not name.startswith("error: ")}
    assert with_json - covered - EXCEPTIONS.keys() == set(), "add a call to one of the scenarios above"
    assert covered - with_json == set(), "these commands no longer take --json"
    assert not EXCEPTIONS.keys() & covered


def test_every_error_has_the_keys_that_programs_read() -> None:
    errors = [
        shape
        for part in PARTS
        for name, shape in snapshot.stored(stored_file(part)).items()
        if name.startswith("error")
    ]
    assert len(errors) >= 5
    assert all({"error", "problems"} <= set(shape) for shape in errors)


@contextmanager
def serving(models: Path) -> Iterator[None]:
    """A process that serves the task's models, for as long as the block lasts."""
    pool = ModelPool(QuickRegistry(models), load_fixed, [SENTIMENT])
    pool.start()
    try:
        yield
    finally:
        pool.stop()


def options_of(command: click.Command) -> set[str]:
    return {option for parameter in command.params for option in parameter.opts}
