"""Strategies for the marketplace's API, made from botocore's model of MTurk: every operation, every member."""

import json
from functools import cache
from random import Random
from typing import Any

import botocore.session
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from hypothesis import strategies as st

from tests.fuzz.mutation import changed, encoded
from tests.fuzz.sent import Sent
from tests.fuzz.world import World

URL = "http://127.0.0.1/"
SCHEMA = "http://mechanicalturk.amazonaws.com/AWSMechanicalTurkDataSchemas/2006-07-14/ExternalQuestion.xsd"
QUESTION = (
    f'<ExternalQuestion xmlns="{SCHEMA}"><ExternalURL>https://pages.example/hit</ExternalURL>'
    "<FrameHeight>0</FrameHeight></ExternalQuestion>"
)
# Values without which most calls would be refused at once.
USUAL: dict[str, tuple[Any, ...]] = {
    "Question": (QUESTION, QUESTION.replace("https", "javascript"), "<a>", "<!DOCTYPE a>" + QUESTION),
    "Reward": ("0.05", "1", "0.001", "-1", "1e3"),
    "BonusAmount": ("0.05", "0.01", "99999999999"),
    "Destination": ("https://sqs.us-east-1.amazonaws.com/1/q", "http://10.0.0.1/1/q", "https://[::ffff:127.0.0.1]/1/q"),
    "Transport": ("SQS", "SNS"),
    "Version": ("2014-08-15", "2006-05-05"),
    "QualificationTypeId": ("000000000000000000L0", "00000000000000000071", "X" * 20),
    "NextToken": ("x", "AAAA", "%%%", "eyJhIjoxfQ=="),
    "UniqueRequestToken": ("one", "two"),
    "Country": ("US", "DE", "XX"),
}


@cache
def service() -> Any:
    """Return the model of MTurk."""
    return botocore.session.get_session().get_service_model("mturk")


def operation_requests(world: World) -> st.SearchStrategy[Sent]:
    """Return signed calls of every operation."""
    names = sorted(service().operation_names)
    strategies = {name: _shape(service().operation_model(name).input_shape, world.known) for name in names}
    credentials = Credentials(world.key.id, world.key.secret)

    @st.composite
    def request(draw: st.DrawFn) -> Sent:
        name = draw(st.sampled_from(names))
        members, dice = draw(strategies[name]), Random(draw(st.integers(0, 2**32)))
        body = encoded(dice, changed(dice, members)) if dice.random() < 0.5 else json.dumps(members).encode()
        target = f"{service().metadata['targetPrefix']}.{name if dice.random() < 0.98 else 'Nothing'}"
        headers = {"Content-Type": "application/x-amz-json-1.1", "X-Amz-Target": target}
        signed = AWSRequest("POST", URL, data=body, headers={**headers, "Host": "127.0.0.1"})
        SigV4Auth(credentials, "mturk-requester", "us-east-1").add_auth(signed)
        headers |= dict(signed.headers.items())
        broken = dice.randrange(50)
        if broken == 0:
            headers["Authorization"] = headers["Authorization"][: -dice.randrange(1, 90)]
        elif broken == 1:
            del headers["Authorization"]
        elif broken == 2:
            headers["X-Amz-Date"] = dice.choice(("x", "20270101T000000Z", "", "²"))
        elif broken == 3:
            body += b" "
        return Sent("marketplace", name, "POST", "/", headers, body)

    return request()


def _shape(shape: Any, known: dict[str, tuple[str, ...]], name: str = "") -> st.SearchStrategy[Any]:
    """Return values of a shape; some are outside of its limits, which botocore's clients do not check."""
    kind = shape.type_name
    if kind == "structure":
        members = {one: _shape(member, known, one) for one, member in shape.members.items()}
        required = {one: members[one] for one in shape.required_members}
        return st.fixed_dictionaries(required, optional={one: members[one] for one in members if one not in required})
    if kind == "list":
        return st.lists(_shape(shape.member, known, name), max_size=3)
    if kind == "map":
        return st.dictionaries(st.text(max_size=4), _shape(shape.value, known), max_size=2)
    if kind == "boolean":
        return st.booleans()
    if kind in ("integer", "long"):
        return st.sampled_from((1, 2, 5, 60, 3_600, 100, 0, -1, 2**31, 2**63, shape.metadata.get("max", 7)))
    if kind == "timestamp":
        return st.sampled_from((0, 1.5, 1_800_000_000, -1, 1e300, "2027-01-01T00:00:00Z", "x", 253402300800))
    found = known.get(name, ()) or USUAL.get(name, ()) or tuple(shape.enum or ())
    if kind == "string" and found:
        return st.one_of(st.sampled_from(found), st.sampled_from(found), st.text(max_size=8))
    return st.text(max_size=20)
