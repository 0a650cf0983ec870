"""The few calls of the CUDA driver that quotas and timing need, as one small object.

Everything above this line is tested with a fake of it; nothing below it is ours. Invariant: every
method either does what the driver documents or raises `DriverError` with the driver's own words.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from ebrl.errors import RunError

Handle = int


class DriverError(RunError):
    """The driver said no."""


class Driver(Protocol):
    """`cuda.bindings.driver`, by what is done with it. Resources are opaque but for their SMs."""

    def device(self, ordinal: int) -> Any: ...

    def sm_resource(self, device: Any) -> Any: ...

    def sms_of(self, resource: Any) -> int: ...

    def split(self, resource: Any, groups: int, sms: int) -> tuple[list[Any], Any]:
        """At most `groups` resources of at least `sms` SMs, rounded up as the hardware needs, and
        the remainder."""
        ...

    def green_context(self, resources: Sequence[Any], device: Any) -> Any: ...

    def green_context_destroy(self, context: Any) -> None: ...

    def stream_create(self, context: Any) -> Handle: ...

    def stream_destroy(self, stream: Handle) -> None: ...

    def stream_wait(self, stream: Handle, event: Any) -> None: ...

    def event_create(self) -> Any: ...

    def event_record(self, event: Any, stream: Handle) -> None: ...

    def event_synchronize(self, event: Any) -> None: ...

    def event_elapsed_ms(self, begin: Any, end: Any) -> float: ...

    def event_destroy(self, event: Any) -> None: ...


class CudaDriver:
    """The real one. Raises RunError `cuda-bindings-missing` where the package is not installed."""

    def __init__(self) -> None:
        try:
            from cuda.bindings import driver
        except ImportError as error:
            raise RunError(
                "cuda-bindings-missing",
                "green contexts and device timing need the package cuda-bindings",
                hint="install it with: pip install 'ebrl[gpu]'",
            ) from error
        self._cuda = driver
        self._call(driver.cuInit(0))

    def device(self, ordinal: int) -> Any:
        return self._call(self._cuda.cuDeviceGet(ordinal))

    def sm_resource(self, device: Any) -> Any:
        kind = self._cuda.CUdevResourceType.CU_DEV_RESOURCE_TYPE_SM
        return self._call(self._cuda.cuDeviceGetDevResource(device, kind))

    def sms_of(self, resource: Any) -> int:
        return int(resource.sm.smCount)

    def split(self, resource: Any, groups: int, sms: int) -> tuple[list[Any], Any]:
        found, count, remainder = self._call(
            self._cuda.cuDevSmResourceSplitByCount(groups, resource, 0, sms)
        )
        return list(found)[: int(count)], remainder

    def green_context(self, resources: Sequence[Any], device: Any) -> Any:
        description = self._call(
            self._cuda.cuDevResourceGenerateDesc(list(resources), len(resources))
        )
        flags = self._cuda.CUgreenCtxCreate_flags.CU_GREEN_CTX_DEFAULT_STREAM
        return self._call(self._cuda.cuGreenCtxCreate(description, device, flags))

    def green_context_destroy(self, context: Any) -> None:
        self._call(self._cuda.cuGreenCtxDestroy(context))

    def stream_create(self, context: Any) -> Handle:
        flags = self._cuda.CUstream_flags.CU_STREAM_NON_BLOCKING
        return int(self._call(self._cuda.cuGreenCtxStreamCreate(context, flags, 0)))

    def stream_destroy(self, stream: Handle) -> None:
        self._call(self._cuda.cuStreamDestroy(stream))

    def stream_wait(self, stream: Handle, event: Any) -> None:
        self._call(self._cuda.cuStreamWaitEvent(stream, event, 0))

    def event_create(self) -> Any:
        return self._call(self._cuda.cuEventCreate(0))

    def event_record(self, event: Any, stream: Handle) -> None:
        self._call(self._cuda.cuEventRecord(event, stream))

    def event_synchronize(self, event: Any) -> None:
        self._call(self._cuda.cuEventSynchronize(event))

    def event_elapsed_ms(self, begin: Any, end: Any) -> float:
        return float(self._call(self._cuda.cuEventElapsedTime(begin, end)))

    def event_destroy(self, event: Any) -> None:
        self._call(self._cuda.cuEventDestroy(event))

    def _call(self, result: Any) -> Any:
        """The values that follow a call's status, one or several or none."""
        status, *values = result if isinstance(result, tuple) else (result,)
        if int(status) != 0:
            _, name = self._cuda.cuGetErrorName(status)
            told = name.decode() if isinstance(name, bytes) else str(name)
            raise DriverError(
                "cuda-driver", f"the CUDA driver says {told}", hint="`ebrl doctor` checks the GPU"
            )
        return values[0] if len(values) == 1 else tuple(values) if values else None
