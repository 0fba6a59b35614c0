"""What is stored of a client's address: a keyed hash, one for an IPv4 address or the network of an IPv6 customer."""

import pytest

from round_manager.work.addresses import AddressHasher, network_of

HASHER = AddressHasher("a secret of the server")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("2001:db8:1:2::1", "2001:db8:1:2:ffff::9"),
        ("203.0.113.7", "::ffff:203.0.113.7"),
        ("203.0.113.7", " 203.0.113.7 "),
        ("2001:DB8::1", "2001:db8:0:0::2"),
    ],
)
def test_two_forms_of_a_client_have_one_hash(one: str, other: str) -> None:
    assert HASHER.hash(one) == HASHER.hash(other) is not None


@pytest.mark.parametrize(("one", "other"), [("203.0.113.7", "203.0.113.8"), ("2001:db8:1:2::1", "2001:db8:1:3::1")])
def test_two_clients_have_two_hashes(one: str, other: str) -> None:
    assert HASHER.hash(one) != HASHER.hash(other)


@pytest.mark.parametrize(
    "address", ["", "unknown", "127.0.0.1", "::1", "0.0.0.0", "fe80::1%eth0", "1.2.3.4:80", "x" * 999]
)
def test_what_says_nothing_about_a_client_has_no_hash(address: str) -> None:
    assert network_of(address) is None
    assert HASHER.hash(address) is None


def test_the_hash_depends_on_the_secret() -> None:
    assert HASHER.hash("203.0.113.7") != AddressHasher("another secret of the server").hash("203.0.113.7")
