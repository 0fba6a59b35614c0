import threading
import time
from concurrent.futures import ThreadPoolExecutor

from common.errors import CodedError
from common.health import HealthCheck


class SomethingBroken(CodedError):
    """Something is broken."""


def test_a_check_that_hangs_is_reported_in_time_and_runs_once() -> None:
    calls, goes_on = [], threading.Event()

    def check() -> dict[str, object]:
        calls.append(1)
        goes_on.wait(30)
        return {}

    checked = HealthCheck(check, limit=0.2)
    began = time.monotonic()
    with ThreadPoolExecutor(8) as threads:
        outcomes = list(threads.map(lambda _: checked.health().as_response(), range(8)))
    assert {(body["status"], body["code"], status) for body, status, _ in outcomes} == {("DOWN", "health_unknown", 503)}
    # The next one does not wait at all.
    assert checked.health().error
    assert time.monotonic() - began < 5
    assert len(calls) == 1
    run = checked._run
    assert run
    goes_on.set()
    assert run.ended.wait(5)
    assert checked.health().as_response()[:2] == ({"status": "UP"}, 200)


def test_a_failed_check_is_down_with_its_code_and_without_its_message() -> None:
    def check() -> dict[str, object]:
        raise SomethingBroken("/srv/secret is broken")

    body, status, headers = HealthCheck(check).health().as_response()
    assert (status, body["status"], body["code"], headers["Retry-After"]) == (503, "DOWN", "something_broken", "2")
    assert "/srv" not in str(body)


def test_an_unexpected_error_is_down_too() -> None:
    body, status, _ = HealthCheck(lambda: {"x": 1 // 0}).health().as_response()
    assert (status, body["code"]) == (503, "health_check_failed")


def test_a_result_is_kept_for_a_while() -> None:
    calls: list[int] = []

    def check() -> dict[str, object]:
        calls.append(1)
        return {"number": len(calls)}

    kept = HealthCheck(check, keep=60.0)
    assert [kept.health().found["number"] for _ in range(3)] == [1, 1, 1]
    fresh = HealthCheck(check)
    assert [fresh.health().found["number"] for _ in range(2)] == [2, 3]
