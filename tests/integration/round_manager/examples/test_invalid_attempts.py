"""Any signed attempt is stored or refused, and the database keeps working."""

import json
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ml_backend.errors import VerdictError
from ml_backend.serving.attempt_record import AttemptRecord
from round_manager.examples.attempts import store_attempts
from tests.campaign import Campaign
from tests.fakes.clock import NOON

LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from([-1, 2**31, 2**63, -(2**63) - 1, 10**30])
    | st.floats()
    | st.text(max_size=50)
    | st.sampled_from(["\x00", "\ud83d", "9999-12-31T23:59:59-23:59", "0001-01-01T00:00:00+14:00", "sentiment", "nli"])
)
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3)
)
KEYS = [
    *("id", "task", "round", "inputs_hash", "fields", "target", "said", "fooled", "judged_at", "latency_us", "source"),
    *("label_studio_project", "label_studio_task"),
]
SAID = ["version", "prediction", "confidence", "probabilities", "fooled"]


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    changes=st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=3),
    said=st.dictionaries(st.sampled_from(SAID), VALUES, max_size=2),
)
def test_any_attempt_is_either_stored_or_refused(campaign: Campaign, changes: Any, said: Any) -> None:
    plain = campaign.attempt_record().to_json()
    plain["said"][0].update(said)
    try:
        odd = AttemptRecord.from_json(json.loads(json.dumps({**plain, **changes})))
    except (VerdictError, OverflowError):
        return
    right = campaign.attempt_record()
    with campaign.store.write() as session:
        intake = store_attempts(session, [odd, right], now=NOON)
    with campaign.store.write() as session:
        again = store_attempts(session, [odd, right], now=NOON)
    assert right.verdict.id not in intake.refused
    assert intake.stored + len(intake.refused) == 2
    assert (again.stored, again.refused) == (0, intake.refused)
