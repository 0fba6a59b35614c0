"""What the adapter reports when Label Studio refuses a request."""

import json
from collections.abc import Iterator

import pytest

from plugin.labelstudio.adapter import SdkLabelStudio
from round_manager.labelstudio.port import LabelStudioRefused
from tests.fakes.own_page import OwnPage

SECRET = "what a worker typed"


@pytest.fixture
def refusing() -> Iterator[OwnPage]:
    """A Label Studio that refuses everything, and repeats what that was, as the real one does."""
    with OwnPage(400, **{"Content-Type": "application/json"}) as page:
        reasons = {"non_field_errors": [f"Error at item 0: too odd :: {{'data': {{'text': '{SECRET}'}}}}"]}
        page.body = json.dumps({"detail": f"Validation error: {SECRET}", "validation_errors": reasons})
        yield page


def test_refusals_do_not_quote_what_people_wrote(refusing: OwnPage) -> None:
    studio = SdkLabelStudio(refusing.url, "t" * 40)
    for send in (
        lambda: studio.add_tasks(1, [{"data": {"text": SECRET}}]),
        lambda: studio.add_predictions(1, [{"task": 1, "result": []}]),
    ):
        with pytest.raises(LabelStudioRefused, match=r"status 400.*non_field_errors") as told:
            send()
        assert SECRET not in str(told.value)
    refusing.body = json.dumps({"detail": SECRET})
    with pytest.raises(LabelStudioRefused, match="status 400") as told:
        studio.add_tasks(1, [{"data": {"text": SECRET}}])
    assert SECRET not in str(told.value)


def test_refused_project_settings_are_explained(refusing: OwnPage) -> None:
    refusing.body = json.dumps({"validation_errors": {"label_config": ["there is no tag <b>Chooses</b>"]}})
    with pytest.raises(LabelStudioRefused, match="refuses the request: label_config: there is no tag Chooses"):
        SdkLabelStudio(refusing.url, "t" * 40).create_project({"title": "A project"})
