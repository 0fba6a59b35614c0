"""Forbidden changes, each with the rule that refuses it."""

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from sqlalchemy.orm import Session

from round_manager.errors import RefusedError
from tests.integration.round_manager.database.sample_rows import SampleRows

Deed = Callable[[SampleRows, Session], None]


@dataclass
class Forbidden:
    """Collects forbidden changes; their names become the test ids."""

    deeds: list[tuple[str, Deed]] = field(default_factory=list)

    def __call__(self, rule: str) -> Callable[[Deed], Deed]:
        """Register a change that this rule must refuse."""

        def note(deed: Deed) -> Deed:
            self.deeds.append((rule, deed))
            return deed

        return note

    @property
    def cases(self) -> list[object]:
        """Return the changes as pytest parameters."""
        return [pytest.param(rule, deed, id=deed.__name__) for rule, deed in self.deeds]


def check_refused(sample: SampleRows, rule: str, deed: Deed) -> None:
    """Make the change, and check that the named rule refuses it."""
    with pytest.raises(RefusedError) as caught, sample.write() as session:
        deed(sample, session)
    if sample.store.engine.dialect.name == "sqlite" and rule.startswith("fk_"):
        # SQLite does not say which.
        assert "FOREIGN KEY constraint failed" in str(caught.value)
    elif sample.store.engine.dialect.name == "sqlite" and rule.startswith("uq_"):
        assert "UNIQUE constraint failed" in str(caught.value)
    else:
        assert caught.value.rule == rule
