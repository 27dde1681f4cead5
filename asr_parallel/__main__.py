"""``python -m asr_parallel`` is ``asr-parallel``."""

from asr_parallel.cli import main

if __name__ == "__main__":
    main()
