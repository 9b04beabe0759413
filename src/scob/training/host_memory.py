"""CPU memory: what one tensor frees is kept for the next."""

import contextlib
import ctypes

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # of glibc's malloc.h
KEPT = 1 << 30


def keep_freed_memory() -> bool:
    """Tell glibc to keep freed memory, up to a gigabyte, instead of giving it back to the system; whether it does.

    Otherwise every large tensor gets new pages, which the system has to clear first: almost half of the time that a
    small backbone takes. Systems without glibc (macOS, Windows, Alpine) are left as they are.
    """
    with contextlib.suppress(OSError, AttributeError, TypeError):
        mallopt = ctypes.CDLL(None).mallopt
        return bool(mallopt(M_MMAP_THRESHOLD, KEPT) and mallopt(M_TRIM_THRESHOLD, KEPT))
    return False
