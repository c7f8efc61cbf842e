import subprocess
import sys


def test_importing_the_pictures_does_not_load_matplotlib():
    check = "import sys, neuropil.inspection.pictures, neuropil.inspection.report.page; print('matplotlib' in sys.modules, 'PIL' in sys.modules)"
    assert (
        subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True).stdout
        == "False False\n"
    )
