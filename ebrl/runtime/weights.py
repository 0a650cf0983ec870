"""Versioned weights in shared memory: one writer, many readers, never a mix.

Invariant: version v lies in buffer v mod 2. The writer announces v, fills its buffer, then
publishes v. A reader copies buffer v mod 2 and accepts the copy only if the writer has not
announced v + 2 (the next user of the same buffer) meanwhile; else it reads again. Nobody waits for
anybody.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ebrl.runtime.slab import Slab


class Weights:
    """The two buffers and their version."""

    def __init__(self, slab: Slab) -> None:
        self._version = slab["weights/version"]
        self._writing = slab["weights/writing"]
        self._buffers: NDArray[np.float32] = slab["weights"]

    @property
    def size(self) -> int:
        """Floats in one buffer."""
        return int(self._buffers.shape[1])

    @property
    def version(self) -> int:
        """Newest published version; -1 before the first."""
        return int(self._version[0])

    def begin(self, version: int) -> NDArray[np.float32]:
        """The buffer to fill for `version`, which must be the next one."""
        self._writing[0] = version
        buffer: NDArray[np.float32] = self._buffers[version % 2]
        return buffer

    def publish(self, version: int) -> None:
        """Make what was written since `begin(version)` the newest."""
        assert self._writing[0] == version, "publish what was begun"
        self._version[0] = version

    def read(self, into: NDArray[np.float32]) -> int:
        """Copy the newest weights [size] into `into`; returns their version."""
        while True:
            version = self.version
            assert version >= 0, "nothing was published yet"
            np.copyto(into, self._buffers[version % 2])
            if self._writing[0] <= version + 1:
                return version
