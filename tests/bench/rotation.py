"""Rotation under load: clients that send requests continuously during rotations, and the errors found."""

import itertools
import json
import os
import re
import statistics
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.client import HTTPConnection, HTTPException
from typing import Any

from ml_backend.serving.questions import QuestionReader
from ml_backend.targets.target import Target
from ml_backend.verdict import judge
from templates import Pack
from tests.fakes.calls import predict, writes

SECONDS_TO_ANSWER = 60.0
SECONDS_TO_START = 120.0
WHERE = re.compile(r"http://127\.0\.0\.1:(\d+)/")


@dataclass(frozen=True)
class Asked:
    """One request: when it was sent and answered (monotonic nanoseconds), by which version, and whether correctly."""

    sent: int
    answered: int
    version: str
    right: bool


@dataclass(frozen=True)
class Question:
    """A call's body, and the expected sentence of each version."""

    body: bytes
    sentences: Mapping[str, str]


@dataclass
class Report:
    """The result of a run; `calm` are the spans in which only one version was correct."""

    rotations: int
    asked: list[Asked]
    failures: Counter[str]
    calm: list[tuple[int, int, str]]
    quiet: tuple[int, int]
    busy: tuple[int, int]
    rotation_seconds: list[float] = field(default_factory=list)

    @property
    def mismatched(self) -> int:
        """Answers that do not match their version."""
        return sum(not one.right for one in self.asked)

    @property
    def stale(self) -> int:
        """Return the answers, to requests sent after a rotation had returned, that came from the old version."""
        found, spans = 0, sorted(self.calm)
        for one in self.asked:
            for returned, until, version in spans:
                # An answer after the next rotation began may come from either version.
                found += returned < one.sent and one.answered < until and one.version != version
        return found

    def milliseconds(self, span: tuple[int, int]) -> list[float]:
        """Return the latencies of the requests sent in a span, sorted."""
        return sorted((one.answered - one.sent) / 1e6 for one in self.asked if span[0] < one.sent < span[1])

    def summary(self) -> dict[str, Any]:
        """Return the figures of the last line."""
        return {
            "rotations": self.rotations,
            "requests": len(self.asked) + self.failures.total(),
            "failed": self.failures.total(),
            "mismatched": self.mismatched,
            "stale": self.stale,
            "p99_ratio": round(_p99(self.milliseconds(self.busy)) / _p99(self.milliseconds(self.quiet)), 2),
        }

    def lines(self) -> Iterator[str]:
        """Return a longer report for people."""
        for name, span in (("quiet", self.quiet), ("rotating", self.busy)):
            took, seconds = self.milliseconds(span), (span[1] - span[0]) / 1e9
            rate = len(took) / seconds
            yield f"{name}: {rate:.0f} requests/s, p50 {statistics.median(took):.1f} ms, p99 {_p99(took):.1f} ms"
        median, longest = statistics.median(self.rotation_seconds), max(self.rotation_seconds)
        yield f"one rotation: median {median:.2f} s, longest {longest:.2f} s"
        yield from (f"failed {count} times: {why}" for why, count in self.failures.most_common(5))


class Clients:
    """Run clients, spread over the servers, that send one request after the other."""

    def __init__(self, ports: Sequence[int], path: str, questions: Sequence[Question], concurrency: int) -> None:
        self._path = path
        self._questions = questions
        self._over = threading.Event()
        self._lock = threading.Lock()
        self._records: list[list[Asked]] = [[] for _ in range(concurrency)]
        self.failures: Counter[str] = Counter()
        self._threads = [
            threading.Thread(target=self._run, args=(number, ports[number % len(ports)]))
            for number in range(concurrency)
        ]

    def __enter__(self) -> "Clients":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()

    @property
    def asked(self) -> list[Asked]:
        """Return all answers."""
        return [one for records in self._records for one in list(records)]

    def wait_for_all(self) -> None:
        """Wait until every client has an answer to a request sent after now."""
        now, deadline = time.monotonic_ns(), time.monotonic() + SECONDS_TO_ANSWER
        while not all(records and records[-1].sent > now for records in self._records):
            if time.monotonic() > deadline:
                raise TimeoutError(f"a client gets no answer; failures so far: {self.failures}")
            time.sleep(0.002)

    def _run(self, number: int, port: int) -> None:
        connection = HTTPConnection("127.0.0.1", port, timeout=SECONDS_TO_ANSWER)
        questions = itertools.islice(itertools.cycle(self._questions), number, None)
        while not self._over.is_set():
            question = next(questions)
            sent = time.monotonic_ns()
            try:
                connection.request("POST", self._path, question.body, {"Content-Type": "application/json"})
                response = connection.getresponse()
                content = response.read()
            except (OSError, HTTPException) as error:
                self._failed(f"{type(error).__name__}: {error}")
                connection.close()
                continue
            answered = time.monotonic_ns()
            if response.status == 200:
                version, right = _checked(content, question)
                self._records[number].append(Asked(sent, answered, version, right))
            else:
                self._failed(f"HTTP {response.status}: {content[:200]!r}")

    def _failed(self, why: str) -> None:
        with self._lock:
            self.failures[why] += 1


def questions_about(pack: Pack, texts: Sequence[str], predictors: Sequence[Target]) -> list[Question]:
    """Return a call for each text on which the versions differ, with the expected sentence of each version."""
    reader, found = QuestionReader(pack.spec), []
    for number, text in enumerate(texts):
        call = predict(pack, writes(pack, text), task=number + 1)
        (question,) = reader.read(call).questions
        fields = {**question.context, **question.inputs}
        sentences = {}
        for predictor in predictors:
            said = [(predictor.version, predictor.predict([fields])[0])]
            verdict = judge(pack.spec, fields, said, question.target, now=datetime.now(UTC))
            sentences[predictor.version] = _in_one_line(verdict.sentence(pack.spec))
        if len(set(sentences.values())) == len(predictors):
            found.append(Question(json.dumps(call).encode(), sentences))
    return found


def rotate_under_load(
    clients: Clients,
    versions: Sequence[str],
    rotate: Callable[[str], None],
    *,
    rotations: int,
    quiet_seconds: float,
    tell: Callable[[int], None] = lambda _: None,
) -> Report:
    """Rotate between the versions while the clients send requests; the first version must be pinned already."""
    with clients:
        clients.wait_for_all()
        began = time.monotonic_ns()
        time.sleep(quiet_seconds)
        clients.wait_for_all()
        quiet = (began, time.monotonic_ns())
        calm, seconds = [(*quiet, versions[0])], []
        for number in range(1, rotations + 1):
            version, started = versions[number % len(versions)], time.monotonic_ns()
            rotate(version)
            returned = time.monotonic_ns()
            seconds.append((returned - started) / 1e9)
            clients.wait_for_all()
            calm.append((returned, time.monotonic_ns(), version))
            tell(number)
        busy = (quiet[1], time.monotonic_ns())
    return Report(rotations, clients.asked, clients.failures, calm, quiet, busy, seconds)


@contextmanager
def servers(command: Sequence[str], count: int) -> Iterator[list[int]]:
    """Start processes of a server that prints its port; return the ports once all of them answer."""
    with ExitStack() as stack:
        yield [stack.enter_context(_server(command)) for _ in range(count)]


@contextmanager
def _server(command: Sequence[str]) -> Iterator[int]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    try:
        assert process.stdout
        line = process.stdout.readline()
        found = WHERE.search(line)
        if not found:
            raise RuntimeError(f"the server did not start: {line!r}")
        port = int(found[1])
        _wait_until_up(process, port)
        yield port
    finally:
        process.terminate()
        process.communicate(timeout=SECONDS_TO_START)


def _wait_until_up(process: "subprocess.Popen[str]", port: int) -> None:
    deadline = time.monotonic() + SECONDS_TO_START
    while process.poll() is None and time.monotonic() < deadline:
        connection = HTTPConnection("127.0.0.1", port, timeout=SECONDS_TO_START)
        try:
            connection.request("GET", "/health")
            if connection.getresponse().status == 200:
                return
        except (OSError, HTTPException):
            pass
        finally:
            connection.close()
        time.sleep(0.05)
    raise RuntimeError("the server does not come up; look at what it says above")


def _checked(content: bytes, question: Question) -> tuple[str, bool]:
    """Return the version that answered, and whether the answer matches it."""
    (result,) = json.loads(content)["results"]
    version = result["model_version"]
    sentence = question.sentences.get(version)
    shown = result["result"][0]["value"]["text"][0] if result["result"] else ""
    # Advice may come before the sentence, and the number of the attempt after it.
    return version, sentence is not None and sentence in _in_one_line(shown)


def _in_one_line(text: str) -> str:
    return " ".join(text.split())


def _p99(ordered: Sequence[float]) -> float:
    return ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))]
