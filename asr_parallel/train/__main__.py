"""``python -m asr_parallel.train CONFIG.json``: one worker, started by ``parallel.launch``."""

import sys
from pathlib import Path

from asr_parallel import log
from asr_parallel.parallel.place import Place
from asr_parallel.train.run import work
from asr_parallel.train.settings import load_config


def main() -> int:
    log.setup()
    place = Place.from_environment()
    try:
        if place is None or len(sys.argv) != 2:
            raise log.UserError("a worker needs RANK and the path of a config.json: use `asr-parallel train`")
        return work(load_config(Path(sys.argv[1])), place)
    except log.UserError as error:
        print(f"rank {place.rank if place else 0}: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
