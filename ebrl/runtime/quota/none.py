"""No enforcement: quotas are planned and believed, and the stages share the device as it likes.

Invariant: it never says that it gave what it cannot hold anybody to: its grants are the whole
device, and `capabilities` says so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ebrl.runtime.quota.protocol import Capabilities, Layout, Quota


class Unenforced:
    """Everybody may use everything."""

    def __init__(self, sms: int, hint: str = "") -> None:
        self._sms, self._hint = sms, hint

    def capabilities(self) -> Capabilities:
        return Capabilities(
            mechanism="none",
            least=self._sms,
            step=max(1, self._sms),
            most=self._sms,
            in_place=True,
            hint=self._hint,
        )

    def realise(self, request: Sequence[Quota]) -> Layout:
        granted = [Quota(worker=q.worker, sms=self._sms, cores=q.cores) for q in request]
        return Layout(granted=tuple(granted))

    def apply(self, layout: Layout) -> frozenset[str]:
        del layout
        return frozenset()

    def stream(self, worker: str) -> int:
        del worker
        return 0

    def client_environment(self, worker: str) -> Mapping[str, str]:
        del worker
        return {}

    def verify(self) -> tuple[str, ...]:
        return ()

    def close(self) -> None:
        """Nothing was taken."""
