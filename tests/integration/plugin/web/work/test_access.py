"""Rate limits of the pages, and the hosts of the marketplace."""

from uuid import uuid4

import pytest

from plugin.errors import SettingsError
from plugin.web.work.access import MOST_KNOWN, PLACES, UNPROVEN_ATTEMPTS, CallRate, MarketSite, PageLimits, RateLimit
from plugin.web.work.errors import SlowDown


class Seconds:
    """A clock that the test advances."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_after_a_burst_requests_are_allowed_again_over_time() -> None:
    seconds = Seconds()
    limit = RateLimit(CallRate(2, 0.5), seconds)
    limit.take("a")
    limit.take("a")
    with pytest.raises(SlowDown):
        limit.take("a")
    limit.take("b")
    seconds.now += 2
    limit.take("a")
    with pytest.raises(SlowDown):
        limit.take("a")


def test_a_rate_limit_forgets_idle_clients() -> None:
    seconds = Seconds()
    limit = RateLimit(CallRate(1, 1.0), seconds)
    for caller in range(MOST_KNOWN):
        limit.take(caller)
    seconds.now += 10
    limit.take("new")
    assert len(limit._used) == 1


def test_workers_on_the_same_link_share_its_rate_limit() -> None:
    limits = PageLimits(Seconds())
    for worker in range(60):
        limits.ask(worker, 7)
    with pytest.raises(SlowDown):
        limits.ask(60, 7)
    limits.ask(60, 8)


def test_without_a_proof_a_link_gets_fewer_attempts_and_a_large_hit_more_of_them() -> None:
    limits = PageLimits(Seconds())
    for worker in range(UNPROVEN_ATTEMPTS.burst):
        limits.ask(worker, 7, places=1)
    with pytest.raises(SlowDown):
        limits.ask(60, 7, places=1)
    for worker in range(2 * UNPROVEN_ATTEMPTS.burst):
        limits.ask(1_000 + worker, 8, places=2 * PLACES)
    with pytest.raises(SlowDown):
        limits.ask(60, 8, places=2 * PLACES)


def test_a_class_can_open_one_link_at_once() -> None:
    limits, hit = PageLimits(Seconds()), uuid4()
    for _ in range(200):
        limits.open(hit)


def test_a_workers_rate_limit_covers_all_their_pages() -> None:
    limits = PageLimits(Seconds())
    for hit in range(12):
        limits.ask(1, hit)
    with pytest.raises(SlowDown):
        limits.ask(1, 12)
    limits.ask(2, 12)


def test_a_marketplace_may_have_several_hosts() -> None:
    site = MarketSite(["https://worker.example/", "https://www.example"])
    assert "frame-ancestors https://worker.example https://www.example" in site.content_policy
    assert site.accepts("https://www.example/s/1")
    for other in (
        "https://evil.example\\@www.example/",
        "https://www.example\\.evil.example/",
        "https://user@www.example/",
        "https://:@www.example/",
        "https://www.example/ s",
        "https://www.exa\tmple/",
        "\nhttps://www.example/",
        "https://www.example/\x7f",
        "https://www.example/\u2028",
        "https://www.example:port/",
        "https://[www.example/",
    ):
        assert not site.accepts(other), other
    for other in ("http://www.example", "https://www.example.evil", "https://www.example@evil", "//www.example", ""):
        assert not site.accepts(other)


@pytest.mark.parametrize("urls", [[], ["not an address"], ["ftp://x"], ["https://a b"], ["https://x;script-src *"]])
def test_a_site_that_is_invalid_is_reported(urls: list[str]) -> None:
    with pytest.raises(SettingsError, match="CROWD_SITE_URL"):
        MarketSite(urls)
