"""Requests of the lab, as bodies of any kind reach it: no network stands between, and nothing is trained."""

import asyncio
import io
import json
import shutil
import zipfile
from collections.abc import Callable, MutableMapping, Sequence
from pathlib import Path
from typing import Any, get_type_hints
from urllib.parse import unquote

from benchmarks.fuzzing import mutations
from benchmarks.fuzzing.model_files import small_run
from benchmarks.fuzzing.reader import MB, Read, Reader
from neuropil.config import Config
from neuropil.lab.app import create_app
from neuropil.lab.security import Access
from neuropil.lab.uploads import Uploads
from neuropil.lab.view import VIEWS, LabView

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
    app = create_app(folder / "runs", Access("127.0.0.1"))

    def ask(content: bytes) -> Any:
        line, _, body = content.partition(b"\n")
        path, _, query = line.decode("latin-1").partition("?")
        return asyncio.run(answered(app, "POST", path, query, body))

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
    status = next(message["status"] for message in sent if message["type"] == "http.response.start")
    whole = b"".join(message.get("body", b"") for message in sent)
    if status >= 500:
        raise AssertionError(f"the lab answered {status}: {whole[:200]!r}")
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


question: Callable[..., bytes] = mutations.below_first_line(mutations.any_json)
REQUEST_READERS = (
    Reader("lab", "bodies of the lab's requests", question, question_seeds, asked_lab, cases=20_000),
    Reader(
        "uploads",
        "files and archives sent to the lab",
        mutations.below_first_line(mutations.in_zip(mutations.any_bytes)),
        upload_seeds,
        uploaded,
        cases=50_000,
    ),
)
