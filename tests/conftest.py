import os

import torch
from hypothesis import settings

from typechecking import leave_unannotated_functions_alone

# Tests run in several processes on few cores.
torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))

# `make test` tries the same examples on every machine; `make test-all` looks for new ones.
settings.register_profile("repeated", derandomize=True)
settings.register_profile("searching", print_blob=True)
settings.load_profile("repeated")

leave_unannotated_functions_alone()
