"""Wrong passwords are slowed down, per client and in total; the right one keeps working for everyone else."""

from base64 import b64encode

import pytest

from ml_backend.errors import TooManyWrongPasswords
from ml_backend.serving import auth
from ml_backend.serving.auth import MAX_WRONG, MAX_WRONG_IN_TOTAL, PERIOD, BasicAuth, WrongPasswordLimiter

AUTH = BasicAuth("studio", "right")
RIGHT = "Basic " + b64encode(b"studio:right").decode()
WRONG = "Basic " + b64encode(b"studio:wrong").decode()


class Guesses:
    """A limiter, and clients that send passwords at chosen times."""

    def __init__(self) -> None:
        self.now = 100.0
        self.limiter = WrongPasswordLimiter(lambda: self.now)

    def send(self, address: str, header: str | None = WRONG) -> bool:
        return self.limiter.check(AUTH, header, address)


@pytest.fixture
def guesses() -> Guesses:
    return Guesses()


def test_a_client_may_try_again_a_minute_after_its_first_wrong_password(guesses: Guesses) -> None:
    for _ in range(MAX_WRONG):
        assert not guesses.send("10.0.0.1")
        guesses.now += 1
    with pytest.raises(TooManyWrongPasswords) as caught:
        guesses.send("10.0.0.1", RIGHT)
    assert caught.value.after == PERIOD - MAX_WRONG
    guesses.now += caught.value.after
    assert guesses.send("10.0.0.1", RIGHT)


def test_requests_without_a_password_are_not_guesses(guesses: Guesses) -> None:
    for _ in range(MAX_WRONG * 2):
        assert not guesses.send("10.0.0.1", None)
    assert guesses.send("10.0.0.1", RIGHT)


def test_many_clients_together_are_slowed_but_not_one_that_knew_the_password(guesses: Guesses) -> None:
    assert guesses.send("10.0.0.1", RIGHT)
    for number in range(MAX_WRONG_IN_TOTAL):
        assert not guesses.send(f"10.1.{number}.1")
    with pytest.raises(TooManyWrongPasswords):
        guesses.send("10.2.0.1")
    assert guesses.send("10.0.0.1", RIGHT)
    guesses.now += PERIOD
    assert not guesses.send("10.2.0.1")


@pytest.mark.parametrize(
    ("one", "other"), [("2001:db8::1", "2001:db8::ffff:1"), ("10.0.0.1", "::ffff:10.0.0.1"), ("", "")]
)
def test_addresses_of_one_network_are_one_client(guesses: Guesses, one: str, other: str) -> None:
    for _ in range(MAX_WRONG):
        guesses.send(one)
    with pytest.raises(TooManyWrongPasswords):
        guesses.send(other)


def test_the_number_of_remembered_clients_is_bounded(guesses: Guesses, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auth, "MAX_CLIENTS", 5)
    for number in range(50):
        guesses.send(f"10.0.0.{number}")
        guesses.send(f"10.0.1.{number}", RIGHT)
    assert len(guesses.limiter._wrong) == len(guesses.limiter._known) == 5
