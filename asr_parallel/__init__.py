"""Hybrid acoustic models trained in parallel: Kaldi-style staged recipes in Python."""

import os

# Read by OpenMP when PyTorch is loaded. A thread that waits sleeps after a thousand looks, some microseconds. One
# that sleeps at once makes two threads hardly faster than one, and one that looks on makes training many times slower
# as soon as anything else runs: 6,600, 9,400 and 9,800 frames/s on two idle cores, 5,300, 4,100 and 400 with one of
# them busy.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("GOMP_SPINCOUNT", "1000")
