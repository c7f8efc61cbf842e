from pathlib import Path

import pytest

from neuropil.errors import InputError
from neuropil.lab.queue.jobs import lock
from neuropil.lab.serve import serve


def test_runs_that_another_lab_has_open_are_refused_before_an_address_is_given(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    with lock(tmp_path), pytest.raises(InputError) as caught:
        serve(tmp_path, host="127.0.0.1", port=0, show=False)
    assert str(caught.value) == (
        f"the runs in {tmp_path} are open in another lab: "
        "use the page that is open, or give another folder with --runs."
    )
    assert capsys.readouterr().out == ""
