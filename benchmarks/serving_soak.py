"""`neuropil serve` under mixed load: short and long requests, streamed or not, clients that leave, and bad requests.
Floor: no answer that is the server's fault, and no more memory at the end than at the fifth minute, or at a sixth of
the time where it is shorter, by more than 5 %."""

import asyncio
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx

from benchmarks.serving import VOCABULARY, save, server
from neuropil.cli.arguments import parse
from neuropil.config import Config, option

SIZES = {"n_embd": 256, "n_layer": 4, "n_head": 4}
"""Small enough for thousands of requests."""
SLOTS, QUEUE, CLIENTS, RECORDED_AFTER = 8, 16, 24, 300
MOST_GROWTH = 0.05
BAD: Sequence[bytes] = (
    b"",
    b"{",
    b"\xff\xfe",
    b'{"prompt": NaN}',
    b"[" * 50_000,
    b'{"prompt": "a", "n": -1}',
    b'{"prompt": "a", "temperature": 1e999}',
    b'{"prompt": [99999999]}',
    b'{"prompt": "a", "unknown": 1}',
    b'{"prompt": "' + b"a" * 2_000_000 + b'"}',
    b'{"prompt": {"a": [1, [2, [3]]]}}',
    b'{"model": "other", "prompt": "a"}',
)
HEADER = ["requests, and how they were answered", "count"]
ABOUT = (
    f"`neuropil serve` with {SLOTS} slots and a queue of {QUEUE} under {CLIENTS} clients for half an hour: short and "
    "long requests, streamed or not, clients that leave at any moment, and bad requests. 429 tells a client to come "
    "again later."
)
FINE, CLIENTS_FAULT = (200, 429), range(400, 500)


class Arguments(Config):
    minutes: float = option(30.0, "minutes of load", above=0)


class Soak:
    def __init__(self, address: str, process: int, seconds: float):
        self.address, self.process, self.seconds = address, process, seconds
        self.begun, self.counts = time.monotonic(), Counter[str]()
        self.wrong: list[str] = []
        self.memory: list[tuple[float, int]] = []

    @property
    def over(self) -> bool:
        return time.monotonic() - self.begun > self.seconds

    async def run(self) -> None:
        limits = httpx.Limits(max_connections=2 * CLIENTS)
        async with httpx.AsyncClient(base_url=self.address, timeout=300, limits=limits) as client:
            await asyncio.gather(self.watch(), *(self.client(client, number) for number in range(CLIENTS)))
            health = await client.get("/healthz/ready")
            self.note("health at the end", health.status_code, expected=(200,))

    async def watch(self) -> None:
        while not self.over:
            self.memory.append((time.monotonic() - self.begun, resident(self.process)))
            await asyncio.sleep(1)

    async def client(self, client: httpx.AsyncClient, number: int) -> None:
        chance = random.Random(number)  # noqa: S311
        kinds = {self.whole: 5, self.streamed: 5, self.leaving: 3, self.bad: 2, self.other: 1}
        while not self.over:
            (kind,) = chance.choices(list(kinds), list(kinds.values()))
            try:
                await kind(client, chance)
            except httpx.HTTPError as error:
                self.wrong.append(f"{kind.__name__}: {error!r}")

    def note(self, kind: str, status: int, expected: Sequence[int]) -> None:
        self.counts[f"{kind} {status}"] += 1
        if status not in expected:
            self.wrong.append(f"{kind}: {status}")

    async def whole(self, client: httpx.AsyncClient, chance: random.Random) -> None:
        answer = await client.post("/v1/completions", json=request(chance))
        self.note("whole", answer.status_code, FINE)
        if answer.status_code == 429:
            await asyncio.sleep(float(answer.headers["retry-after"]) * chance.random())

    async def streamed(self, client: httpx.AsyncClient, chance: random.Random) -> None:
        async with client.stream("POST", "/v1/completions", json={**request(chance), "stream": True}) as answer:
            lines = [line async for line in answer.aiter_lines() if line]
        self.note("streamed", answer.status_code, FINE)
        if answer.status_code == 200 and (lines[-1] != "data: [DONE]" or any('"error"' in line for line in lines)):
            self.wrong.append(f"a stream that ends with {lines[-2:]}")

    async def leaving(self, client: httpx.AsyncClient, chance: random.Random) -> None:
        """At any moment, with or without an answer."""
        body = {**request(chance), "max_tokens": 200, "stream": chance.random() < 0.5}
        try:
            async with asyncio.timeout(chance.random()), client.stream("POST", "/v1/completions", json=body) as answer:
                self.note("leaving", answer.status_code, FINE)
                async for _ in answer.aiter_lines():
                    pass
        except TimeoutError:
            self.counts["left"] += 1

    async def bad(self, client: httpx.AsyncClient, chance: random.Random) -> None:
        try:
            answer = await client.post("/v1/completions", content=chance.choice(BAD))
        except (httpx.WriteError, httpx.ReadError):  # refused before all of it was sent
            self.counts["bad, cut off"] += 1
            return
        self.note("bad", answer.status_code, CLIENTS_FAULT)
        error = answer.json()["error"]
        if set(error) != {"message", "type", "param", "code"} or "Traceback" in error["message"]:
            self.wrong.append(f"an error of another shape: {error}")

    async def other(self, client: httpx.AsyncClient, chance: random.Random) -> None:
        path, expected = chance.choice(
            [("/v1/models", 200), ("/metrics", 200), ("/healthz", 200), ("/nothing", 404), ("/v1/completions", 405)]
        )
        self.note("other", (await client.get(path)).status_code, (expected,))

    # --- what was found -----------------------------------------------------------------------------------------------

    @property
    def early(self) -> float:
        """Seconds after which memory is compared with that at the end."""
        return min(RECORDED_AFTER, self.seconds / 6)

    @property
    def sizes(self) -> tuple[int, int]:
        """Bytes of resident memory early and at the end."""
        return next(size for moment, size in self.memory if moment >= self.early), self.memory[-1][1]

    @property
    def growth(self) -> float:
        early, late = self.sizes
        return late / early - 1

    def rows(self) -> Iterator[list[str]]:
        early, late = (f"{size / 1e6:.0f} MB" for size in self.sizes)
        yield from ([kind, f"{count:,}"] for kind, count in sorted(self.counts.items()))
        yield ["errors that are not the client's", f"{len(self.wrong):,}"]
        yield [f"resident memory after {self.early:.0f} s", early]
        yield [f"resident memory after {self.seconds:.0f} s", f"{late} ({100 * self.growth:+.1f} %)"]

    def require_floor(self) -> None:
        grown = [f"memory grew by {100 * self.growth:.1f} %"] if self.growth > MOST_GROWTH else []
        if found := [*self.wrong[:20], *grown]:
            raise SystemExit("\n".join(found))


def request(chance: random.Random) -> dict[str, Any]:
    prompt = [chance.randrange(VOCABULARY - 1) for _ in range(chance.choice([1, 8, 40, 300, 800]))]
    sampling = chance.choice([{"temperature": 0}, {"temperature": 1, "top_p": 0.9}, {"temperature": 1, "logprobs": 2}])
    return {"prompt": prompt, "max_tokens": chance.choice([0, 1, 10, 60]), "n": chance.choice([1, 1, 2]), **sampling}


def resident(process: int) -> int:
    lines = Path(f"/proc/{process}/status").read_text(encoding="utf-8").splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith("VmRSS:"))


def soak(minutes: float) -> Soak:
    with tempfile.TemporaryDirectory() as name:
        save(Path(name), **SIZES)
        with server(Path(name), "--slots", str(SLOTS), "--queue", str(QUEUE)) as (address, process):
            found = Soak(address, process, 60 * minutes)
            asyncio.run(found.run())
    return found


def main(words: Sequence[str] = ()) -> None:
    arguments = parse(Arguments(), words, command="serving_soak", about=(__doc__ or "").split("\n")[0])
    found = soak(arguments.minutes)
    for name, *figures in found.rows():
        print(f"{name}: {', '.join(figures)}")
    found.require_floor()


if __name__ == "__main__":
    main(sys.argv[1:])
