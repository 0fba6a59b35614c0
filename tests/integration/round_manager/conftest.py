"""Fixtures of the domain's tests: tasks with an open round, with and without a crowd, and a task to train models of."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from round_manager.database.store import Store
from templates import Pack
from tests.integration.round_manager.crowd.counter import Counter, open_counter
from tests.integration.round_manager.learning.school import School, found_school, small_pack, teach
from tests.integration.round_manager.season import Season, begin_season
from tests.integration.round_manager.stage import Stage, set_stage

BeginSeason = Callable[..., Season]


@pytest.fixture
def counter(store: Store) -> Counter:
    """The sentiment task with round 1 open, and a crowd with money."""
    return open_counter(store)


@pytest.fixture(scope="session")
def pack(tmp_path_factory: pytest.TempPathFactory) -> Pack:
    """A small pack with the same number of held-out rows for each label."""
    return small_pack(tmp_path_factory.mktemp("packs"))


@pytest.fixture
def school(store: Store, pack: Pack, tmp_path: Path) -> School:
    """The task without a round, on each kind of database."""
    return found_school(store, pack, tmp_path / "models")


@pytest.fixture
def any_school(any_store: Store, pack: Pack, tmp_path: Path) -> School:
    """The task without a round, for tests that do not depend on the kind of database."""
    return found_school(any_store, pack, tmp_path / "models")


@pytest.fixture
def taught(any_school: School) -> School:
    """A task whose model predicts `positive`, with one closed round of negative rows that fooled it."""
    return teach(any_school)


@pytest.fixture
def stage(store: Store) -> Stage:
    """The sentiment task with an open round."""
    return set_stage(store, "sentiment")


@pytest.fixture
def qa(store: Store) -> Stage:
    """The QA task with an open round."""
    return set_stage(store, "qa")


@pytest.fixture
def season(store: Store) -> Season:
    """The sentiment task with an open round, its pages, a marketplace and payments."""
    return begin_season(store)


@pytest.fixture
def begin(store: Store) -> BeginSeason:
    """The same with other terms: `begin(rounds={"target_fooling": 2})`."""

    def begin(*, contexts: int = 8, **terms: dict[str, Any]) -> Season:
        return begin_season(store, contexts=contexts, **terms)

    return begin
