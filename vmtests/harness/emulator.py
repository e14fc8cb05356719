# SPDX-License-Identifier: Apache-2.0
"""Whether QEMU's translation crashed a guest, by the last output of its kernel."""

from __future__ import annotations

import re

# The kernel patches its own code with int3, and QEMU's threads may run an outdated translation of
# one, even while the kernel boots.
_STALE_BREAKPOINT = "Oops: int3"
# Seen with QEMU 7.2 after a cmpxchg16b: a double fault, and the old value of RAX in the flags. Bits
# that are 0 in every flags register (Intel SDM 1, 3.4.3): 3, 5, 15 and those above 21.
_FLAGS = re.compile(r"\bEFLAGS: ([0-9a-f]{8})\b")
_NEVER_SET = 0xFFC08028


def broke_it(console: str) -> bool:
    """True for what no CPU would do; any other death is the kernel's or ours."""
    if _STALE_BREAKPOINT in console:
        return True
    return any(int(found, 16) & _NEVER_SET for found in _FLAGS.findall(console))
