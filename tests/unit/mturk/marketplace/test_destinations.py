"""Events are sent to public addresses and to the private networks that the operator allows, and nowhere else."""

import ipaddress

import pytest

from mturk.marketplace.destinations import LOOPBACK, DestinationRefused, InvalidQueueNetworks, QueueNetworks, is_public
from mturk.marketplace.errors import InvalidEndpoint

PRIVATE = (
    *("127.0.0.1", "127.8.8.8", "0.0.0.0", "10.1.2.3", "172.16.0.1", "192.168.1.1", "100.64.0.1", "198.18.0.1"),
    *("169.254.169.254", "224.0.0.1", "240.0.0.1", "255.255.255.255", "192.0.2.1"),
    *("::", "::1", "::7f00:1", "fe80::1", "fec0::1", "fc00::1", "fd12::1", "ff02::1", "2001:db8::1"),
    *("::ffff:127.0.0.1", "::ffff:10.0.0.1", "2002:7f00:1::", "2002:a00:1::1", "64:ff9b::a00:1", "64:ff9b::7f00:1"),
)
PUBLIC = ("8.8.8.8", "52.94.1.1", "2600:1f18::1", "::ffff:8.8.8.8", "64:ff9b::808:808")


@pytest.mark.parametrize("address", PRIVATE)
def test_a_private_address_is_refused_when_it_is_named_and_when_a_name_leads_to_it(address: str) -> None:
    assert not is_public(ipaddress.ip_address(address))
    host = f"[{address}]" if ":" in address else address
    with pytest.raises(InvalidEndpoint):
        QueueNetworks().check_url(f"https://{host}/1/queue")
    with pytest.raises(DestinationRefused):
        QueueNetworks(resolve=lambda _host, _port: [address]).address("https://queue.example/1/queue")


@pytest.mark.parametrize("address", PUBLIC)
def test_a_public_address_is_accepted(address: str) -> None:
    host = f"[{address}]" if ":" in address else address
    queues = QueueNetworks(resolve=lambda _host, _port: [address])
    queues.check_url(f"https://{host}/1/queue")
    assert queues.address("https://queue.example/1/queue") == address


@pytest.mark.parametrize(
    "url",
    [
        *("https://localhost/1/q", "https://a.localhost./1/q", "https://2130706433/1/q", "https://0x7f000001/1/q"),
        *("https://0x7f.1/1/q", "https://127.1/1/q", "https://0177.0.0.1/1/q", "https://[fe80::1%25eth0]/1/q"),
        *("https://\uff11\uff12\uff17.0.0.1/1/q", "https://127\u30020\u30020\u30021/1/q"),
        *("http://queue.example/1/q", "https://queue.example", "https://me:secret@queue.example/1/q", "arn:aws:sqs:q"),
    ],
)
def test_another_spelling_of_a_private_address_or_a_url_without_tls_is_refused(url: str) -> None:
    with pytest.raises(InvalidEndpoint):
        QueueNetworks().check_url(url)


def test_one_private_address_among_public_ones_is_enough_to_refuse_a_name() -> None:
    queues = QueueNetworks(resolve=lambda _host, _port: ["8.8.8.8", "10.0.0.1"])
    with pytest.raises(DestinationRefused):
        queues.address("https://queue.example/1/queue")


def test_a_name_that_cannot_be_resolved_is_refused() -> None:
    def fail(_host: str, _port: int) -> list[str]:
        raise OSError("no such name")

    def nothing(_host: str, _port: int) -> list[str]:
        return []

    for resolve in (fail, nothing):
        with pytest.raises(DestinationRefused):
            QueueNetworks(resolve=resolve).address("https://queue.example/1/queue")


def test_only_the_networks_that_the_operator_names_are_allowed() -> None:
    queues = QueueNetworks(f"{LOOPBACK} 10.1.0.0/16")
    for url in ("http://127.0.0.1:9324/1/q", "http://localhost/1/q", "http://[::1]/1/q", "https://10.1.2.3/1/q"):
        queues.check_url(url)
    for url in ("https://10.2.0.1/1/q", "https://192.168.0.1/1/q"):
        with pytest.raises(InvalidEndpoint):
            queues.check_url(url)
    with pytest.raises(InvalidQueueNetworks):
        QueueNetworks("10.0.0.1/8")
