"""Green contexts: disjoint sets of SMs within one process, another set by taking another stream.

The device's SMs are split once into the smallest groups that the hardware gives; a layout is which
groups belong to whom, so any two layouts are made of the same groups. Layouts are cached with their
contexts and streams: going back to one is free. A switch happens between steps: an event is
recorded on the old stream and the new one waits for it, so a stage's work stays in order.

Invariants: within a layout no SM belongs to two workers. Destroying a context does not destroy its
streams, so streams are destroyed first. Workers that shrink switch before those that grow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ebrl.errors import RunError
from ebrl.runtime.quota.driver import Driver, Handle
from ebrl.runtime.quota.protocol import Capabilities, Layout, Quota, rounded

SMALLEST = 1  # asked for; the hardware rounds it up to what it can


class GreenContexts:
    """The stages of this process, on device `ordinal`. The CUDA context must be up."""

    def __init__(self, driver: Driver, ordinal: int = 0) -> None:
        self._driver = driver
        self._device = driver.device(ordinal)
        whole = driver.sm_resource(self._device)  # split once: a second split is refused
        self._groups, self._remainder = driver.split(whole, driver.sms_of(whole), SMALLEST)
        self._step = driver.sms_of(self._groups[0])
        self._cache: dict[Layout, dict[str, tuple[Any, Handle]]] = {}
        self._now: Layout | None = None

    def capabilities(self) -> Capabilities:
        return Capabilities(
            mechanism="green contexts",
            least=self._step,
            step=self._step,
            most=len(self._groups) * self._step,
            in_place=True,
            disjoint=True,
            spans_processes=False,
            hint="across processes use MPS",
        )

    def realise(self, request: Sequence[Quota]) -> Layout:
        able = self.capabilities()
        return rounded(request, least=able.least, step=able.step, most=able.most)

    def apply(self, layout: Layout) -> frozenset[str]:
        made = self._cache.get(layout)
        if made is None:
            made = self._cache[layout] = self._make(layout)
        before, self._now = self._now, layout
        if before is not None and before != layout:
            self._hand_over(self._cache[before], made, before, layout)
        return frozenset()

    def stream(self, worker: str) -> Handle:
        if self._now is None:
            raise RunError("quota-not-applied", f"{worker} has no stream: no layout was applied")
        return self._cache[self._now][worker][1]

    def client_environment(self, worker: str) -> Mapping[str, str]:
        del worker
        return {}

    def verify(self) -> tuple[str, ...]:
        """Asks the driver what each of the layout's groups holds."""
        if self._now is None:
            return ()
        wrong = []
        begin = 0
        for each in self._now.granted:
            end = begin + each.sms // self._step
            held = sum(self._driver.sms_of(group) for group in self._groups[begin:end])
            if held != each.sms:
                wrong.append(f"{each.worker} holds {held} SMs, not {each.sms}")
            begin = end
        return tuple(wrong)

    def close(self) -> None:
        for made in self._cache.values():
            self._drop(made)
        self._cache.clear()
        self._now = None

    def _make(self, layout: Layout) -> dict[str, tuple[Any, Handle]]:
        """A context and a stream for each worker, or nothing at all where the driver says no."""
        made: dict[str, tuple[Any, Handle]] = {}
        begin = 0
        try:
            for each in layout.granted:
                end = begin + each.sms // self._step
                context = self._driver.green_context(self._groups[begin:end], self._device)
                begin = end
                try:
                    made[each.worker] = (context, self._driver.stream_create(context))
                except RunError:
                    self._driver.green_context_destroy(context)
                    raise
        except RunError:
            self._drop(made)
            raise
        return made

    def _hand_over(
        self,
        old: dict[str, tuple[Any, Handle]],
        new: dict[str, tuple[Any, Handle]],
        before: Layout,
        after: Layout,
    ) -> None:
        """New streams wait for the work on the old ones: their own, and those whose SMs they take.

        Groups move between workers, so everybody waits for everybody who shrinks.
        """
        had = {each.worker: each.sms for each in before.granted}
        has = {each.worker: each.sms for each in after.granted}
        by_growth = sorted(new, key=lambda worker: has[worker] - had.get(worker, 0))
        events = {}
        for worker, (_, stream) in old.items():
            events[worker] = self._driver.event_create()
            self._driver.event_record(events[worker], stream)
        for worker in by_growth:
            for event in events.values():
                self._driver.stream_wait(new[worker][1], event)
        for event in events.values():
            self._driver.event_destroy(event)

    def _drop(self, made: dict[str, tuple[Any, Handle]]) -> None:
        for context, stream in made.values():
            self._driver.stream_destroy(stream)
            self._driver.green_context_destroy(context)
