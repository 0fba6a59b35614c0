"""Many workers in one process: each opens a page, asks the model three times, submits and finishes, and starts again.

The client is small, because it shares the machine with the servers. A response of 503 or 429 is waited out and the
request sent again, as the page's script does; so is one on a kept connection that the server had closed already.
"""

import asyncio
import json
import re
import secrets
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from html import unescape
from typing import Any

from templates.label_config import read_elements
from templates.payloads import results
from tests.bench.loading.site import LoadSite, sentences

ATTEMPTS = 3
MOST_RETRIES = 12
SECONDS_TO_ANSWER = 60.0
LATER = (429, 503)
OK = 200
SETUP = re.compile(r'<script type="application/json" id="setup">(.*?)</script>', re.DOTALL)
ConnectionBroken = (OSError, asyncio.IncompleteReadError)


@dataclass
class LoadResult:
    """What one stage of the load measured; `times` are the seconds of all requests that were answered."""

    workers: int
    think: float
    times: list[float] = field(default_factory=list)
    errors: Counter[str] = field(default_factory=Counter)
    retried: int = 0
    acknowledged: int = 0
    seconds: float = 0.0
    cpu_seconds: float = 0.0

    @property
    def rate(self) -> float:
        """Requests per second."""
        return len(self.times) / self.seconds if self.seconds else 0.0

    @property
    def cpu_ms(self) -> float:
        """Processor milliseconds of the web app for each request."""
        return 1_000 * self.cpu_seconds / max(1, len(self.times))

    def percentile(self, percent: float) -> float:
        """Return a percentile of the latency in milliseconds."""
        ordered = sorted(self.times) or [0.0]
        return 1_000 * ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]


class LoadError(Exception):
    """A request that failed for good."""


def run_stage(site: LoadSite, workers: int, think: float, seconds: float) -> LoadResult:
    """Let this many workers work at once for some seconds; they end after the request that is under way."""
    result, cpu, began = LoadResult(workers, think), site.serve_seconds(), time.monotonic()
    asyncio.run(_run(site, result, seconds))
    result.seconds = time.monotonic() - began
    result.cpu_seconds = site.serve_seconds() - cpu
    return result


async def _run(site: LoadSite, result: LoadResult, seconds: float) -> None:
    texts, end = sentences(secrets.randbits(32)), time.monotonic() + seconds
    workers = [_Worker(site, result, texts, end) for _ in range(result.workers)]
    # People do not all come in the same moment; without a think time, within two seconds.
    apart = (result.think or 2.0) / result.workers
    await asyncio.gather(*(one.work(number * apart) for number, one in enumerate(workers)))


class _Worker:
    """One worker with one connection."""

    def __init__(self, site: LoadSite, result: LoadResult, texts: Iterator[str], end: float) -> None:
        self._site = site
        self._result = result
        self._texts = texts
        self._end = end
        self._browser = secrets.token_hex(16)
        self._connection: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def work(self, delay: float) -> None:
        """Work until the time is over; a failed request ends the page, not the worker."""
        await asyncio.sleep(delay)
        while time.monotonic() < self._end:
            try:
                await self._do_page()
            except LoadError as error:
                self._result.errors[str(error)] += 1
        self._close()

    async def _do_page(self) -> None:
        page = (await self._request("GET", next(self._site.pages))).decode()
        found = SETUP.search(page)
        setup: dict[str, Any] = json.loads(unescape(found[1]) if "&#34;" in found[1] else found[1]) if found else {}
        if not setup.get("token"):
            raise LoadError("a page without a token")
        state = json.loads(await self._request("GET", f"{setup['api']}/state", setup["token"]))
        elements, mark = read_elements(setup["config"], "template"), state["items"][0]["mark"]
        names = [one.name for one in self._site.pack.spec.with_role("input")]
        item = f"{setup['api']}/items/0"
        for number in range(ATTEMPTS + 1):
            if not await self._think():
                return
            if number < ATTEMPTS:
                text = next(self._texts)
                body = {"result": results(elements, dict.fromkeys(names, text)), "mark": mark, "active_ms": 1_000}
                await self._request("POST", f"{item}/tries", setup["token"], body)
            else:
                await self._request("POST", f"{item}/hand-in", setup["token"], body)
                self._result.acknowledged += 1
        if await self._think():
            await self._request("POST", f"{setup['api']}/finish", setup["token"], {})

    async def _think(self) -> bool:
        """Wait as a person does; return whether there is time left."""
        left = self._end - time.monotonic()
        if self._result.think and left > 0:
            await asyncio.sleep(min(self._result.think, left))
        return time.monotonic() < self._end

    async def _request(self, method: str, path: str, token: str = "", body: object = None) -> bytes:
        content = b"" if body is None else json.dumps(body).encode()
        head = [f"{method} {path} HTTP/1.1", "Host: 127.0.0.1", f"Content-Length: {len(content)}"]
        head += [f"Authorization: Bearer {token}", f"X-Outfox-Browser: {self._browser}"] if token else []
        sent = "\r\n".join([*head, "Content-Type: application/json", "", ""]).encode() + content
        name = path.partition("?")[0].rpartition("/")[2] if token else "page"
        for attempt in range(MOST_RETRIES):
            began = time.monotonic()
            try:
                status, headers, answer = await asyncio.wait_for(self._exchange(sent), SECONDS_TO_ANSWER)
            except TimeoutError as error:
                self._close()
                raise LoadError(f"{name}: no answer within {SECONDS_TO_ANSWER:.0f} s") from error
            except ConnectionBroken as error:
                self._close()
                raise LoadError(f"{name}: {type(error).__name__}") from error
            self._result.times.append(time.monotonic() - began)
            if status == OK:
                self._result.retried += attempt > 0
                return answer
            if status not in LATER or began > self._end + SECONDS_TO_ANSWER:
                raise LoadError(f"{name}: {status} {answer[:120].decode(errors='replace')}")
            await asyncio.sleep(float(headers.get("retry-after", "1")))
        raise LoadError(f"{name}: {status} after {MOST_RETRIES} attempts")

    async def _exchange(self, sent: bytes) -> tuple[int, dict[str, str], bytes]:
        """Send a request on the kept connection, or on a new one if the server has closed it."""
        if self._connection is not None:
            try:
                return await self._send(*self._connection, sent)
            except ConnectionBroken:
                self._close()
        self._connection = await asyncio.open_connection("127.0.0.1", self._site.port)
        return await self._send(*self._connection, sent)

    async def _send(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, sent: bytes
    ) -> tuple[int, dict[str, str], bytes]:
        writer.write(sent)
        lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines[1:] if line)}
        if headers.get("transfer-encoding", "").lower() == "chunked":
            body = await _read_chunks(reader)
        else:
            body = await reader.readexactly(int(headers.get("content-length", "0")))
        if headers.get("connection", "").lower() == "close":
            self._close()
        return int(lines[0].split()[1]), headers, body

    def _close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection[1].close()


async def _read_chunks(reader: asyncio.StreamReader) -> bytes:
    parts = []
    while size := int((await reader.readline()).split(b";")[0], 16):
        parts.append(await reader.readexactly(size))
        await reader.readline()
    await reader.readline()
    return b"".join(parts)
