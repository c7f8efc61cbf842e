"""What a page sends stays in its own folder, within its bounds, whole or not at all."""

import io
import stat
import zipfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import pytest

from neuropil.errors import InputError
from neuropil.lab.uploads import Uploads, safe_name

UNPACK = "pack it again, or put the folder on this machine and give its path instead."


@pytest.fixture
def uploads(tmp_path: Path) -> Uploads:
    return Uploads(tmp_path / "runs", largest=10_000, largest_unpacked=2_000, most_files=5)


def send(uploads: Uploads, id: str, name: str, *pieces: bytes) -> Path:
    with uploads.writing(id, name) as file:
        for piece in pieces:
            file.write(piece)
    return file.path


def packed(files: Mapping[str, bytes], *, mode: int = 0) -> bytes:
    found = io.BytesIO()
    with zipfile.ZipFile(found, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            info = zipfile.ZipInfo(name)
            info.external_attr = mode << 16
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, content)
    return found.getvalue()


def contents(uploads: Uploads, id: str) -> dict[str, bytes]:
    folder = uploads.folder / id
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_files_come_in_pieces_and_stand_side_by_side(uploads: Uploads):
    id = uploads.begin()
    first = send(uploads, id, "table.csv", b"a,b\n", b"1,2\n")
    second = send(uploads, id, "table.csv", b"other")
    assert (first.name, second.name) == ("table.csv", "table-2.csv")
    assert contents(uploads, id) == {"table.csv": b"a,b\n1,2\n", "table-2.csv": b"other"}
    assert uploads.data(id) == [second, first]
    assert uploads.list() == [{"id": id, "paths": [str(second), str(first)]}]
    uploads.remove(id)
    assert uploads.list() == []


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("../../etc/passwd", "passwd"),
        ("..\\..\\boot.ini", "boot.ini"),
        ("/abs/olute.csv", "olute.csv"),
        (".bashrc", "bashrc"),
        ("..", "data"),
        ("", "data"),
        ("--out=x", "out=x"),
        ("a\0b\n<script>.csv", "a_b__script_.csv"),
        ("Größe (2).csv", "Größe (2).csv"),
        ("x" * 200 + ".csv", "x" * 96 + ".csv"),
    ],
)
def test_names_lose_all_that_leads_elsewhere(name: str, expected: str):
    assert safe_name(name) == expected


def test_more_than_is_allowed_is_refused_and_leaves_nothing(uploads: Uploads):
    id = uploads.begin()
    send(uploads, id, "first.csv", bytes(6_000))
    sentence = (
        "an upload must be of at most 10,000 bytes, but got more: put it on this machine and give its path instead."
    )
    with pytest.raises(InputError) as caught:
        send(uploads, id, "second.csv", bytes(3_000), bytes(1_001))
    assert str(caught.value) == sentence
    with pytest.raises(InputError) as caught, uploads.writing(id, "second.csv", expected=4_001):
        pass
    assert str(caught.value) == sentence
    assert set(contents(uploads, id)) == {"first.csv"}


def test_what_was_broken_off_leaves_nothing(uploads: Uploads):
    id = uploads.begin()
    with suppress(ConnectionAbortedError), uploads.writing(id, "table.csv") as file:
        file.write(b"half")
        raise ConnectionAbortedError
    assert contents(uploads, id) == {}


def test_an_archive_of_class_folders_is_unpacked_without_what_a_system_put_there(uploads: Uploads):
    pictures = {"digits/one/1.png": b"1", "digits/two/2.png": b"2"}
    unseen = {"__MACOSX/digits/one/._1.png": b"x", "digits/.DS_Store": b"x", "digits/two/Thumbs.db": b"x"}
    for name in ("digits.zip", "DIGITS.ZIP"):
        id = uploads.begin()
        path = send(uploads, id, name, packed({**pictures, **unseen}))
        assert uploads.data(id) == [path]
        assert contents(uploads, id) == {f"{path.name}/one/1.png": b"1", f"{path.name}/two/2.png": b"2"}
    id = uploads.begin()
    send(uploads, id, "flat.zip", packed({"one/1.png": b"1", "two/2.png": b"2"}))
    assert set(contents(uploads, id)) == {"flat/one/1.png", "flat/two/2.png"}
    id = uploads.begin()
    send(uploads, id, "class.zip", packed({"one/1.png": b"1"}))
    assert set(contents(uploads, id)) == {"class/one/1.png"}


@pytest.mark.parametrize(
    ("content", "got"),
    [
        (packed({"../outside.png": b"1"}), "a file that would leave the folder: '../outside.png'"),
        (packed({"/outside.png": b"1"}), "a file that would leave the folder: '/outside.png'"),
        (packed({"a/../../b.png": b"1"}), "a file that would leave the folder: 'a/../../b.png'"),
        (packed({"C:/b.png": b"1"}), "a file that would leave the folder: 'C:/b.png'"),
        (
            packed({"link.png": b"/etc/passwd"}, mode=stat.S_IFLNK | 0o777),
            "a file that would leave the folder: 'link.png'",
        ),
        (packed({"bomb.csv": bytes(100_000)}), "1 file of 100,000 bytes"),
        (packed({f"{number}.png": b"" for number in range(6)}), "6 files of 0 bytes"),
        (packed({".hidden": b"1"}), "an empty one"),
        (b"PK no zip", "one that cannot be unpacked (File is not a zip file)"),
    ],
)
def test_an_archive_that_would_leave_its_folder_or_fill_the_disk_is_refused(uploads: Uploads, content: bytes, got: str):
    id, root = uploads.begin(), uploads.folder.parents[2]
    before = set(root.rglob("*"))
    with pytest.raises(InputError) as caught:
        send(uploads, id, "pictures.zip", content)
    assert str(caught.value) == (
        f"pictures.zip must be a zip of data, of at most 5 files of 2,000 bytes, but got {got}: {UNPACK}"
    )
    assert set(root.rglob("*")) == before


def test_a_file_that_holds_more_than_it_says_is_refused(uploads: Uploads):
    content = packed({"bomb.csv": bytes(1_000_000)})
    place = content.rindex(b"PK\x01\x02") + 24  # the size in the directory of the archive
    id = uploads.begin()
    with pytest.raises(InputError) as caught:
        send(uploads, id, "pictures.zip", content[:place] + (100).to_bytes(4, "little") + content[place + 4 :])
    assert "one that cannot be unpacked (Bad CRC-32 for file 'bomb.csv')" in str(caught.value)
    assert contents(uploads, id) == {}


@pytest.mark.parametrize("id", ["", "..", "0" * 16, "../../runs", "x" * 5000])
def test_an_upload_that_was_not_begun_is_refused(uploads: Uploads, id: str):
    with pytest.raises(InputError) as caught:
        send(uploads, id, "table.csv", b"1")
    assert str(caught.value) == (f"an upload must be one that was begun, but got {id[:100]!r}: send the data again.")


@pytest.mark.parametrize("name", ["\u6f22" * 100 + ".csv", "\u6f22" * 100, "\U0001f642" * 60 + ".csv", "\u00e9" * 99])
def test_a_name_fits_into_the_bytes_that_a_file_system_knows(uploads: Uploads, name: str):
    path = send(uploads, uploads.begin(), name, b"a,b\n")
    assert len(path.name.encode()) <= 210
    assert path.suffix == Path(name).suffix
