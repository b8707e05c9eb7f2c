"""Give memory back to the system after compiling: the allocator would keep three times what the image takes."""

import ctypes
import sys


def trim_heap() -> None:
    """With glibc; elsewhere nothing, because other allocators give back what is free, or cannot be asked to."""
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)
