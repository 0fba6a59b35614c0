import pytest

from mturk.marketplace.errors import InvalidParameter
from mturk.marketplace.urls import HostPort, InvalidHost, parse_host, public_address


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
def test_hosts_are_normalized(url: str, host: str, port: int) -> None:
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
def test_hosts_that_browsers_may_read_differently_are_refused(url: str) -> None:
    with pytest.raises(InvalidHost):
        parse_host(url)


@pytest.mark.parametrize("host", ["localhost", "a.localhost", "127.0.0.1", "127.8.9.1", "[::1]", "0.0.0.0"])
def test_all_names_of_this_machine_are_loopback(host: str) -> None:
    assert parse_host(f"http://{host}/").is_loopback


@pytest.mark.parametrize("host", ["crowd.example", "localhost.example", "10.0.0.1", "[fe80::1]"])
def test_other_machines_are_not_loopback(host: str) -> None:
    assert not parse_host(f"http://{host}/").is_loopback


@pytest.mark.parametrize("url", ["", "crowd.example", "ftp://x", "http://", "http://u:p@x", "http://x/a", "http://x:y"])
def test_invalid_public_urls_are_refused(url: str) -> None:
    with pytest.raises(InvalidParameter):
        public_address(url)


@pytest.mark.parametrize("url", ["https://crowd.example", "https://crowd.example/", " https://crowd.example "])
def test_public_urls_are_normalized(url: str) -> None:
    assert public_address(url) == "https://crowd.example"
