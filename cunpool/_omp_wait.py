"""How long OpenMP's threads wait awake for the next parallel region before they sleep."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterator
from contextlib import contextmanager

# GNU OpenMP's turns of waiting: tens of microseconds, which calls in a row need, and not the milliseconds that it waits
# by default, for so long nobody else has the processor. A turn on x86 is a `pause`, of 20 to 50 ns; elsewhere about 1.
TURNS = 2500 if platform.machine() in ("x86_64", "AMD64", "i686") else 30000


@contextmanager
def briefly() -> Iterator[None]:
    """Have GNU OpenMP's threads wait for tens of microseconds, if its library is loaded inside, and by nobody else.

    The library reads these variables once, when it is loaded. What the user has set stays set, and no other process
    sees anything of it. "active" is what keeps threads of several teams from going to sleep at once.
    """
    names = {"OMP_WAIT_POLICY": "active", "GOMP_SPINCOUNT": str(TURNS)}
    if sys.platform != "linux" or any(name in os.environ for name in names):
        yield
        return
    os.environ.update(names)
    try:
        yield
    finally:
        for name in names:
            del os.environ[name]
