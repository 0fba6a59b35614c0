from datetime import UTC, datetime
from urllib.parse import parse_qs, urlsplit
from uuid import UUID, uuid4

import pytest

from plugin.crowd import HitLinks
from plugin.errors import PluginError
from round_manager.models import Hit, HitKind

OLD, NEW = "old" * 16, "new" * 16


def hit(public_id: UUID | None = None) -> Hit:
    """A HIT that was planned and is stored nowhere."""
    own_id = public_id or uuid4()
    return Hit(
        public_id=own_id,
        key=f"h-{own_id.hex}",
        task_id=1,
        round_id=1,
        kind=HitKind.CREATE,
        marketplace="test",
        reward_cents=45,
        max_assignments=1,
        assignment_seconds=600,
        created_at=datetime.now(UTC),
    )


def parts(url: str) -> tuple[str, str]:
    """What the page is given: the HIT's name in the path, and the key."""
    split = urlsplit(url)
    (key,) = parse_qs(split.query)["key"]
    return split.path.rsplit("/", 1)[-1], key


def test_a_link_leads_back_to_its_hit_and_stays_the_same() -> None:
    links, one = HitLinks("https://here/hits", [NEW]), hit()
    assert links.url(one) == links.url(one)
    assert links.url(one).startswith("https://here/hits/")
    assert links.check(*parts(links.url(one))) == one.public_id


def test_the_key_of_one_hit_does_not_open_another() -> None:
    links = HitLinks("https://here/hits", [NEW])
    name, _ = parts(links.url(hit()))
    _, key = parts(links.url(hit()))
    with pytest.raises(PluginError, match="not one of ours"):
        links.check(name, key)


@pytest.mark.parametrize(("name", "key"), [("", ""), ("x" * 32, "y"), ("0" * 32, ""), ("..", "."), ("é", "ü")])
def test_an_invalid_link_is_refused(name: str, key: str) -> None:
    with pytest.raises(PluginError, match="not one of ours"):
        HitLinks("https://here/hits", [NEW]).check(name, key)


def test_a_link_works_during_a_secret_rotation_but_not_afterwards() -> None:
    one = hit()
    link = parts(HitLinks("https://here/hits", [OLD]).url(one))
    assert HitLinks("https://here/hits", [OLD, NEW]).check(*link) == one.public_id
    with pytest.raises(PluginError):
        HitLinks("https://here/hits", [NEW]).check(*link)


def test_the_last_secret_signs() -> None:
    one = hit()
    link = parts(HitLinks("https://here/hits", [OLD, NEW]).url(one))
    assert HitLinks("https://here/hits", [NEW]).check(*link) == one.public_id
