import os

import torch

# Tests run in several processes on few cores.
torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
