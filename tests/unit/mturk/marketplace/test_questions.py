"""The page of an ExternalQuestion must not be on the marketplace's own host. Invalid XML: see the integration tests."""

import pytest

from mturk.marketplace.errors import InvalidParameter
from mturk.marketplace.questions import NAMESPACE, external_page


def page(url: str, own_url: str) -> str:
    question = f'<ExternalQuestion xmlns="{NAMESPACE}"><ExternalURL>{url}</ExternalURL></ExternalQuestion>'
    return external_page(question, own_url).url


@pytest.mark.parametrize(
    "url",
    ["https://crowd.example:8443/", "http://crowd.example/", "https://CROWD.example./", "https://\uff43rowd.example/"],
)
def test_a_page_on_the_marketplaces_host_is_refused_on_every_port(url: str) -> None:
    with pytest.raises(InvalidParameter):
        page(url, "https://crowd.example")
    with pytest.raises(InvalidParameter):
        page("http://192.0.2.7:8000/", "http://192.0.2.7:7500")


def test_a_page_on_another_host_is_accepted() -> None:
    assert page("https://tasks.crowd.example/a", "https://crowd.example") == "https://tasks.crowd.example/a"


def test_on_this_machine_another_port_is_accepted() -> None:
    own = "http://127.0.0.1:7500"
    assert page("http://127.0.0.1:8000/", own) == "http://127.0.0.1:8000/"
    for same in (
        "http://127.0.0.1:7500/",
        "http://localhost:7500/",
        "http://[::1]:7500/",
        "http://\uff11\uff12\uff17.0.0.1:7500/",
    ):
        with pytest.raises(InvalidParameter):
            page(same, own)


def test_a_host_that_browsers_may_read_differently_is_refused() -> None:
    with pytest.raises(InvalidParameter):
        page("http://0x7f.1/", "https://crowd.example")
