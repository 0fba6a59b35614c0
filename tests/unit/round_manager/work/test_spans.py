from datetime import UTC, datetime, timedelta

from round_manager.work.spans import as_time, in_ms, joined, latest, length_of, without


def test_spans_that_overlap_or_touch_are_joined() -> None:
    assert joined([(50, 60), (0, 10), (10, 20), (55, 70), (30, 30), (9, 1)]) == [(0, 20), (50, 70)]
    assert length_of([(0, 20), (50, 70)]) == 40


def test_moments_that_are_taken_are_left_out() -> None:
    taken = [(5, 10), (20, 30), (90, 200)]
    assert without([(0, 25), (40, 100)], taken) == [(0, 5), (10, 20), (40, 90)]
    assert without([(6, 9), (22, 28)], taken) == []
    assert without([(0, 5), (10, 20)], taken) == [(0, 5), (10, 20)]


def test_the_latest_moments_are_taken_first() -> None:
    spans = [(0, 10), (20, 30)]
    assert latest(spans, 4) == [(26, 30)]
    assert latest(spans, 14) == [(6, 10), (20, 30)]
    assert latest(spans, 10**30) == spans
    assert latest(spans, 0) == latest(spans, -5) == []


def test_a_time_is_its_milliseconds_again() -> None:
    noon = datetime(2027, 3, 1, 12, tzinfo=UTC)
    assert as_time(in_ms(noon + timedelta(microseconds=1_999))) == noon + timedelta(milliseconds=1)
