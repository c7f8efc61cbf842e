import subprocess
import sys

CHECK = """
import importlib, pkgutil, sys
import neuropil.inspection.pictures, neuropil.inspection.report.page
for module in pkgutil.walk_packages(neuropil.inspection.pictures.__path__, "neuropil.inspection.pictures."):
    importlib.import_module(module.name)
print('matplotlib' in sys.modules, 'PIL' in sys.modules)
"""


def test_importing_the_pictures_does_not_load_matplotlib():
    ran = subprocess.run([sys.executable, "-c", CHECK], capture_output=True, text=True, check=True)
    assert ran.stdout == "False False\n"
