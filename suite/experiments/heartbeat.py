"""How long a thread that wants to run Python code waits for the lock of the interpreter."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_BEAT_S = 0.002
_SCHEDSTAT = Path("/proc/thread-self/schedstat")


class Heartbeat:
    """A thread that wakes again and again, and notes how late it gets to run.

    What it had to wait for a core is taken off; what is left, it waited for the lock (GIL).

    Attributes:
        late_s: how late each beat was, in seconds.
        tid: of the thread, as the kernel calls it.
    """

    def __init__(self) -> None:
        self.late_s: list[float] = []
        self.tid = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="loaderproof-heartbeat", daemon=True)

    @contextmanager
    def beating(self) -> Iterator[Heartbeat]:
        """Beat meanwhile."""
        self._thread.start()
        while not self.tid:
            time.sleep(_BEAT_S)
        try:
            yield self
        finally:
            self._over.set()
            self._thread.join()

    def _beat(self) -> None:
        self.tid = threading.get_native_id()
        while not self._over.is_set():
            queued, began = _queued_s(), time.perf_counter()
            self._over.wait(_BEAT_S)
            late = time.perf_counter() - began - _BEAT_S
            self.late_s.append(max(0.0, late - (_queued_s() - queued)))


def _queued_s() -> float:
    """Return how long this thread was ready and had no core, in seconds since its start."""
    with contextlib.suppress(OSError):
        return int(_SCHEDSTAT.read_text().split()[1]) / 1e9
    return 0.0
