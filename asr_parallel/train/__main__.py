"""``python -m asr_parallel.train CONFIG.json``: one worker, started by ``parallel.launch`` or torchrun."""

import sys

from asr_parallel.config import TrainConfig
from asr_parallel.parallel.start import worker_main
from asr_parallel.train.run import work

if __name__ == "__main__":
    sys.exit(worker_main(work, TrainConfig, "train"))
