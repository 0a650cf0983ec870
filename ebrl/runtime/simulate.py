"""The simulate worker: steps every environment that has an action, each on its own.

Invariants: a worker steps only environments whose state is NEEDS_STEP and gives each back as
NEEDS_ACTION after everything about the step is written, so there is no barrier between
environments. It writes observations in place, cell t + 1 of the environment's segment. What was
computed is handed over in runs of about `FLUSH_NS`: cheap environments share the cost of the
hand-over, expensive ones are handed over at once. The generate worker is rung once a group, or when
nothing is left to do.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from ebrl.runtime.seats import CONTAINED, RULES, Episode, Failure, Make, Rules, Seat, nothing
from ebrl.runtime.segments import ABSENT, NEEDS_ACTION, NEEDS_STEP, PARKED, Segments
from ebrl.runtime.slab import Array, Slab
from ebrl.stages.protocols import Environment

FLUSH_NS = 4_000_000


class Simulate:
    """Environments [first, first + len(bodies)) of the run."""

    def __init__(
        self,
        slab: Slab,
        segments: Segments,
        *,
        worker: int,
        first: int,
        count: int,
        group: int,
        seed: int,
        ring_generate: Callable[[], None],
        ring_learner: Callable[[], None],
        beat: Callable[[], None] = nothing,
        rules: Rules = RULES,
    ) -> None:
        self._segments = segments
        self._first = first
        self._group = group
        self._seed = seed
        self._ring_generate = ring_generate
        self._ring_learner = ring_learner
        self._beat = beat
        self._rules = rules
        mine = slice(first, first + count)
        self._state = slab["env/state"][mine]
        self._segment = slab["env/segment"][mine]
        self._cursor = slab["env/cursor"][mine]
        self._lives = slab["env/lives"][mine]
        self._env_started = slab["env/started"][mine]
        self._version = slab["weights/version"]
        self._obs = slab.observations()
        self._action = slab["action"]
        self._reward = slab["reward"]
        self._steps = slab["steps"]
        self._terminated = slab["terminated"]
        self._truncated = slab["truncated"]
        self._produced = slab["produced"][worker]
        self.horizon = self._steps.shape[1]
        self.chunk = self._reward.shape[2]
        self._seats: list[Seat] = []
        self._broken: list[int] = []
        self._active = count  # of them; the others fill what they are filling, and then wait
        self.draining = False  # end what is being filled, start nothing
        self._cells: dict[int, list[dict[str, Array]]] = {}
        self._parked: list[int] = []
        self._seen_openings = -2
        self._unrung, self._mend_after = 0, 0.0
        self.episodes: list[Episode] = []
        self.failures: list[Failure] = []
        self.before: Callable[[int], None] | None = None  # told how many are about to be stepped

    def add(self, body: Environment, make: Make | None = None) -> None:
        """Take one more environment and start its first episode as soon as it is admitted.

        `make` builds another one in its place when it fails.
        """
        self._seats.append(
            Seat(
                body,
                make,
                self._first + len(self._seats),
                seed=self._seed,
                patience=self._rules.patience,
                chunk=self.chunk,
            )
        )
        self._park(len(self._seats) - 1)
        self._seen_openings = -2

    def tune(self, *, group: int, active: int) -> None:
        """Hand over so many at once; let the first so many start segments. 0: as before."""
        self._group = group or self._group
        if active and active != self._active:
            self._active = active
            self._seen_openings = -2

    def sweep(self) -> int:
        """Step everything that is ready; returns environment steps made, 0 if there was nothing."""
        if self._broken:
            self._mend()
        if self._parked and self._seen_openings != self._segments.openings and not self.draining:
            self._unpark()
        ready = np.flatnonzero(self._state == NEEDS_STEP)
        if ready.size == 0:
            self._hand_over()
            return 0
        if self.before is not None:
            self.before(ready.size)
        segments, cursors = self._segment[ready], self._cursor[ready]
        actions = self._action[segments, cursors]
        stepped = 0
        begin = 0
        deadline = time.perf_counter_ns() + FLUSH_NS
        rows = list(zip(ready.tolist(), segments.tolist(), cursors.tolist(), strict=True))
        results: list[tuple[int, Sequence[float], bool, bool]] = []
        for position, (env, segment, cursor) in enumerate(rows):
            cells = self._cells.get(segment)
            if cells is None:
                cells = self._cells_of(segment)
            failed: BaseException | None = None
            end = position + 1
            try:
                results.append(self._seats[env].decide(actions[position], cells[cursor + 1]))
            except CONTAINED as error:
                failed, end = error, position
            now = time.perf_counter_ns()
            if now >= deadline or position + 1 == len(rows) or failed is not None:
                mine = slice(begin, end)
                if results:
                    stepped += self._flush(
                        rows[mine], ready[mine], segments[mine], cursors[mine], results
                    )
                    results.clear()
                if failed is not None:
                    self._fail(env, segment, failed)
                self._beat()
                begin = position + 1
                deadline = now + FLUSH_NS
        return stepped

    @property
    def idle(self) -> bool:
        """Nothing is being filled."""
        count = len(self._seats)
        return self._segments.of_environments(self._first, self._first + count).size == 0

    def close(self) -> None:
        for seat in self._seats:
            seat.close()

    # -- handing over ------------------------------------------------------------------------------

    def _flush(
        self,
        rows: Sequence[tuple[int, int, int]],
        envs: NDArray[np.intp],
        segments: NDArray[np.int64],
        cursors: NDArray[np.int64],
        results: Sequence[tuple[int, Sequence[float], bool, bool]],
    ) -> int:
        """Write what was computed, then hand the environments over."""
        count, rewards, terminated, truncated = zip(*results, strict=True)
        if self.chunk == 1:
            self._reward[segments, cursors] = rewards
        else:  # a chunk may have been cut short: what it did not do has no reward
            for (_, segment, cursor), made in zip(rows, rewards, strict=True):
                self._reward[segment, cursor, : len(made)] = made
                self._reward[segment, cursor, len(made) :] = 0.0
        self._steps[segments, cursors] = count
        stepped = int(sum(count))
        if self._produced[0] == 0:
            self._produced[1] = time.monotonic_ns()
        self._produced[0] += stepped
        onward = cursors + 1
        last = self.horizon - 1
        special = [
            index
            for index, (_, _, cursor) in enumerate(rows)
            if cursor == last or terminated[index] or truncated[index]
        ]
        if special:
            plain = np.delete(np.arange(len(rows)), special)
            self._cursor[envs[plain]] = onward[plain]
            self._give(envs[plain])
            for index in special:
                env, segment, cursor = rows[index]
                self._terminated[segment, cursor] = terminated[index]
                self._truncated[segment, cursor] = truncated[index]
                ended = terminated[index] or truncated[index]
                self._turn(env, segment, cursor, ended=ended)
        else:
            self._cursor[envs] = onward
            self._give(envs)
        return stepped

    def _give(self, envs: NDArray[np.intp]) -> None:
        """These environments need an action now."""
        self._state[envs] = NEEDS_ACTION
        self._unrung += len(envs)
        if self._unrung >= self._group:
            self._hand_over()

    def _hand_over(self) -> None:
        if self._unrung:
            self._ring_generate()
            self._unrung = 0

    # -- the end of an episode or of a segment ---------------------------------------------------

    def _turn(self, env: int, segment: int, cursor: int, *, ended: bool) -> None:
        """Go on after a step that ended the episode, the segment, or both."""
        if ended:
            self.episodes.append(self._seats[env].finished())
        beyond = cursor + (2 if ended else 1)  # an ended episode's final observation takes a row
        worn = (
            ended
            and self._rules.recycle_every
            and self._seats[env].episodes >= self._rules.recycle_every
        )
        if worn and not self._mend_one(env, segment):
            return
        if self._rules.whole_episodes:
            beyond = self.horizon
            if not ended:  # longer than a segment: cut
                self._seats[env].forget()
        if beyond < self.horizon:
            if self._reset(env, segment, beyond):
                self._cursor[env] = beyond
                self._give(np.array([env]))
            return
        anew = ended or self._rules.whole_episodes
        last = None if anew else self._cells_of(segment)[self.horizon]
        rests = self.draining or env >= self._active
        following = None if rests else self._segments.start(self._first + env)
        if following is not None:
            self._begin(env, following, last)
        elif self._seats[env].mend_at is None:
            self._park(env, last)
        if self._segments.finish(segment):
            self._ring_learner()

    def _begin(self, env: int, segment: int, obs: Mapping[str, Array] | None) -> None:
        """Start a segment, from an observation or from a fresh episode."""
        seat = self._seats[env]
        if self._rules.anew_every is not None:
            version = int(self._version[0])
            if version % self._rules.anew_every == 0 and seat.anew != version:
                seat.forget()
                seat.anew = version
                obs = None
        if obs is None:
            if not self._reset(env, segment, 0):
                return
        else:
            cell = self._cells_of(segment)[0]
            for path, array in obs.items():
                np.copyto(cell[path], array)
        seat.held = None
        self._segment[env] = segment
        self._cursor[env] = 0
        self._give(np.array([env]))

    def _reset(self, env: int, segment: int, row: int) -> bool:
        """Begin an episode in this row; False when the environment failed at it."""
        try:
            seat = self._seats[env]
            if self._rules.alike > 1:
                seat.like(int(self._env_started[env]), (self._first + env) // self._rules.alike)
            seat.reset(self._cells_of(segment)[row], int(self._lives[env]))
        except CONTAINED as error:
            self._fail(env, segment, error)
            return False
        return True

    def _park(self, env: int, obs: Mapping[str, Array] | None = None) -> None:
        """Wait for admission; the segment that `obs` lies in will not be ours any more."""
        held = None if obs is None else {path: np.copy(array) for path, array in obs.items()}
        self._seats[env].held = held
        self._parked.append(env)
        self._state[env] = PARKED

    def _unpark(self) -> None:
        self._seen_openings = self._segments.openings
        waiting, self._parked = self._parked, []
        for position, env in enumerate(waiting):
            active = env < self._active
            segment = self._segments.start(self._first + env) if active else None
            if segment is None:
                self._parked.append(env)
                if (
                    active and self._segments.per_environment is None
                ):  # admission says the same to the others
                    self._parked.extend(waiting[position + 1 :])
                    return
            else:
                self._begin(env, segment, self._seats[env].held)

    # -- faults ----------------------------------------------------------------------------------

    def _fail(self, env: int, segment: int | None, error: BaseException) -> None:
        """This environment is out of order; what it was filling is thrown away and counted."""
        traceback.print_exception(error)
        self._state[env] = ABSENT
        steps = 0 if segment is None else self._segments.abandon(segment, "environment-failed")
        self.failures.append(self._seats[env].failed(error, steps))
        if env not in self._broken:
            self._broken.append(env)

    def _mend(self) -> None:
        """Build one that is due anew; before the next, the others step for as long as that took."""
        begin = time.monotonic()
        due = [env for env in self._broken if (self._seats[env].mend_at or 0.0) <= begin]
        if due and begin >= self._mend_after:
            if self._mend_one(due[0], None):
                self._broken.remove(due[0])
                self._park(due[0])
                self._seen_openings = -2
            self._mend_after = 2 * time.monotonic() - begin

    def _mend_one(self, env: int, segment: int | None) -> bool:
        self._lives[env] += 1
        try:
            self._seats[env].rebuild()
        except CONTAINED as error:
            self._fail(env, segment, error)
            return False
        return True

    # -- small things ------------------------------------------------------------------------------

    def _cells_of(self, segment: int) -> list[dict[str, Array]]:
        """Observation cells of a segment, made once: views, no copies."""
        cells = self._cells.get(segment)
        if cells is None:
            cells = [
                {path: array[segment, row, ...] for path, array in self._obs.items()}
                for row in range(self.horizon + 1)
            ]
            self._cells[segment] = cells
        return cells
