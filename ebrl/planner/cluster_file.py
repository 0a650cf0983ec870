"""A cluster in a YAML file: what a text cannot say (prices, network, NUMA, devices of one's own).

Invariant: the file is parsed strictly, an unknown key is a fault, and every fault is one PlanError
with the file, the line and the path inside it (`lab.yaml:7: nodes[0].cores`).
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import yaml
from msgspec import Meta

from ebrl.errors import PlanError
from ebrl.planner import devices
from ebrl.planner.cluster import CPU_NETWORK_BYTES_PER_S, CPU_RAM_BYTES_PER_CORE, gather
from ebrl.planner.detect import core_list
from ebrl.planner.hardware import Cluster, DeviceKind, NodeClass
from ebrl.planner.units import read_bytes, read_bytes_per_s

MOST_BYTES = 8 * 1024**2
Count = Annotated[int, Meta(ge=1, le=1_000_000)]
Bytes = Annotated[int, Meta(ge=1, le=2**60)]
Positive = Annotated[float, Meta(gt=0, le=1e9)]
Name = Annotated[str, Meta(pattern=r"^[a-z][a-z0-9-]{0,62}$")]


class DeviceEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A device of one's own; with `like`, whatever is not said is taken from the catalogue."""

    name: Name
    like: str | None = None
    sms: Count | None = None
    sm_min: Count | None = None
    sm_step: Count | None = None
    partition: Literal["green context", "mps"] | None = None
    half: Literal["bf16", "fp16"] | None = None
    memory: str | Bytes | None = None
    memory_rate: str | None = None
    half_tflops: Positive | None = None
    fp32_tflops: Positive | None = None
    link: str | None = None
    source: str = ""


class NodeEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A class of equal nodes."""

    name: Name | None = None
    count: Count = 1
    device: str | None = None
    devices: Count | None = None
    cores: Count | None = None
    ram: str | Bytes | None = None
    network: str | None = None
    price_per_hour: Annotated[float, Meta(ge=0, le=1e9)] | None = None
    numa: tuple[str, ...] = ()


class ClusterFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The whole file."""

    nodes: Annotated[tuple[NodeEntry, ...], Meta(min_length=1, max_length=1000)]
    devices: Annotated[tuple[DeviceEntry, ...], Meta(max_length=1000)] = ()


class _Document:
    """The file with its tree of marked nodes, to turn a path inside it into a line."""

    def __init__(self, path: Path, text: str) -> None:
        self.path = path
        try:
            self.root = yaml.compose(text, Loader=yaml.SafeLoader)
            self._reject_twins()
            self.data: object = yaml.safe_load(text)
        except yaml.MarkedYAMLError as error:
            line = error.problem_mark.line + 1 if error.problem_mark else 1
            raise self._unreadable(error.problem or "it is not YAML", line) from error
        except (yaml.YAMLError, ValueError) as error:
            raise self._unreadable(str(error).partition("\n")[0], 1) from error
        except RecursionError as error:
            raise self._unreadable("it is nested too deeply", 1) from error

    def _unreadable(self, problem: str, line: int) -> PlanError:
        return PlanError("cluster-file", problem, where=f"{self.path}:{line}")

    def _reject_twins(self) -> None:
        """A key given twice in one mapping is a fault, not the last one's silent win."""
        waiting, seen = [self.root], set()
        while waiting:
            node = waiting.pop()
            if id(node) in seen:
                continue  # an alias
            seen.add(id(node))
            if isinstance(node, yaml.SequenceNode):
                waiting.extend(node.value)
            elif isinstance(node, yaml.MappingNode):
                keys = [key.value for key, _ in node.value]
                for key, value in node.value:
                    waiting.append(value)
                    if not isinstance(key, yaml.ScalarNode) or keys.count(key.value) > 1:
                        what = (
                            "is given twice" if isinstance(key, yaml.ScalarNode) else "is no word"
                        )
                        line = key.start_mark.line + 1
                        raise self._unreadable(f"the key {key.value!r} {what}", line)

    def fault(self, message: str, place: str = "", hint: str = "") -> PlanError:
        where = f"{self.path}:{self.line(place)}" + (f": {place}" if place else "")
        return PlanError("cluster-file", message, where=where, hint=hint)

    def line(self, place: str) -> int:
        """The line of the deepest part of the path that the file has, from 1."""
        node, line = self.root, 1
        for name, index in re.findall(r"([^.\[\]]+)|\[(\d+)\]", place):
            below = mark = None
            if isinstance(node, yaml.MappingNode) and name:
                pairs = ((key, value) for key, value in node.value if key.value == name)
                mark, below = next(pairs, (None, None))
            elif isinstance(node, yaml.SequenceNode) and index and int(index) < len(node.value):
                mark = below = node.value[int(index)]
            if below is None or mark is None:
                break
            node, line = below, mark.start_mark.line + 1
        return line


def read(path: Path) -> Cluster:
    """Read a cluster file. Raises PlanError for anything that is not one."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise PlanError(
            "cluster-file", f"cannot read the cluster: {error.strerror}", where=str(path)
        ) from error
    if len(data) > MOST_BYTES:
        raise PlanError("cluster-file", f"{len(data):,} bytes is no cluster file", where=str(path))
    return decode(data, path)


def decode(data: bytes, path: Path) -> Cluster:
    """The cluster in these bytes; `path` is for messages."""
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise PlanError("cluster-file", "it is not UTF-8 text", where=f"{path}:{line}") from error
    document = _Document(path, text)
    try:
        parsed = msgspec.convert(document.data, type=ClusterFile)
    except msgspec.ValidationError as error:
        message, _, place = str(error).partition(" - at `")
        place = place.rstrip("`").removeprefix("$")
        if unknown := re.search(r"unknown field `(.*)`", message):
            place += f".{unknown[1]}"
        place = place.removeprefix(".")
        raise document.fault(message[0].lower() + message[1:], place, _hint(message)) from error
    kinds = _kinds(document, parsed)
    nodes = [
        _node(document, f"nodes[{index}]", node, kinds) for index, node in enumerate(parsed.nodes)
    ]
    names = [node.name for node in parsed.nodes if node.name is not None]
    for index, node in enumerate(parsed.nodes):
        if node.name is not None and names.count(node.name) > 1:
            raise document.fault(
                f"{node.name!r} names two classes of nodes", f"nodes[{index}].name"
            )
    return Cluster(text=str(path), nodes=gather(nodes))


def _hint(message: str) -> str:
    if "unknown field" in message:
        return (
            f"keys of a node: {', '.join(NodeEntry.__struct_fields__)}; "
            f"of a device: {', '.join(DeviceEntry.__struct_fields__)}"
        )
    return ""


def _kinds(document: _Document, parsed: ClusterFile) -> dict[str, DeviceKind]:
    kinds: dict[str, DeviceKind] = {}
    for index, each in enumerate(parsed.devices):
        place = f"devices[{index}]"
        if each.name in kinds:
            raise document.fault(f"{each.name!r} is declared twice", f"{place}.name")
        if each.name == "cpu" or (devices.lookup(each.name) is not None):
            raise document.fault(
                f"{each.name!r} is a name of the catalogue", f"{place}.name", "choose another name"
            )
        kinds[each.name] = _kind(document, place, each)
    return kinds


def _kind(document: _Document, place: str, entry: DeviceEntry) -> DeviceKind:
    base: dict[str, Any] = {}
    if entry.like is not None:
        known = devices.lookup(entry.like)
        if known is None:
            raise document.fault(
                f"no device is called {entry.like!r}", f"{place}.like", devices.near(entry.like)
            )
        base = msgspec.structs.asdict(known.kind)
    given: dict[str, Any] = {
        "sms": entry.sms,
        "sm_min": entry.sm_min,
        "sm_step": entry.sm_step,
        "partition": entry.partition,
        "half": entry.half,
        "memory_bytes": _bytes(document, f"{place}.memory", entry.memory),
        "memory_bytes_per_s": _rate(document, f"{place}.memory_rate", entry.memory_rate),
        "bf16_flops": entry.half_tflops and entry.half_tflops * 1e12,
        "fp32_flops": entry.fp32_tflops and entry.fp32_tflops * 1e12,
        "link_bytes_per_s": _rate(document, f"{place}.link", entry.link),
    }
    given = {key: value for key, value in given.items() if value is not None}
    names = {
        "memory_bytes": "memory",
        "memory_bytes_per_s": "memory_rate",
        "link_bytes_per_s": "link",
    }
    names |= {"bf16_flops": "half_tflops", "fp32_flops": "fp32_tflops"}
    optional = ("partition", "half", "sm_min", "sm_step")
    for key in DeviceKind.__struct_fields__[1:]:
        if key in ("source", "mps_step_percent", *optional) or key in base or key in given:
            continue
        raise document.fault(
            f"{entry.name!r} lacks {names.get(key, key)}",
            place,
            "say it, or name a device of the catalogue that it is like",
        )
    source = entry.source or f"the cluster file{', like ' + entry.like if entry.like else ''}"
    merged = {"sm_min": 2, "sm_step": 2, "partition": "mps", **base, **given}
    if merged["sm_min"] > merged["sms"]:
        raise document.fault("sm_min is more than sms", place)
    return DeviceKind(**{**merged, "name": entry.name, "source": source})


def _node(
    document: _Document, place: str, entry: NodeEntry, kinds: dict[str, DeviceKind]
) -> NodeClass:
    kind, count = None, entry.devices or 1
    known = None
    if entry.device is not None:
        known = devices.lookup(entry.device)
        kind = kinds.get(entry.device) or (known.kind if known else None)
        if kind is None:
            raise document.fault(
                f"no device is called {entry.device!r}",
                f"{place}.device",
                devices.near(entry.device),
            )
    elif entry.devices is not None:
        raise document.fault("devices of which kind?", f"{place}.devices", "say device: a100")
    cores = entry.cores or (known.cores(count) if known else None)
    if cores is None:
        raise document.fault("the node lacks cores", place, "say cores: 64")
    ram = _bytes(document, f"{place}.ram", entry.ram)
    network = _rate(document, f"{place}.network", entry.network)
    default_ram = known.ram_bytes(count) if known else cores * CPU_RAM_BYTES_PER_CORE
    default_network = known.network_bytes_per_s(count) if known else CPU_NETWORK_BYTES_PER_S
    return NodeClass(
        name=entry.name or (f"{kind.name}x{count}" if kind else f"cpu{cores}"),
        count=entry.count,
        cores=cores,
        ram_bytes=ram if ram is not None else default_ram,
        device=kind,
        devices=count if kind else 0,
        network_bytes_per_s=network if network is not None else default_network,
        price_per_hour=entry.price_per_hour,
        numa=_numa(document, place, entry.numa, cores),
    )


def _numa(
    document: _Document, place: str, texts: tuple[str, ...], cores: int
) -> tuple[tuple[int, ...], ...]:
    domains = []
    for index, text in enumerate(texts):
        try:
            domains.append(core_list(text))
        except PlanError as error:
            message = error.diagnostics[0].message
            raise document.fault(message, f"{place}.numa[{index}]") from error
    flat = [core for domain in domains for core in domain]
    if domains and (len(set(flat)) != len(flat) or len(flat) != cores):
        raise document.fault(
            f"the domains list {len(set(flat))} different cores in {len(flat)} places, "
            f"the node has {cores}",
            f"{place}.numa",
            'every core once, for example ["0-31", "32-63"]',
        )
    return tuple(domains)


def _bytes(document: _Document, place: str, value: str | int | None) -> int | None:
    if value is None:
        return None
    found = read_bytes(value) if isinstance(value, str) else value
    if found is None or not 1 <= found <= 2**60:
        raise document.fault(f"{value!r} is not an amount of memory", place, "for example 512GB")
    return found


def _rate(document: _Document, place: str, value: str | None) -> float | None:
    if value is None:
        return None
    found = read_bytes_per_s(value)
    if found is None:
        raise document.fault(
            f"{value!r} is not a rate", place, "for example 200Gbit/s (bits) or 25GB/s (bytes)"
        )
    return found
