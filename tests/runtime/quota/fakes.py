"""A CUDA driver, an MPS control program and an NVML that behave as the real ones are documented to:
they round up, keep a remainder, refuse a second split, detach streams, and speak in text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ebrl.runtime.quota.driver import DriverError


@dataclass
class Resource:
    sms: tuple[int, ...]  # ids
    split: bool = False


@dataclass
class FakeDriver:
    """An H100: 132 SMs, groups of 8, so 4 are left over."""

    total: int = 132
    grain: int = 8
    contexts: dict[int, frozenset[int]] = field(default_factory=dict)
    streams: dict[int, int] = field(default_factory=dict)  # stream → context, which may be gone
    calls: list[tuple[object, ...]] = field(default_factory=list)
    now_ms: float = 0.0
    refuse_contexts_from: int | None = None
    _next: int = 100
    _times: dict[int, float] = field(default_factory=dict)
    _split: bool = False

    def device(self, ordinal: int) -> int:
        return ordinal

    def sm_resource(self, device: int) -> Resource:
        return Resource(tuple(range(self.total)))

    def sms_of(self, resource: Resource) -> int:
        return len(resource.sms)

    def split(self, resource: Resource, groups: int, sms: int) -> tuple[list[Resource], Resource]:
        if self._split:
            raise DriverError("cuda-driver", "the CUDA driver says CUDA_ERROR_INVALID_RESOURCE")
        self._split = True
        size = -(-sms // self.grain) * self.grain
        count = min(groups, self.total // size)
        parts = [Resource(resource.sms[i * size : (i + 1) * size]) for i in range(count)]
        return parts, Resource(resource.sms[count * size :])

    def green_context(self, resources: Sequence[Resource], device: int) -> int:
        made = len([call for call in self.calls if call[0] == "context"])
        if self.refuse_contexts_from is not None and made >= self.refuse_contexts_from:
            raise DriverError("cuda-driver", "the CUDA driver says CUDA_ERROR_OUT_OF_MEMORY")
        context = self._new()
        self.contexts[context] = frozenset(sm for each in resources for sm in each.sms)
        self.calls.append(("context", context))
        return context

    def green_context_destroy(self, context: int) -> None:
        del self.contexts[context]  # its streams stay

    def stream_create(self, context: int) -> int:
        stream = self._new()
        self.streams[stream] = context
        return stream

    def stream_destroy(self, stream: int) -> None:
        del self.streams[stream]

    def stream_wait(self, stream: int, event: int) -> None:
        self.calls.append(("wait", stream, event))

    def event_create(self) -> int:
        return self._new()

    def event_record(self, event: int, stream: int) -> None:
        self._times[event] = self.now_ms
        self.calls.append(("record", event, stream))

    def event_synchronize(self, event: int) -> None:
        assert event in self._times, "an event that was never recorded"

    def event_elapsed_ms(self, begin: int, end: int) -> float:
        return self._times[end] - self._times[begin]

    def event_destroy(self, event: int) -> None:
        self._times.pop(event, None)

    def sms_on(self, stream: int) -> frozenset[int]:
        return self.contexts[self.streams[stream]]

    def _new(self) -> int:
        self._next += 1
        return self._next


class FakeControl:
    """`nvidia-cuda-mps-control`: exit code 0 whatever happens; its text tells."""

    def __init__(self, answers: Mapping[str, str] | None = None) -> None:
        self.asked: list[tuple[tuple[str, ...], str, dict[str, str]]] = []
        self.answers = dict(answers or {})

    def __call__(
        self, arguments: Sequence[str], text: str, environment: Mapping[str, str]
    ) -> tuple[int, str]:
        self.asked.append((tuple(arguments), text.strip(), dict(environment)))
        return 0, self.answers.get(text.strip() or arguments[-1], "")


class FakeNvml:
    """pynvml of a device at half its clock, too hot."""

    NVML_CLOCK_SM = 1

    class NVMLError(Exception):
        pass

    def __init__(self, *, works: bool = True) -> None:
        self.works = works
        self.open = 0

    def nvmlInit(self) -> None:  # noqa: N802
        if not self.works:
            raise self.NVMLError
        self.open += 1

    def nvmlShutdown(self) -> None:  # noqa: N802
        self.open -= 1

    def nvmlDeviceGetHandleByIndex(self, ordinal: int) -> int:  # noqa: N802
        return ordinal

    def nvmlDeviceGetClockInfo(self, handle: int, kind: int) -> int:  # noqa: N802
        return 990

    def nvmlDeviceGetMaxClockInfo(self, handle: int, kind: int) -> int:  # noqa: N802
        return 1980

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, handle: int) -> int:  # noqa: N802
        return 0x40

    def nvmlDeviceGetMemoryInfo(self, handle: int) -> object:  # noqa: N802
        return type("Memory", (), {"used": 7_000_000_000})()
