"""A marketplace over HTTP for each test, and a requester who calls it with boto3."""

from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.fakes.market import MarketServer
from tests.integration.databases import Databases

PAGE = "https://example.org/task?round=1&lang=en"
TYPE = {
    "Title": "Fool the model",
    "Description": "Write a sentence that a model gets wrong.",
    "Keywords": "text, writing",
    "Reward": "0.25",
    "AssignmentDurationInSeconds": 600,
    "AutoApprovalDelayInSeconds": 86_400,
}


def question(url: str = PAGE, extra: str = "<FrameHeight>600</FrameHeight>") -> str:
    """Return the XML of an ExternalQuestion."""
    url = url.replace("&", "&amp;")
    schema = "http://mechanicalturk.amazonaws.com/AWSMechanicalTurkDataSchemas/2006-07-14/ExternalQuestion.xsd"
    return f'<ExternalQuestion xmlns="{schema}"><ExternalURL>{url}</ExternalURL>{extra}</ExternalQuestion>'


class Requests:
    """A requester's API calls, with common defaults."""

    def __init__(self, server: MarketServer, client: Any) -> None:
        self.server, self.client = server, client
        self._type_id = ""

    @property
    def type_id(self) -> str:
        """A HIT type, created at its first use."""
        self._type_id = self._type_id or self.client.create_hit_type(**TYPE)["HITTypeId"]
        return self._type_id

    def hit(self, **changes: Any) -> dict[str, Any]:
        """Create a HIT of the type."""
        members = {"HITTypeId": self.type_id, "LifetimeInSeconds": 3600, "Question": question(), **changes}
        made: dict[str, Any] = self.client.create_hit_with_hit_type(**members)["HIT"]
        return made

    def seen(self, hit: dict[str, Any]) -> dict[str, Any]:
        """Return the HIT as it is now."""
        found: dict[str, Any] = self.client.get_hit(HITId=hit["HITId"])["HIT"]
        return found

    def counts(self, hit: dict[str, Any]) -> tuple[int, int, int]:
        """Return the numbers of pending, available and completed assignments."""
        seen = self.seen(hit)
        return tuple(seen[f"NumberOfAssignments{kind}"] for kind in ("Pending", "Available", "Completed"))

    def balance(self) -> tuple[str, str]:
        """Return the available balance and the balance on hold."""
        response = self.client.get_account_balance()
        return response["AvailableBalance"], response["OnHoldBalance"]


def refused(code: str, call: Any, **members: Any) -> str:
    """Assert that a call is refused with this error code; return the message."""
    with pytest.raises(ClientError) as caught:
        call(**members)
    response = caught.value.response
    assert response["Error"]["Code"] == "RequestError", response
    assert response["TurkErrorCode"] == f"AWS.MechanicalTurk.{code}", response
    assert response["ResponseMetadata"]["HTTPStatusCode"] == 400
    return str(response["Message"])


@pytest.fixture
def server(any_databases: Databases) -> Iterator[MarketServer]:
    """A marketplace with one requester who has $10,000."""
    url = any_databases.empty()
    with MarketServer(url) as running:
        yield running
    any_databases.drop(url)


@pytest.fixture
def lab(server: MarketServer) -> Requests:
    """The requester, with an unmodified boto3 client."""
    # botocore's own checks are off, so that the marketplace's are tested.
    return Requests(server, server.client(parameter_validation=False))
