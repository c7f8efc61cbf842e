"""What a page sends, while others look."""

import asyncio
import io
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

from neuropil.lab.job_routes import add_jobs
from neuropil.lab.queue.jobs import Jobs
from neuropil.lab.uploads import Uploads


class WatchedUploads(Uploads):
    """Says whether unpacking kept the event loop, and with it every page, waiting."""

    kept_waiting = False

    def _unpack(self, path: Path) -> Path:
        try:
            asyncio.get_running_loop()
            self.kept_waiting = True
        except RuntimeError:
            pass
        return super()._unpack(path)


@pytest.fixture
def uploads(tmp_path: Path) -> WatchedUploads:
    return WatchedUploads(tmp_path)


@pytest.fixture
def client(tmp_path: Path, uploads: Uploads) -> Iterator[TestClient]:
    app = FastAPI()
    add_jobs(app, Jobs(tmp_path), uploads)
    with TestClient(app) as opened:
        yield opened


def test_no_page_waits_for_an_archive_that_is_unpacked(client: TestClient, uploads: WatchedUploads):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("table.csv", "a,b\n")
    id = client.post("/api/uploads").json()["id"]
    answer = client.put(f"/api/uploads/{id}", params={"name": "data.zip"}, content=packed.getvalue())
    assert answer.json() == {"paths": [str(uploads.folder / id / "data")]}
    assert not uploads.kept_waiting
