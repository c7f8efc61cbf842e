"""The command line as a user meets it, for tests."""

import pytest

from neuropil.cli import main


def said(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> str:
    """What a command prints, or what it complains of; its exit code must be `code`."""
    printed, complained = printed_and_complained(capsys, *words, code=code)
    return complained.strip() if code else printed


def printed_and_complained(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> tuple[str, str]:
    try:
        main(words)
        exit_code = 0
    except SystemExit as exit:
        exit_code = exit.code or 0  # None means that all is well
    captured = capsys.readouterr()
    assert exit_code == code, captured
    return captured.out, captured.err
