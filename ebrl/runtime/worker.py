"""A worker process: `python -m ebrl.runtime.worker`, with its `Boot` on standard input.

Invariants: affinity and thread counts are set before torch is imported; the process dies with the
run that started it; whatever goes wrong, in any thread, is told to the run before the process ends.
"""

from __future__ import annotations

import ctypes
import gc
import hashlib
import importlib
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import setproctitle

from ebrl.errors import Diagnostic, EbrlError, RunError
from ebrl.planner.plan import Program
from ebrl.runtime.bell import Bell
from ebrl.runtime.boot import Boot
from ebrl.runtime.messages import Episodes, Failed, Message, Ready, Saved, Updated, send
from ebrl.runtime.segments import Segments
from ebrl.runtime.slab import Slab

if TYPE_CHECKING:
    from ebrl.runtime.train import Train

LOADER = "ebrl.frontend.load"  # by name: the runtime knows no frontend, only where stages come from
TELL_EVERY_S = 0.2
IDLE_S = 0.5
PR_SET_PDEATHSIG = 1
STOP_DONE = 1


class Worker:
    """What every role has: the slab, the bells, the pipe to the run, and its own clock."""

    def __init__(self, boot: Boot) -> None:
        self.boot = boot
        self.program = msgspec.json.decode(boot.program, type=Program)
        self.slab = Slab(boot.slab_fd, boot.layout)
        self.segments = Segments(
            self.slab, per_batch=boot.per_batch, max_staleness=boot.max_staleness
        )
        self.bell = Bell(boot.bells[boot.name])
        self._bells = {name: Bell(fd) for name, fd in boot.bells.items() if name != boot.name}
        self._clock = self.slab["clock"][boot.worker]
        self._stop = self.slab["stop"]

    def stopping(self) -> bool:
        return bool(self._stop[0])

    def tell(self, message: Message) -> None:
        send(self.boot.pipe_fd, message)

    def stage(self, name: str) -> Any:
        """The user's stage object, from the graph file that the plan was made of."""
        return load_stage(self.boot.graph, self.boot.graph_sha256, name)

    def bells_of(self, role: str) -> list[Bell]:
        return [bell for name, bell in self._bells.items() if name.split()[0] == role]

    def count(self, busy_ns: int, items: int) -> None:
        """One firing on this worker's clock."""
        self._clock[0] += busy_ns
        self._clock[1] += 1
        self._clock[2] += items

    def beat(self) -> None:
        self._clock[3] = time.monotonic_ns()

    def stop_all(self) -> None:
        """The work is done: tell everybody."""
        self._stop[0] = STOP_DONE
        for bell in self._bells.values():
            bell.ring()


def simulate(worker: Worker) -> None:
    """Build the environments, stepping those that are there already, then step them all."""
    from ebrl.runtime.simulate import Simulate

    boot = worker.boot
    generate = [
        bell
        for bell, (first, last) in zip(worker.bells_of("generate"), boot.generators, strict=True)
        if first < boot.last and boot.first < last
    ]
    learner = worker.bells_of("train")[0]

    def ring_generate() -> None:
        for bell in generate:
            bell.ring()

    body = Simulate(
        worker.slab,
        worker.segments,
        worker=boot.worker,
        first=boot.first,
        count=boot.last - boot.first,
        group=boot.group,
        seed=boot.seed,
        ring_generate=ring_generate,
        ring_learner=learner.ring,
    )
    stage = worker.stage(boot.stage)
    single_thread()
    told = time.monotonic()
    try:
        for _ in range(boot.last - boot.first):
            if worker.stopping():
                return
            body.add(stage.environment())
            body.sweep()
            worker.beat()
        worker.tell(Ready())
        _settle()
        while not worker.stopping():
            begin = time.perf_counter_ns()
            steps = body.sweep()
            if steps:
                worker.count(time.perf_counter_ns() - begin, steps)
            else:
                worker.bell.wait(IDLE_S)
            worker.beat()
            now = time.monotonic()
            if body.episodes and now - told > TELL_EVERY_S:
                told = now
                worker.tell(_episodes(body.episodes))
    finally:
        if body.episodes:
            worker.tell(_episodes(body.episodes))
        body.close()


def generate(worker: Worker) -> None:
    """Answer observations as they come."""
    from ebrl.runtime.generate import Generate
    from ebrl.runtime.weights import Weights

    boot = worker.boot
    set_threads(boot.threads)
    environment = worker.program.environment
    assert environment is not None
    policy = worker.stage(boot.stage).build(environment, seed=boot.seed, device=boot.device)
    bells = list(zip(worker.bells_of("simulate"), boot.simulators, strict=True))
    weights = Weights(worker.slab)
    while weights.version < 0 and not worker.stopping():
        worker.bell.wait(IDLE_S)
        worker.beat()
    body = Generate(
        worker.slab,
        worker.segments,
        policy,
        first=boot.first,
        last=boot.last,
        batch=boot.batch,
        groups=boot.groups,
        seed=boot.seed,
    )
    worker.tell(Ready())
    _settle()
    while not worker.stopping():
        begin = time.perf_counter_ns()
        envs = body.serve()
        if envs.size:
            for bell, (first, last) in bells:
                position = int(np.searchsorted(envs, first))
                if position < envs.size and envs[position] < last:
                    bell.ring()
            worker.count(time.perf_counter_ns() - begin, int(envs.size))
        else:
            worker.bell.wait(IDLE_S)
        worker.beat()


def train(worker: Worker) -> None:
    """Publish the first weights, then update whenever a batch is there; save at the end."""
    from ebrl.runtime import checkpoint
    from ebrl.runtime.train import Train

    boot = worker.boot
    set_threads(boot.threads)
    environment, training = worker.program.environment, worker.program.training
    assert environment is not None
    assert training is not None
    total = boot.total_steps
    body = worker.stage(boot.stage).build(
        worker.stage(boot.policy_stage),
        environment,
        training,
        seed=boot.seed,
        device=boot.device,
        total_updates=None if total is None else max(1, -(-total // training.batch)),
    )
    version, trained = 0, 0
    if boot.resume is not None:
        tensors, state = checkpoint.load(Path(boot.resume))
        body.load_state(tensors, state.learner)
        version, trained = state.version, state.trained
    learner = Train(worker.slab, worker.segments, body, version=version)
    simulators = worker.bells_of("simulate")

    def save() -> None:
        folder, state = _save(worker, learner, body, trained)
        worker.tell(Saved(str(folder), state.weights_sha256))

    try:
        learner.publish()
        for bell in (*worker.bells_of("generate"), *simulators):
            bell.ring()
        worker.tell(Ready())
        _settle()
        saved = time.monotonic()
        openings = -2
        while not worker.stopping():
            begin = time.perf_counter_ns()
            update = learner.update(worker.stopping)
            worker.beat()
            if worker.segments.openings != openings:
                openings = worker.segments.openings
                for bell in simulators:
                    bell.ring()
            if update is None:
                worker.bell.wait(IDLE_S)
                continue
            worker.count(time.perf_counter_ns() - begin, update.env_steps)
            trained += update.env_steps
            worker.tell(
                Updated(
                    version=update.version,
                    trained=trained,
                    env_steps=update.env_steps,
                    seconds=update.seconds,
                    staleness_mean=update.staleness_mean,
                    staleness_max=update.staleness_max,
                    metrics=update.metrics,
                )
            )
            if total is not None and trained >= total:
                worker.stop_all()
            elif time.monotonic() - saved > boot.checkpoint_every_s:
                save()
                saved = time.monotonic()
    finally:
        save()


ROLES: dict[str, Callable[[Worker], None]] = {
    "simulate": simulate,
    "generate": generate,
    "train": train,
}


def main() -> None:
    """Run one worker to its end; exit 0 when it was asked to stop."""
    boot = msgspec.json.decode(sys.stdin.buffer.read(), type=Boot)
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() == 1:  # the run died before we asked to die with it
        sys.exit(1)
    setproctitle.setproctitle(f"ebrl {boot.name}")
    for fd in (boot.slab_fd, boot.pipe_fd, *boot.bells.values()):
        os.set_inheritable(fd, False)  # not for what the user's simulator starts
    if boot.core_set:
        os.sched_setaffinity(0, boot.core_set)
    worker = Worker(boot)

    def thread_died(args: threading.ExceptHookArgs) -> None:
        if args.exc_value is not None:
            _fail(worker, args.exc_value)
            os._exit(1)

    threading.excepthook = thread_died
    try:
        ROLES[boot.role](worker)
    except BaseException as error:
        _fail(worker, error)
        sys.exit(1)


def _fail(worker: Worker, error: BaseException) -> None:
    if isinstance(error, EbrlError):
        diagnostics = error.diagnostics
    else:
        last = traceback.extract_tb(error.__traceback__)[-1:]
        where = f"{last[0].filename}:{last[0].lineno}" if last else ""
        message = f"{type(error).__name__} in `{worker.boot.name}`: {error}"
        diagnostics = (Diagnostic(code="worker-raised", message=message, where=where),)
    text = "".join(traceback.format_exception(error))
    print(text, file=sys.stderr, flush=True)
    worker.tell(Failed(diagnostics=diagnostics, traceback=text))


def _save(worker: Worker, learner: Train, body: Any, trained: int) -> tuple[Path, Any]:
    from ebrl.runtime import checkpoint

    tensors, data = body.state()
    flat = np.empty(worker.slab["weights"].shape[1], np.float32)
    body.write_weights(flat)
    state = checkpoint.State(
        version=learner.version,
        trained=trained,
        graph=worker.program.name,
        program_sha256=worker.program.sha256,
        tensors_sha256="",
        weights_sha256=hashlib.sha256(flat.tobytes()).hexdigest(),
        seed=worker.boot.seed,
        learner=data,
    )
    return checkpoint.save(Path(worker.boot.run_dir) / "checkpoint", tensors, state)


def _episodes(episodes: list[Any]) -> Episodes:
    rows = [(each.environment, each.reward, each.length, each.success) for each in episodes]
    episodes.clear()
    return Episodes(rows)


def load_stage(graph: str, sha256: str | None, name: str) -> Any:
    """A stage object of the user's, from the graph file; refused where the file has changed."""
    return importlib.import_module(LOADER).load_stage(graph, sha256, name)


def set_threads(count: int) -> None:
    import torch

    torch.set_num_threads(count)


def single_thread() -> None:
    """A simulator that brought torch along must not start a thread a core beside the others."""
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.set_num_threads(1)


def _settle() -> None:
    """What was built stays: the collector need not look at it again and again."""
    gc.collect()
    gc.freeze()


if __name__ == "__main__":
    try:
        main()
    except RunError as error:
        print(error, file=sys.stderr)
        sys.exit(error.exit_code)
