"""Set how long OpenMP's threads wait awake for the next parallel region before they sleep."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterator
from contextlib import contextmanager

# Turns of GNU OpenMP's waiting loop. They last tens of microseconds, enough for calls in a row. The default lasts
# milliseconds and keeps the processor from other threads. A turn takes 20 to 50 ns on x86 (`pause`), about 1 ns
# elsewhere.
TURNS = 2500 if platform.machine() in ("x86_64", "AMD64", "i686") else 30000


@contextmanager
def briefly() -> Iterator[None]:
    """Make GNU OpenMP's threads wait for tens of microseconds, if its library is first loaded inside this context.

    The library reads two environment variables once, when it is loaded. They are set for that moment only, and not at
    all if the user has set one. "active" keeps threads of several teams from going to sleep at once.
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
