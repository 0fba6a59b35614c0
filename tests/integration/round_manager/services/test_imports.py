"""Published rounds become closed, frozen rounds of a task: all of them or none; collection continues after them."""

import json
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from common.errors import Hint
from outfox.imports.drafts import DraftRound
from outfox.imports.placement import JOURNAL
from round_manager.archive import imported_rounds
from round_manager.archive.imported_rounds import ImportedFigures
from round_manager.archive.storage import FolderArchives, open_archives
from round_manager.errors import (
    ArchiveConflict,
    ArchiveError,
    ImportInvalid,
    ImportNotPossible,
    ProvenanceMissing,
    RefusedError,
    RoundAlreadyOpen,
    RoundImported,
    RoundNumberTaken,
    StoreUnavailableError,
    SuiteExists,
    SuiteNotFound,
)
from round_manager.loop.overview import task_overview
from round_manager.models import AuditEntry, Example, KnownText, Round, RoundStatus, Suite, Task, TextKey
from round_manager.novelty.decisions import find_repetition
from round_manager.services import validation
from round_manager.services.archives import freeze_round, verify_archive, verify_round, verify_suite
from round_manager.services.imports import (
    DataImported,
    ImportRequest,
    import_rounds,
    import_suite,
    index_texts,
    list_suites,
)
from round_manager.services.rounds import finished_round, open_round
from round_manager.services.tasks import list_rounds
from round_manager.tasks.tasks import create_task
from tests.campaign.training import ACTOR, TASK, RoundRow, TrainingCampaign
from tests.fakes.s3 import BUCKET, S3Server
from tests.integration.outfox.published import dynasent_row, write_csv, write_jsonl

VOTES = {"positive": 4, "negative": 1}
ROWS = {"round01-train": 6, "round01-dev": 4, "round02-train": 5, "round02-test": 3}


def texts(round: int, split: str) -> list[str]:
    return [
        f"A published text of round {round} for {split}, number {n}." for n in range(ROWS[f"round0{round}-{split}"])
    ]


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    """Two rounds in DynaSent's form: split votes, and one row without a majority."""
    found = []
    for name in ROWS:
        round, split = int(name[6]), name[8:]
        rows: list[dict[str, Any]] = []
        for place, text in enumerate(texts(round, split)):
            # A third of the votes are split 3 to 2, and the model was fooled by all but one row.
            row = dynasent_row(place, {"positive": 3, "negative": 2} if place % 3 == 2 else VOTES, "positive")
            model = "positive" if place == 0 else "neutral"
            rows.append({**row, "text_id": f"{name}-{place}", "sentence": text, "model_1_label": model})
        if name == "round02-train":
            undecided = dynasent_row(9, {"positive": 2, "negative": 2, "neutral": 1}, None)
            rows.append({**undecided, "text_id": "none", "sentence": "Nobody agrees about this published one."})
        found.append(write_jsonl(tmp_path / "published" / f"{name}.jsonl", rows))
    return found


def request_for(files: list[Path], **changes: Any) -> ImportRequest:
    given = {"form": "dynasent", "source": "https://example.org/dynasent", "licence": "CC-BY-4.0"} | changes
    return ImportRequest(files=files, **given)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "archives"


def run_import(training: TrainingCampaign, request: ImportRequest, place: Path | str, **options: Any) -> DataImported:
    archives = options.pop("archives", None) or open_archives(str(place))
    return import_rounds(training.services, ACTOR, TASK, request, archives, reason="a test", **options)


def rounds_of(training: TrainingCampaign) -> list[tuple[int, str, bool]]:
    found = list_rounds(training.services, TASK)
    return [(one.round.number, one.round.status.value, one.round.is_imported) for one in found]


def tree(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def check_nothing_changed(training: TrainingCampaign, place: Path) -> None:
    assert rounds_of(training) == [(1, "draft", False)]
    assert training.rows(AuditEntry, AuditEntry.action == "imported") == []
    assert not place.exists() or tree(place) == {}


def test_published_rounds_become_closed_frozen_rounds_that_can_be_verified(
    training: TrainingCampaign, files: list[Path], place: Path
) -> None:
    done = run_import(training, request_for(files), place)
    assert [(one.number, one.examples, one.votes) for one in done.archives] == [
        (1, {"verified": 10}, 50),
        (2, {"disputed": 1, "verified": 8}, 45),
    ]
    assert done.next_round == 3
    assert rounds_of(training) == [(1, "closed", True), (2, "closed", True), (3, "draft", False)]
    for number in (1, 2):
        found = verify_round(training.services, TASK, number=number)
        assert (found.result.problems, "the database" in found.result.checked) == ((), True)
        assert verify_archive(found.uri).result.problems == ()
    _, first, second = training.rows(Round)
    assert first.imported["origin"]["licence"] == "CC-BY-4.0"
    assert list(first.imported["origin"]["files"]) == ["round01-dev.jsonl", "round01-train.jsonl"]
    figures = ImportedFigures.of(second)
    assert (figures.train, figures.held_out, figures.rows) == (5, 3, 9)
    entries = training.audit("imported")
    assert [(one.round_id, one.actor, one.reason) for one in entries] == [
        (first.id, ACTOR.name, "a test"),
        (second.id, ACTOR.name, "a test"),
    ]
    assert training.rows(Example) == []


def test_a_tampered_archive_does_not_agree_with_the_database(
    any_training: TrainingCampaign, files: list[Path], place: Path
) -> None:
    run_import(any_training, request_for(files), place)
    other = any_training.services
    run_import_elsewhere = request_for(files, citation="another")
    report = import_suite(other, ACTOR, TASK, "other", run_import_elsewhere, open_archives(str(place)))
    assert report.archives[0].examples == {"disputed": 1, "verified": 18}
    (place / TASK / "round-1").rename(place / "moved")
    (place / TASK / "suite-other").rename(place / TASK / "round-1")
    problems = verify_round(other, TASK, number=1).result.problems
    assert any("the database has the hash" in one for one in problems)


@pytest.mark.any_database
def test_figures_of_an_imported_round_are_those_that_were_published(
    training: TrainingCampaign, files: list[Path], place: Path
) -> None:
    run_import(training, request_for(files), place)
    first, second = validation.round_metrics(training.services, TASK)
    assert (first.imported, first.votes, first.counts.collected, first.counts.fooled) == (True, 50, 10, 8)
    assert (first.counts.verified_fooling, first.counts.judged) == (8, 10)
    # The model's answer to a row without a label is not judged.
    assert (second.counts.collected, second.counts.judged) == (9, 8)
    assert second.counts.vmer.share == 6 / 8
    assert (first.counts.tries_per_fool, first.counts.cents_per_verified) == (None, None)
    assert first.alpha is not None
    with training.store.read() as session:
        shown = task_overview(session, training.task_in(session), now=training.now)
    assert (shown.round, shown.imported, shown.vmer.share) == (2, True, 6 / 8)
    assert shown.waits_for[0].hint == Hint("open_round", task=TASK)


USES: dict[str, Callable[[TrainingCampaign], object]] = {
    "by label": lambda training: validation.metrics_by(training.services, TASK, "label", number=1),
    "suspects": lambda training: validation.list_suspects(training.services, TASK, number=1),
    "votes": lambda training: validation.count_votes(training.services, TASK, number=1),
    "examples": lambda training: validation.list_examples(training.services, TASK, number=1),
}


def test_what_needs_rows_in_the_database_says_that_the_round_was_imported(
    any_training: TrainingCampaign, files: list[Path], place: Path
) -> None:
    run_import(any_training, request_for(files), place)
    for use in USES.values():
        with pytest.raises(RoundImported) as caught:
            use(any_training)
        assert caught.value.hint == Hint("verify_round", task=TASK, round=1)


def test_collection_continues_and_models_learn_from_imported_rows(
    training: TrainingCampaign, files: list[Path], place: Path
) -> None:
    run_import(training, request_for(files), place)
    assert finished_round(training.services, TASK) is None, "the owner opens the round after an import"
    held_out = texts(1, "dev")[1]
    opened = training.add_closed_round([RoundRow("A row of our own."), RoundRow(held_out)])
    assert opened.number == 3
    data = training.training_rows()
    learned = {row.fields["text"] for row in data.rows if row.split == "train"}
    assert {*texts(1, "train"), *texts(2, "train"), "A row of our own."} <= learned
    assert learned.isdisjoint({*texts(1, "dev"), *texts(2, "test")})
    assert [(one.round, one.rows, one.left_out) for one in data.sources][1:] == [(1, 6, 0), (2, 5, 0), (3, 1, 1)]
    assert [(one.name, len(one.rows)) for one in data.held_out][1:] == [("round 1", 4), ("round 2", 3)]
    trained = training.retrain()
    assert trained.round == 3


@pytest.mark.any_database
def test_a_model_can_be_trained_on_imported_rounds_alone(
    training: TrainingCampaign, files: list[Path], place: Path
) -> None:
    # The last of them has held-out rows only.
    run_import(training, request_for(files[:2]), place)
    run_import(training, request_for(files[3:]), place)
    training.pin("positive")
    assert training.retrain().round == 2
    assert [one.round for one in training.training_rows().sources] == [None, 1, 2]


def test_imported_texts_are_not_new(training: TrainingCampaign, files: list[Path], place: Path) -> None:
    done = run_import(training, request_for(files), place)
    assert done.texts == 19
    assert index_texts(training.services, TASK) == 0
    with training.store.read() as session:
        found = session.scalars(select(KnownText.name).where(KnownText.name.startswith("imported:"))).all()
        assert len(found) == len(set(found)) == 19
        draft = training.rows(Round, Round.status == RoundStatus.DRAFT)[0]
        for text, is_known in ((texts(2, "test")[0].upper(), True), ("Nobody published anything like it.", False)):
            same = find_repetition(session, draft, training.spec, 1, {"prompt": "A meal.", "text": text})
            assert (same.name if same else None) == ("imported:2:round02-test-0" if is_known else None)


def test_a_round_opens_only_when_all_imported_texts_are_known(
    training: TrainingCampaign, files: list[Path], place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        # As if the process were killed after the import itself.
        patch.setattr("round_manager.services.imports.index_texts", lambda *_: 0)
        run_import(training, request_for(files), place)
        assert training.rows(KnownText, KnownText.name.startswith("imported:")) == []
    version = training.pin("positive")
    opened = open_round(training.services, ACTOR, TASK, version, models=training.ports().models, in_house=True)
    assert opened.number == 3
    assert len(training.rows(KnownText, KnownText.name.startswith("imported:"))) == 19
    with training.store.read() as session:
        assert session.scalars(select(func.count()).select_from(TextKey)).one() > 19


def test_the_same_import_is_repeated_without_a_change(
    any_training: TrainingCampaign, files: list[Path], place: Path, tmp_path: Path
) -> None:
    plain = write_csv(
        tmp_path / "plain.csv", [{"id": str(n), "text": f"Text {n}.", "label": "positive"} for n in range(9)]
    )
    for request in (request_for(files), request_for([plain], form="csv")):
        first = run_import(any_training, request, place)
        before = tree(place)
        again = run_import(any_training, request, place)
        assert [one.already for one in again.archives] == [True for _ in first.archives]
        assert again.archives == tuple(replace(one, already=True) for one in first.archives)
        assert (tree(place), again.texts) == (before, 0)
    assert [number for number, _, _ in rounds_of(any_training)] == [1, 2, 3, 4]


def test_round_numbers_never_collide(any_training: TrainingCampaign, files: list[Path], place: Path) -> None:
    any_training.add_closed_round([RoundRow("Collected before.")])
    with pytest.raises(RoundNumberTaken) as caught:
        run_import(any_training, request_for(files), place)
    assert caught.value.hint == Hint("renumber_round", task=TASK, round=1, number=2)
    assert rounds_of(any_training) == [(1, "closed", False)]
    assert not place.exists()
    run_import(any_training, request_for(files, renumber={1: 2, 2: 3}), place)
    assert rounds_of(any_training) == [(1, "closed", False), (2, "closed", True), (3, "closed", True)]
    assert any_training.add_closed_round([RoundRow("Collected after.")]).number == 4
    assert any_training.rows(Round, Round.number == 3)[0].imported["origin"]["published_round"] == 2


def test_nothing_is_imported_while_a_round_is_live(
    any_training: TrainingCampaign, files: list[Path], place: Path
) -> None:
    version = any_training.pin("positive")
    open_round(any_training.services, ACTOR, TASK, version, models=any_training.ports().models, in_house=True)
    with pytest.raises(RoundAlreadyOpen) as caught:
        run_import(any_training, request_for(files), place)
    assert caught.value.hint == Hint("close_round", task=TASK)
    assert not place.exists()


def test_a_dry_run_changes_nothing(any_training: TrainingCampaign, files: list[Path], place: Path) -> None:
    done = run_import(any_training, request_for(files), place, dry_run=True)
    assert ([one.number for one in done.archives], done.next_round, done.dry_run) == ([1, 2], 3, True)
    check_nothing_changed(any_training, place)


REFUSED: dict[str, tuple[dict[str, Any], type[Exception]]] = {
    "no licence": ({"licence": " "}, ProvenanceMissing),
    "no source": ({"source": ""}, ProvenanceMissing),
    "an unknown form": ({"form": "xml"}, ImportNotPossible),
    "two splits for four files": ({"splits": ["train", "dev"]}, ImportNotPossible),
    "other labels": ({"labels": {"positive": "great"}}, ImportInvalid),
    "an unknown column": ({"columns": {"colour": "text"}}, ImportInvalid),
    "a missing file": ({"files": ["nowhere.jsonl"]}, ImportInvalid),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_imported_is_refused_and_nothing_changes(
    what: str, any_training: TrainingCampaign, files: list[Path], place: Path
) -> None:
    change, error = REFUSED[what]
    with pytest.raises(error) as caught:
        run_import(any_training, replace(request_for(files), **change), place)
    assert getattr(caught.value, "hint", None) == Hint("describe_import")
    check_nothing_changed(any_training, place)


def test_labels_of_others_are_mapped_to_those_of_the_task(
    any_training: TrainingCampaign, place: Path, tmp_path: Path
) -> None:
    rows = [{"id": str(n), "text": f"Text {n}.", "label": ("POS", "-1")[n % 2], "split": "train"} for n in range(4)]
    file = write_csv(tmp_path / "r.csv", rows)
    with pytest.raises(ImportInvalid) as caught:
        run_import(any_training, request_for([file], form="csv"), place)
    assert [(one.line, one.code) for one in caught.value.problems] == [(2, "label_unknown"), (3, "label_unknown")]
    check_nothing_changed(any_training, place)
    mapped = request_for([file], form="csv", labels={"POS": "positive", "-1": "negative"})
    run_import(any_training, mapped, place)
    assert {row.label for row in any_training.training_rows().rows if row.fields["text"].startswith("Text")} == {
        "positive",
        "negative",
    }


class FullDisk(FolderArchives):
    """The disk is full when the second archive is placed."""

    def place(self, task: str, drafts: Any) -> None:
        super().place(task, dict(list(drafts.items())[:1]))
        raise OSError(28, "No space left on device")


def test_after_an_error_neither_archives_nor_rounds_are_left(
    any_training: TrainingCampaign, files: list[Path], place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ArchiveError):
        run_import(any_training, request_for(files), place, archives=FullDisk(place))
    check_nothing_changed(any_training, place)
    add = imported_rounds._add_round

    def add_only_the_first(session: Session, task: Task, one: DraftRound, *rest: Any) -> None:
        if one.number == 2:
            raise StoreUnavailableError("the connection is lost")
        add(session, task, one, *rest)

    monkeypatch.setattr(imported_rounds, "_add_round", add_only_the_first)
    with pytest.raises(StoreUnavailableError):
        run_import(any_training, request_for(files), place)
    check_nothing_changed(any_training, place)


def test_an_archive_of_others_in_the_same_place_is_kept(
    any_training: TrainingCampaign, files: list[Path], place: Path
) -> None:
    (place / TASK / "round-2").mkdir(parents=True)
    (place / TASK / "round-2" / "note.txt").write_text("mine", "utf-8")
    with pytest.raises(ArchiveConflict):
        run_import(any_training, request_for(files), place)
    assert tree(place) == {f"{TASK}/round-2/note.txt": b"mine"}
    assert rounds_of(any_training) == [(1, "draft", False)]


# Where the import becomes visible: these lines are interrupted one by one.
INTERRUPTED = ("placement.py", "imported_rounds.py", "imported_texts.py", "imports.py", "known_texts_bulk.py")
EVERY = int(os.environ.get("OUTFOX_IMPORT_KILLS", "31"))


def killed_at(number: int, run: Callable[[], object]) -> int:
    """Run in a process of its own, which is killed at the n-th line; return its exit code."""
    process = os.fork()
    if process:
        return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    seen: set[tuple[str, int]] = set()

    def trace(frame: FrameType, event: str, _argument: object) -> Any:
        name = frame.f_code.co_filename
        if not name.endswith(INTERRUPTED) or "/tests/" in name:
            return None
        if event == "line":
            seen.add((name, frame.f_lineno))
            if len(seen) == number:
                os.kill(os.getpid(), signal.SIGKILL)
        return trace

    code = 1
    try:
        sys.settrace(trace)
        run()
        code = 0
    finally:
        sys.settrace(None)
        os._exit(code)


@pytest.mark.any_database
def test_an_import_killed_at_any_line_happened_whole_or_not_at_all(
    training: TrainingCampaign, files: list[Path], place: Path, databases: Any
) -> None:
    number, code, ended = 1, -signal.SIGKILL, set()
    while code == -signal.SIGKILL:
        own, target = databases.opened(), place / str(number)
        with own as store:
            mine = replace(training, store=store)
            _create(mine)
            store.engine.dispose()
            code = killed_at(number, partial(run_import, mine, request_for(files), target))
            assert code in (0, -signal.SIGKILL)
            rounds = rounds_of(mine)
            assert rounds in ([(1, "draft", False)], [(1, "closed", True), (2, "closed", True), (3, "draft", False)])
            ended.add(len(rounds))
            if len(rounds) == 3:
                assert all(verify_round(mine.services, TASK, number=one).result.problems == () for one in (1, 2))
            # The next import, of other files, removes what was placed in vain, or continues what was complete.
            run_import(mine, request_for(files if len(rounds) == 3 else files[2:]), target)
            assert len(mine.rows(KnownText, KnownText.name.startswith("imported:"))) == (19 if len(rounds) == 3 else 9)
            left = {str(one.relative_to(target / TASK)) for one in (target / TASK).iterdir()}
            assert left == ({"round-1", "round-2"} if len(rounds) == 3 else {"round-2"})
        number += EVERY
    assert ended == {1, 3}


def _create(training: TrainingCampaign) -> None:
    with training.store.write() as session:
        create_task(session, training.pack, now=training.now)


@pytest.mark.any_database
def test_archives_of_an_import_are_in_the_bucket_or_none_of_them(
    training: TrainingCampaign, files: list[Path], bucket: str, s3_server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    def keys() -> list[str]:
        found = s3_server.client.list_objects_v2(Bucket=BUCKET).get("Contents", ())
        return sorted({one["Key"].rpartition("/")[0] for one in found if JOURNAL not in one["Key"]})

    archives = open_archives(bucket)
    with monkeypatch.context() as patch:
        # As if the process were killed before the transaction.
        patch.setattr("round_manager.services.imports._Import._add", lambda *_: os._exit(7))
        process = os.fork()
        if not process:
            run_import(training, request_for(files), bucket)
        assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 7
    assert keys() == [f"archives/{TASK}/round-1", f"archives/{TASK}/round-2"]
    run_import(training, request_for(files[2:]), bucket, archives=archives)
    assert keys() == [f"archives/{TASK}/round-2"]
    assert verify_round(training.services, TASK, number=2).result.problems == ()
    assert training.training_rows().sources[-1].rows == 5


def test_freezing_an_imported_round_copies_its_archive(
    any_training: TrainingCampaign, files: list[Path], place: Path, tmp_path: Path
) -> None:
    done = run_import(any_training, request_for(files), place)
    context, elsewhere = any_training.services, open_archives(str(tmp_path / "elsewhere"))
    copied = freeze_round(context, ACTOR, TASK, elsewhere, number=1, move=True)
    assert (copied.already, copied.moved, copied.sha256) == (True, True, done.archives[0].sha256)
    assert (copied.splits.train, copied.splits.held_out) == (6, 4)
    found = verify_round(context, TASK, number=1)
    assert (found.uri, found.result.problems) == (copied.where, ())


def suite_file(folder: Path, count: int = 6) -> Path:
    rows = [
        {"id": str(n), "text": f"A test of group {n % 2}, number {n}.", "label": "positive", "group": str(n % 2)}
        for n in range(count)
    ]
    return write_csv(folder / "suite.csv", rows)


def test_no_model_is_trained_on_a_test_suite(training: TrainingCampaign, place: Path, tmp_path: Path) -> None:
    request = request_for([suite_file(tmp_path)], form="csv", slices=["group"])
    options: dict[str, Any] = {"hidden": True, "reason": "a test"}
    for already in (False, True):
        done = import_suite(training.services, ACTOR, TASK, "groups", request, open_archives(str(place)), **options)
        assert [(one.already, one.examples) for one in done.archives] == [(already, {"verified": 6})]
    (suite,) = list_suites(training.services, TASK)
    assert (suite.name, suite.hidden, suite.examples, suite.origin["slices"]) == ("groups", True, 6, ["group"])
    assert verify_suite(training.services, TASK, "groups").result.problems == ()
    assert rounds_of(training) == [(1, "draft", False)]
    copy = "A test of group 1, number 3."
    training.add_closed_round([RoundRow(copy), RoundRow("A row of our own.")])
    learned = {row.fields["text"] for row in training.training_rows().rows}
    assert copy not in learned
    assert "A row of our own." in learned
    assert [(one.after or {})["hidden"] for one in training.audit("imported")] == [True]


def test_a_suite_never_changes(any_training: TrainingCampaign, place: Path, tmp_path: Path) -> None:
    archives, context = open_archives(str(place)), any_training.services
    import_suite(context, ACTOR, TASK, "groups", request_for([suite_file(tmp_path)], form="csv"), archives)
    before = tree(place)
    with pytest.raises(SuiteExists) as caught:
        import_suite(context, ACTOR, TASK, "groups", request_for([suite_file(tmp_path, 7)], form="csv"), archives)
    assert caught.value.hint == Hint("list_suites", task=TASK)
    with pytest.raises(SuiteNotFound):
        verify_suite(context, TASK, "others")
    for name in ("", "../groups", "Groups", "x" * 41):
        with pytest.raises(ImportNotPossible):
            import_suite(context, ACTOR, TASK, name, request_for([suite_file(tmp_path)], form="csv"), archives)
    assert tree(place) == before
    with pytest.raises(RefusedError), any_training.store.write() as session:
        session.scalars(select(Suite)).one().hidden = True


def test_the_journal_of_a_shared_folder_removes_nothing_else(
    any_training: TrainingCampaign, files: list[Path], place: Path
) -> None:
    precious = place / "precious"
    (place / TASK).mkdir(parents=True)
    precious.mkdir()
    (precious / "manifest.json").write_text("{}", "utf-8")
    journal = {"owner": "database", "places": {"../precious": "", "round-1/../../precious": "", "round-9": "x"}}
    (place / TASK / JOURNAL).write_text(json.dumps(journal), "utf-8")
    run_import(any_training, request_for(files), place)
    assert precious.is_dir()
