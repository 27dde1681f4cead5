"""Memory that the process keeps for itself.

A minibatch frees what it has made.  glibc gives the top of its heap back to the system, and finds it again page by
page at the next minibatch, which the system must clear: on a small network in bf16 that was a tenth of a step.
"""

import contextlib
import ctypes

TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3  # of glibc's mallopt
LARGEST = 2**25  # bytes of a piece that still comes from the heap; glibc takes no more


def keep_freed_memory() -> None:
    """Let this process keep freed memory for its next allocations, where the C library is glibc."""
    with contextlib.suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(MMAP_THRESHOLD, LARGEST)
        mallopt(TRIM_THRESHOLD, 2**30)
