"""Requests of the lab, as bodies of any kind reach it: no network stands between, and nothing is trained."""

import asyncio
import io
import json
import shutil
import weakref
import zipfile
from collections.abc import Callable, MutableMapping, Sequence
from pathlib import Path
from typing import Any, get_type_hints
from urllib.parse import unquote

from benchmarks.fuzzing import mutations
from benchmarks.fuzzing.model_files import small_run, write_folder
from benchmarks.fuzzing.reader import MB, Read, Reader
from neuropil.config import Config
from neuropil.http.access import Access
from neuropil.lab.app import create_app as create_lab
from neuropil.lab.uploads import Uploads
from neuropil.lab.view import VIEWS, LabView
from neuropil.server.app import create_app as create_server
from neuropil.server.config import ServerConfig
from neuropil.server.guard import Draining
from neuropil.server.models import open_models
from neuropil.server.prometheus import Figures

Message = MutableMapping[str, Any]
SYSTEMS = ("mlp", "gpt2", "forecaster", "spiking_network")
SLOW_VIEWS = ("optimizers", "gan_game", "playground")
"""Their actions compute for seconds, as they should."""


def question_seeds() -> Sequence[bytes]:
    """A line with the path of a request, and its body below it."""
    views = [view for view in VIEWS if view.name not in SLOW_VIEWS and (not view.needs_run or "mlp" in view.systems)]
    found = [f"/api/forms/{system}\n{{}}" for system in SYSTEMS]
    found += [f'/api/forms/{system}\n{{"seed": 1, "data": "x.csv"}}' for system in SYSTEMS]
    for view in views:
        run = "?run=mlp" if view.needs_run else ""
        for action in view.actions:
            found.append(f"/api/views/{view.name}/{action}{run}\n{json.dumps(_usual(view, action))}")
    return [each.encode() for each in found]


def _usual(view: LabView, action: str) -> dict[str, Any]:
    """What an action is asked with when a page opens."""
    kinds = [kind for name, kind in get_type_hints(view.actions[action]).items() if name != "return"]
    request = next((kind for kind in kinds if isinstance(kind, type) and issubclass(kind, Config)), None)
    return {} if request is None else request().to_dict()


def asked_lab(folder: Path) -> Read:
    shutil.copytree(small_run(), folder / "runs" / "mlp")
    return asking(create_lab(folder / "runs", Access("127.0.0.1")))


def asking(app: Any) -> Read:
    loop = asyncio.new_event_loop()

    def ask(content: bytes) -> Any:
        line, _, body = content.partition(b"\n")
        path, _, query = line.decode("latin-1").partition("?")
        return loop.run_until_complete(answered(app, "POST", path, query, body))

    weakref.finalize(ask, loop.close)
    return ask


async def answered(app: Any, method: str, path: str, query: str, body: bytes) -> str:
    """The status. What is raised inside comes out: it is what a server would log as a traceback."""
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": unquote(path),
        "raw_path": path.encode("latin-1"),
        "root_path": "",
        "query_string": query.encode("latin-1"),
        "headers": [(b"host", b"127.0.0.1"), (b"content-length", str(len(body)).encode())],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
    }
    pieces, sent = [body], list[Message]()

    async def receive() -> Message:
        return {"type": "http.request", "body": pieces.pop(), "more_body": False} if pieces else await _silence()

    async def send(message: Message) -> None:
        sent.append(message)

    await app(scope, receive, send)
    start = next(message for message in sent if message["type"] == "http.response.start")
    status = start["status"]
    whole = b"".join(message.get("body", b"") for message in sent)
    if status == 500:
        raise AssertionError(f"the answer was {status}: {whole[:200]!r}")
    if b"json" in dict(start["headers"]).get(b"content-type", b""):
        json.loads(whole)
    return f"{path} {status}"


async def _silence() -> Message:
    await asyncio.sleep(3600)
    return {"type": "http.disconnect"}


def upload_seeds() -> Sequence[bytes]:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in ("data/a/1.png", "data/b/2.png", "data/.hidden", "__MACOSX/x"):
            archive.writestr(name, name * 9)
    return [b"data.zip\n" + file.getvalue(), b"table.csv\na,b\n1,2\n"]


def uploaded(folder: Path) -> Read:
    """The first line is the name of the file. Nothing may be written beside the folder of the upload."""

    def upload(content: bytes) -> Any:
        name, _, body = content.partition(b"\n")
        shutil.rmtree(folder / "runs", ignore_errors=True)
        uploads = Uploads(folder / "runs", largest=10 * MB, largest_unpacked=20 * MB, most_files=1_000)
        id = uploads.begin()
        try:
            with uploads.writing(id, name.decode("utf-8", "replace"), len(body)) as file:
                file.write(body)
            return len(uploads.data(id))
        finally:
            around = [path for path in folder.rglob("*") if not path.is_relative_to(uploads.folder / id)]
            if set(around) - {uploads.folder, *uploads.folder.parents}:
                raise AssertionError(f"an upload left {around}")

    return upload


# --- the server -------------------------------------------------------------------------------------------------------

SERVED = ("gpt2", "bert")
BODIES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("completions", {"model": "gpt2", "prompt": "the quick", "max_tokens": 2, "temperature": 0}),
    ("completions", {"model": "gpt2", "prompt": ["the", "fox"], "max_tokens": 2, "n": 2, "stop": ["x"], "seed": 1}),
    ("completions", {"model": "gpt2", "prompt": [5, 6, 7], "max_tokens": 1, "top_p": 0.5, "echo": True, "logprobs": 2}),
    ("completions", {"model": "gpt2", "prompt": "the", "stream": True, "stream_options": {"include_usage": True}}),
    ("fill", {"model": "bert", "input": "the [MASK] fox", "top": 3}),
    ("embeddings", {"model": "bert", "input": ["the fox", "a dog"], "encoding_format": "base64"}),
)


def body_seeds() -> Sequence[bytes]:
    return [f"/v1/{path}\n{json.dumps(body)}".encode() for path, body in BODIES]


def asked_server(folder: Path) -> Read:
    for family in SERVED:
        write_folder(family, folder / family)
    config = ServerConfig(slots=2, max_tokens=8, timeout=5.0)
    figures, draining = Figures(), Draining()
    models = open_models([str(folder / name) for name in SERVED], config, figures)
    ask = asking(create_server(models, Access("127.0.0.1"), config, figures, draining))
    weakref.finalize(ask, models.close)
    return ask


question: Callable[..., bytes] = mutations.below_first_line(mutations.any_json)
REQUEST_READERS = (
    Reader(
        "server", "bodies of the server's requests", question, body_seeds, asked_server, cases=20_000, bound=500 * MB
    ),
    Reader("lab", "bodies of the lab's requests", question, question_seeds, asked_lab, cases=20_000, bound=500 * MB),
    Reader(
        "uploads",
        "files and archives sent to the lab",
        mutations.below_first_line(mutations.in_zip(mutations.any_bytes)),
        upload_seeds,
        uploaded,
        cases=50_000,
    ),
)
