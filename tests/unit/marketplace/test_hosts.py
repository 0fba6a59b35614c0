import pytest

from mturk.marketplace.errors import InvalidParameter
from mturk.marketplace.questions import NAMESPACE, external_page
from mturk.marketplace.urls import HostPort, InvalidHost, parse_host


def page(url: str, own_url: str) -> str:
    question = f'<ExternalQuestion xmlns="{NAMESPACE}"><ExternalURL>{url}</ExternalURL></ExternalQuestion>'
    return external_page(question, own_url).url


@pytest.mark.parametrize(
    ("url", "host", "port"),
    [
        ("https://Crowd.Example", "crowd.example", 443),
        ("https://crowd.example.:443/x", "crowd.example", 443),
        ("http://bücher.example:8000", "xn--bcher-kva.example", 8000),
        ("http://\uff11\uff12\uff17.0.0.1/", "127.0.0.1", 80),
        ("http://[::1]:7500/", "::1", 7500),
        ("http://[0:0:0:0:0:0:0:1]:7500/", "::1", 7500),
        ("http://[::ffff:127.0.0.1]/", "127.0.0.1", 80),
        ("http://my_host/", "my_host", 80),
    ],
)
def test_a_host_has_one_spelling(url: str, host: str, port: int) -> None:
    assert parse_host(url) == HostPort(host, port)


@pytest.mark.parametrize(
    "url",
    [
        "http://2130706433/",
        "http://127.1/",
        "http://0x7f.1/",
        "http://0x7f000001/",
        "http://0177.0.0.1/",
        "http://\uff11\uff12\uff17.1/",
        "http://127\u30020\u30020\u30021/",
        "http://1.2.3.4.5/",
        "http://a..b.é/",
        f"http://{'é' * 80}/",
        f"http://{'a' * 64}.example/",
        "http://straße.example/",
        "http://a%2eb/",
        "http://a b/",
        "http://[::1%25lo]/",
        "http:///path",
        "http://x:99999/",
        "ftp://example.org/",
    ],
)
def test_what_browsers_may_read_in_another_way_is_refused(url: str) -> None:
    with pytest.raises(InvalidHost):
        parse_host(url)
    with pytest.raises(InvalidParameter):
        page(url, "https://crowd.example")


@pytest.mark.parametrize("host", ["localhost", "a.localhost", "127.0.0.1", "127.8.9.1", "[::1]", "0.0.0.0"])
def test_this_machine_is_known_by_all_of_its_names(host: str) -> None:
    assert parse_host(f"http://{host}/").is_loopback


@pytest.mark.parametrize("host", ["crowd.example", "localhost.example", "10.0.0.1", "[fe80::1]"])
def test_other_machines_are_not_taken_for_this_one(host: str) -> None:
    assert not parse_host(f"http://{host}/").is_loopback


@pytest.mark.parametrize(
    "url",
    ["https://crowd.example:8443/", "http://crowd.example/", "https://CROWD.example./", "https://\uff43rowd.example/"],
)
def test_a_page_on_the_marketplaces_host_is_refused_whatever_its_port(url: str) -> None:
    with pytest.raises(InvalidParameter):
        page(url, "https://crowd.example")
    with pytest.raises(InvalidParameter):
        page("http://192.0.2.7:8000/", "http://192.0.2.7:7500")


def test_a_page_on_another_host_is_taken() -> None:
    assert page("https://tasks.crowd.example/a", "https://crowd.example") == "https://tasks.crowd.example/a"


def test_on_this_machine_another_port_is_enough() -> None:
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
