"""Is there room for a plan? Cores, RAM, SMs, device memory and busy time, counted again from the
plan.

Invariant: only the plan is read; what a replica takes follows from its own points and work.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence

from ebrl.planner.hardware import DeviceKind, NodeClass
from ebrl.planner.model.clock import Clock
from ebrl.planner.model.demand import Demand, demands
from ebrl.planner.model.options import device_bytes, host_ram, ram_of_environments
from ebrl.planner.plan import Plan, Replica
from ebrl.planner.proof.book import Book

Seat = tuple[Demand, Replica]


def check(plan: Plan, nodes: Mapping[str, NodeClass], book: Book) -> None:
    """Every capacity of every node that is used."""
    here: dict[str, list[Seat]] = defaultdict(list)
    for demand in demands(plan.program):
        for replica in plan.stage(demand.name).replicas:
            here[replica.node].append((demand, replica))
    clock = Clock(plan.program, plan.profile)
    resident: dict[object, int] = {}
    for name, seats in here.items():
        node = nodes[name]
        for phase in (False, True):
            some = [seat for seat in seats if _apart(plan, seat) is phase]
            _cores(name, node, [replica for _, replica in some], book)
        _ram(clock, name, node, seats, book)
        on_device: dict[int, list[Seat]] = defaultdict(list)
        for seat in seats:
            if seat[1].device is not None:
                on_device[seat[1].device].append(seat)
        for index, some in on_device.items():
            where = f"{name} device {index}"
            if node.device is None or not 0 <= index < node.devices:
                book.expect(False, "no-device", f"{name} has {node.devices} devices", where)
                continue
            _memory(plan, clock, node.device, some, where, resident, book)
            working = [seat for seat in some if not _apart(plan, seat)]
            _sms(plan, node.device, working, where, book)
            for demand, replica in some:
                if _apart(plan, (demand, replica)):
                    book.at_most(replica.busy, 1.0, "busy", f"{demand.name} busy", where)
                    book.at_most(replica.sms, node.device.sms, "sms", "SMs", where)


def _apart(plan: Plan, seat: Seat) -> bool:
    return plan.schedule == "synchronous" and seat[0].learns


def _cores(name: str, node: NodeClass, replicas: Sequence[Replica], book: Book) -> None:
    """Shares within the node, and within each set of cores."""
    total = math.fsum(replica.cores for replica in replicas)
    book.at_most(total, node.cores, "cores", "cores", name)
    known = {core for domain in node.numa for core in domain} or set(range(node.cores))
    shares: dict[tuple[int, ...], float] = defaultdict(float)
    for replica in replicas:
        shares[replica.core_set] += replica.cores
    for chosen, share in shares.items():
        book.expect(
            bool(chosen) and set(chosen) <= known,
            "core-set",
            f"{list(chosen)} are not cores of {name}",
            name,
        )
        book.at_most(share, len(chosen), "core-set", f"shares on cores {list(chosen)}", name)


def _ram(clock: Clock, name: str, node: NodeClass, seats: Sequence[Seat], book: Book) -> None:
    total = 0.0
    for demand, replica in seats:
        device = None if replica.device is None else node.device
        time = clock.of(demand.stage, device)
        if time is None:
            continue  # reported where rates are checked
        if device is not None:
            total += host_ram(time.points, demand.stage.work)
        elif demand.holds:
            process, each = ram_of_environments(
                clock.points_of(demand.stage, None), demand.stage.work
            )
            first, last = replica.environments or (0, 0)
            total += process + each * (last - first)
        else:
            total += int(time.seconds(0, replica.rated_cores, replica.batch).bytes)
    book.at_most(total, node.ram_bytes, "ram", "RAM", name)


def _memory(
    plan: Plan,
    clock: Clock,
    device: DeviceKind,
    seats: Sequence[Seat],
    where: str,
    resident: dict[object, int],
    book: Book,
) -> None:
    total = 0
    for demand, replica in seats:
        held = replica.batch * (plan.environments.groups if demand.holds else 1)
        shards = plan.stage(demand.name).shards
        key = (demand.name, device.name, replica.rated_cores, held, shards)
        if key not in resident:
            time = clock.of(demand.stage, device)
            resident[key] = 0
            if time is not None:
                resident[key] = device_bytes(
                    time, device, replica.rated_cores, held, demand.stage.work, shards=shards
                )
        total += resident[key]
        if demand.holds and replica.environments is not None:
            first, last = replica.environments
            book.at_most(
                last - first, held, "environments", f"environments in {demand.name}", where
            )
    book.at_most(total, device.memory_bytes, "memory", "device memory", where)


def _sms(plan: Plan, device: DeviceKind, seats: Sequence[Seat], where: str, book: Book) -> None:
    """Disjoint sets of SMs, or turns on the whole device; slowed down by who else works there."""
    stages = frozenset(demand.name for demand, _ in seats)
    book.expect(len(stages) == len(seats), "pattern", "one stage twice on one device", where)
    for _, replica in seats:
        book.expect(
            replica.sms in device.quotas(), "sms", f"{replica.sms} SMs cannot be granted", where
        )
    turns = sum(replica.sms for _, replica in seats) > device.sms
    slowdown = 1.0
    if len(stages) > 1:
        entry = next(
            (e for e in plan.interference if frozenset(e.stages) == stages and e.turns is turns),
            None,
        )
        book.expect(entry is not None, "interference", f"no factor for {sorted(stages)}", where)
        slowdown = entry.factor if entry is not None else 1.0
        book.expect(slowdown >= 1.0, "interference", f"factor {slowdown} is below one", where)
    if turns:
        whole = all(replica.sms == device.sms for _, replica in seats)
        book.expect(whole, "sms", "SMs overlap, and not everybody has the whole device", where)
        busy = math.fsum(replica.busy for _, replica in seats)
        book.at_most(busy, 1 / slowdown, "busy", "busy shares in turns", where)
        return
    end = 0
    for _, replica in sorted(seats, key=lambda seat: seat[1].sm_start):
        book.expect(replica.sm_start >= end, "sms", f"SM {replica.sm_start} is taken", where)
        end = replica.sm_start + replica.sms
        book.at_most(replica.busy, 1 / slowdown, "busy", "busy share", where)
    book.at_most(end, device.sms, "sms", "SMs", where)
