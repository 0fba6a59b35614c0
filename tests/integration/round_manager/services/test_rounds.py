"""Opening a round: the registry and the database change one after the other, and a crash may come between them."""

from pathlib import Path
from typing import Any

import pytest

from common.errors import Hint
from ml_backend.errors import ModelError
from ml_backend.registry.pins import Pins
from round_manager.database.store import Store
from round_manager.errors import (
    ModelVersionError,
    NoModelVersion,
    RoundAlreadyOpen,
    StoreUnavailableError,
    TaskNotFound,
)
from round_manager.learning.versions import find_versions
from round_manager.models import RoundStatus
from round_manager.services.context import ServiceContext
from round_manager.services.model_versions import register_versions
from round_manager.services.rounds import RoundOpened
from round_manager.tasks.rounds import list_rounds, open_round
from round_manager.tasks.tasks import create_task, find_task
from templates import find_pack
from tests.fakes.clock import NOON, SettableClock
from tests.fakes.registry import QuickRegistry, corrupt, load_fixed, make_version
from tests.fakes.round_opener import RoundOpener


class Killed(BaseException):
    """The process is killed at this point."""


class DiesAfterPinning(QuickRegistry):
    """A registry whose process is killed after pinning."""

    def set_pins(self, *arguments: Any, **options: Any) -> Pins:
        super().set_pins(*arguments, **options)
        raise Killed


class SomebodyElseIsFaster(QuickRegistry):
    """While versions are pinned, another owner opens the round against another one."""

    store: Store
    theirs: str

    def set_pins(self, task: str, *arguments: Any, **options: Any) -> Pins:
        if self.theirs:
            with self.store.write() as session:
                row = find_task(session, task)
                versions = find_versions(session, row, [self.theirs])
                open_round(session, row, versions, now=NOON, actor="another", reason="")
            self.theirs = ""
        return super().set_pins(task, *arguments, **options)


@pytest.fixture
def models(tmp_path: Path) -> Path:
    return tmp_path / "models"


@pytest.fixture
def task(store: Store) -> str:
    with store.write() as session:
        return create_task(session, find_pack("sentiment"), now=NOON).name


def opening(store: Store, models: Path, registry: type[QuickRegistry] = QuickRegistry) -> RoundOpener:
    return RoundOpener(store, registry(models), str(models), load_fixed, SettableClock(), timeout=5)


def open_it(opener: RoundOpener, *versions: str) -> RoundOpened:
    return opener.open("sentiment", versions, actor="owner@here", reason="a test")


def statuses(store: Store) -> list[RoundStatus]:
    with store.read() as session:
        return [one.status for one in list_rounds(session, find_task(session, "sentiment"))]


@pytest.mark.any_database
@pytest.mark.usefixtures("task")
def test_a_round_opens_against_the_newest_version_and_pins_it(store: Store, models: Path) -> None:
    make_version(models, "negative")
    newest = make_version(models, "positive")
    opened = open_it(opening(store, models))
    assert opened == RoundOpened("sentiment", 1, (newest,), already=False)
    pin_set = QuickRegistry(models).pin_set("sentiment")
    assert [(one.round, one.versions) for one in pin_set.all()] == [(None, (newest,)), (1, (newest,))]
    assert pin_set.history[-1].who == "owner@here"
    assert statuses(store) == [RoundStatus.OPEN]


@pytest.mark.any_database
@pytest.mark.usefixtures("task")
def test_the_tasks_pinned_version_precedes_the_newest(store: Store, models: Path) -> None:
    pinned = make_version(models, "negative")
    make_version(models, "positive")
    QuickRegistry(models).set_pins("sentiment", [pinned])
    assert open_it(opening(store, models)).versions == (pinned,)


@pytest.mark.usefixtures("task")
def test_several_versions_play_together_in_the_order_given(store: Store, models: Path) -> None:
    first, second = make_version(models, "negative"), make_version(models, "positive")
    assert open_it(opening(store, models), second, first).versions == (second, first)


@pytest.mark.any_database
@pytest.mark.usefixtures("task")
def test_opening_again_changes_nothing(store: Store, models: Path) -> None:
    version = make_version(models)
    open_it(opening(store, models))
    generation = QuickRegistry(models).pin_set("sentiment").generation
    make_version(models, "negative")
    assert open_it(opening(store, models)) == RoundOpened("sentiment", 1, (version,), already=True)
    assert QuickRegistry(models).pin_set("sentiment").generation == generation


@pytest.mark.any_database
@pytest.mark.usefixtures("task")
def test_a_live_round_is_pinned_again_where_the_registry_lost_it(store: Store, models: Path) -> None:
    version = make_version(models)
    open_it(opening(store, models))
    (models / "sentiment" / "pins.json").unlink()
    open_it(opening(store, models))
    pins = QuickRegistry(models).pin_set("sentiment").own(1)
    assert pins is not None
    assert pins.versions == (version,)


@pytest.mark.usefixtures("task")
def test_killed_between_pinning_and_opening_the_same_command_finishes_it(store: Store, models: Path) -> None:
    QuickRegistry(models).set_pins("sentiment", [make_version(models, "neutral")])
    version = make_version(models)
    with pytest.raises(Killed):
        open_it(opening(store, models, DiesAfterPinning), version)
    assert statuses(store) == [RoundStatus.DRAFT]
    assert open_it(opening(store, models), version) == RoundOpened("sentiment", 1, (version,), already=False)
    assert statuses(store) == [RoundStatus.OPEN]


@pytest.mark.any_database
@pytest.mark.usefixtures("task")
def test_a_version_that_does_not_load_opens_nothing(store: Store, models: Path) -> None:
    broken = make_version(models, fault="broken")
    with pytest.raises(ModelError, match="does not load"):
        open_it(opening(store, models), broken)
    assert statuses(store) == [RoundStatus.DRAFT]
    assert QuickRegistry(models).pin_set("sentiment").own(1) is None


@pytest.mark.any_database
@pytest.mark.usefixtures("task")
def test_a_version_whose_files_were_changed_opens_nothing(store: Store, models: Path) -> None:
    version = make_version(models)
    corrupt(models / "sentiment" / version)
    with pytest.raises(ModelError):
        open_it(opening(store, models), version)
    assert statuses(store) == [RoundStatus.DRAFT]


@pytest.mark.any_database
@pytest.mark.usefixtures("task")
def test_a_live_round_is_not_opened_against_others(store: Store, models: Path) -> None:
    version = make_version(models)
    open_it(opening(store, models))
    with pytest.raises(RoundAlreadyOpen, match=version):
        open_it(opening(store, models), make_version(models, "negative"))
    assert QuickRegistry(models).pin_set("sentiment").pins(1).versions == (version,)  # type: ignore[union-attr]


@pytest.mark.usefixtures("task")
def test_when_two_owners_open_concurrently_the_stored_versions_are_pinned(store: Store, models: Path) -> None:
    theirs, ours = make_version(models, "negative"), make_version(models, "positive")
    opener = opening(store, models, SomebodyElseIsFaster)
    assert isinstance(opener.registry, SomebodyElseIsFaster)
    opener.registry.store, opener.registry.theirs = store, theirs
    services = ServiceContext(store, opener.clock)
    register_versions(services, opener.models, "sentiment", [theirs])
    with pytest.raises(RoundAlreadyOpen, match=theirs):
        open_it(opener, ours)
    assert QuickRegistry(models).pin_set("sentiment").pins(1).versions == (theirs,)  # type: ignore[union-attr]


@pytest.mark.any_database
@pytest.mark.usefixtures("task")
def test_without_a_model_the_hint_is_to_train_one(store: Store, models: Path) -> None:
    with pytest.raises(NoModelVersion) as caught:
        open_it(opening(store, models))
    assert caught.value.hint == Hint("train_model", task="sentiment")


@pytest.mark.any_database
def test_without_the_task_the_hint_is_to_create_it(store: Store, models: Path) -> None:
    with pytest.raises(TaskNotFound) as caught:
        open_it(opening(store, models))
    assert caught.value.hint == Hint("create_task", pack="sentiment")


@pytest.mark.any_database
def test_a_model_with_other_labels_is_refused(store: Store, models: Path) -> None:
    version = make_version(models, task="nli")
    with store.write() as session:
        create_task(session, find_pack("nli"), now=NOON)
    with pytest.raises(ModelVersionError):
        opening(store, models).open("nli", [version], actor="owner", reason="")


@pytest.mark.any_database
@pytest.mark.usefixtures("task")
def test_a_database_that_goes_away_after_pinning_leaves_a_draft_that_the_next_run_opens(
    store: Store, models: Path
) -> None:
    version = make_version(models)

    class GoesAway(QuickRegistry):
        def set_pins(self, *arguments: Any, **options: Any) -> Pins:
            pins = super().set_pins(*arguments, **options)
            if options.get("round") == 1:
                raise StoreUnavailableError("gone")
            return pins

    with pytest.raises(StoreUnavailableError):
        open_it(opening(store, models, GoesAway))
    assert open_it(opening(store, models)).versions == (version,)
    assert statuses(store) == [RoundStatus.OPEN]
