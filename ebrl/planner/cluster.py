"""The `--cluster` text becomes a `Cluster`: words, counted groups, options, or a file.

    cluster = "local" options | "ray" | PATH.yaml | term { "+" term }
    term    = [ COUNT "*" ] ( "(" node ")" | node ) options
    node    = ( "cpu" CORES | DEVICE [ "x" COUNT ] ) options
    options = { "/" ( "cores" | "ram" ) "=" VALUE }

Invariant: every fault is one PlanError that shows the text with a caret under the place.
"""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from ebrl.errors import PlanError
from ebrl.planner import devices
from ebrl.planner.hardware import Cluster, NodeClass
from ebrl.planner.units import read_bytes

CPU_RAM_BYTES_PER_CORE = 4 * 1024**3  # assumed: the ratio of general-purpose cloud machines
CPU_NETWORK_BYTES_PER_S = 3.125e9  # assumed: 25 Gbit/s
MOST = 1_000_000  # more nodes, devices or cores than this are a slip of the finger
EXAMPLES = "for example local, cpu16, a100x8, 4*(h100x8), 2*(a100x8)+3*(cpu64), or a YAML file"
_TOKEN = re.compile(r"\s*(?P<token>[A-Za-z0-9_.-]+|[*+()/=])\s*")


def parse(text: str) -> Cluster:
    """Read a cluster's description. Raises PlanError, with its place, for anything else."""
    stripped = text.strip()
    if stripped.lower().endswith((".yaml", ".yml")) or _is_file(stripped):
        from ebrl.planner.cluster_file import read

        return read(Path(stripped))
    if stripped.lower() == "ray":
        from ebrl.planner.cluster_ray import running

        return running()
    return _Parser(text).cluster()


def _is_file(text: str) -> bool:
    try:
        return Path(text).is_file()
    except (OSError, ValueError):
        return False


class _Parser:
    """One pass over the tokens of one text; `place` is where the next token begins."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens: list[tuple[str, int]] = []
        place = 0
        while place < len(text):
            match = _TOKEN.match(text, place)
            if match is None:
                if text[place:].isspace():
                    break
                start = place + len(text[place:]) - len(text[place:].lstrip())
                raise self.fault(f"{text[start]!r} has no meaning here", start, hint=EXAMPLES)
            self.tokens.append((match["token"], match.start("token")))
            place = match.end()
        self.at = 0

    def fault(self, message: str, place: int, length: int = 1, hint: str = "") -> PlanError:
        shown, caret = _window(self.text, place, length)
        return PlanError(
            "cluster-malformed",
            f"{message}\n  {shown}\n  {caret}",
            where=f"--cluster, column {place + 1}",
            hint=hint,
        )

    @property
    def token(self) -> str:
        return self.tokens[self.at][0] if self.at < len(self.tokens) else ""

    @property
    def place(self) -> int:
        return self.tokens[self.at][1] if self.at < len(self.tokens) else len(self.text.rstrip())

    def take(self, *expected: str) -> bool:
        """Step over the token if it is one of these."""
        if self.token in expected and self.token:
            self.at += 1
            return True
        return False

    def cluster(self) -> Cluster:
        if not self.tokens:
            raise self.fault("the cluster is empty", 0, hint=EXAMPLES)
        if self.token.lower() == "local":
            cluster = self.local()
        else:
            nodes = [self.term()]
            while self.take("+"):
                nodes.append(self.term())
            cluster = Cluster(text=self.canonical(), nodes=gather(nodes))
        if self.token:
            raise self.fault(
                f"{self.token!r} is not expected here", self.place, len(self.token), EXAMPLES
            )
        return cluster

    def canonical(self) -> str:
        return "".join(token.lower() for token, _ in self.tokens)

    def local(self) -> Cluster:
        """This machine, or less of it."""
        from ebrl.planner.detect import local

        self.take(self.token)
        found = local()
        node, place = found.nodes[0], self.place
        wanted = self.options(node)
        if wanted.cores > node.cores or wanted.ram_bytes > node.ram_bytes:
            raise self.fault(
                f"this machine has {node.cores} cores and {node.ram_bytes / 1e9:.1f} GB", place
            )
        kept = {core for domain in node.numa for core in domain}
        kept = set(sorted(kept)[: wanted.cores])
        numa = tuple(tuple(core for core in domain if core in kept) for domain in node.numa)
        wanted = msgspec.structs.replace(wanted, numa=tuple(domain for domain in numa if domain))
        return msgspec.structs.replace(found, text=self.canonical(), nodes=(wanted,))

    def term(self) -> NodeClass:
        count = 1
        following = self.tokens[self.at + 1][0] if self.at + 1 < len(self.tokens) else ""
        if following == "*" or self.token.isdecimal():
            count = self.number("nodes", self.token, self.place)
            self.at += 1
            if not self.take("*"):
                raise self.fault(
                    "a count is followed by *", self.place, hint="for example 4*(h100x8)"
                )
        opened = self.place
        if self.take("("):
            node = self.node()
            if not self.take(")"):
                raise self.fault("this parenthesis is not closed", opened)
        else:
            node = self.node()
        return msgspec.structs.replace(self.options(node), count=count)

    def node(self) -> NodeClass:
        word, place = self.token, self.place
        if not word or word in "*+()/=":
            raise self.fault("a kind of node is missing here", place, hint=EXAMPLES)
        self.at += 1
        lower = word.lower()
        if lower in ("local", "ray"):
            raise self.fault(f"{lower} stands alone", place, len(word))
        if re.fullmatch(r"cpu\d*(x\d*)?", lower):
            return self.options(self.cores_only(lower, place))
        return self.options(self.with_devices(lower, place))

    def cores_only(self, word: str, place: int) -> NodeClass:
        digits, times, count = word.removeprefix("cpu").partition("x")
        if times:
            raise self.fault(
                "a node of cores alone has no devices to count",
                place + 3 + len(digits),
                len(times + count),
                hint=f"for several nodes: {count or 2}*(cpu{digits or 64})",
            )
        if not digits:
            raise self.fault("how many cores?", place, len(word), "for example cpu16")
        cores = self.number("cores", digits, place + 3)
        return NodeClass(
            name=f"cpu{cores}",
            count=1,
            cores=cores,
            ram_bytes=cores * CPU_RAM_BYTES_PER_CORE,
            network_bytes_per_s=CPU_NETWORK_BYTES_PER_S,
        )

    def with_devices(self, word: str, place: int) -> NodeClass:
        entry, count = devices.lookup(word), 1
        if entry is None:
            name, times, digits = word.rpartition("x")
            if times and digits.isdecimal():
                entry = devices.lookup(name)
                at = place + len(name) + 1
                count = self.number("devices", digits, at) if entry is not None else 1
            elif times and not digits and devices.lookup(name) is not None:
                raise self.fault(
                    f"how many {name}?", place + len(word), hint=f"for example {name}x8"
                )
            if entry is None:
                # "rtx4091" is a misspelt name, not 4,091 pieces of an "rt".
                counted = times and name and digits.isdecimal() and len(digits) <= 3
                kind = name if counted else word
                raise self.fault(
                    f"no device is called {kind!r}", place, len(kind), devices.near(kind)
                )
        return NodeClass(
            name=f"{entry.name}x{count}",
            count=1,
            cores=entry.cores(count),
            ram_bytes=entry.ram_bytes(count),
            device=entry.kind,
            devices=count,
            network_bytes_per_s=entry.network_bytes_per_s(count),
        )

    def options(self, node: NodeClass) -> NodeClass:
        while self.take("/"):
            key, place = self.token.lower(), self.place
            if key not in ("cores", "ram"):
                raise self.fault(
                    f"{key or 'nothing'!r} is not an option",
                    place,
                    max(1, len(key)),
                    "options are /cores=16 and /ram=64GB",
                )
            self.at += 1
            if not self.take("="):
                raise self.fault(f"{key} needs a value", self.place, hint=f"write {key}=16")
            value, place = self.token, self.place
            self.at += bool(value)
            if key == "cores":
                node = msgspec.structs.replace(node, cores=self.number("cores", value, place))
            else:
                ram = read_bytes(value)
                if ram is None or ram > 2**50:
                    raise self.fault(
                        f"{value!r} is not an amount of memory",
                        place,
                        max(1, len(value)),
                        "for example ram=64GB or ram=512GiB",
                    )
                node = msgspec.structs.replace(node, ram_bytes=ram)
        return node

    def number(self, what: str, digits: str, place: int) -> int:
        if not (digits.isdecimal() and digits.isascii()):
            raise self.fault(
                f"{digits or 'nothing'!r} is not a number of {what}", place, max(1, len(digits))
            )
        value = int(digits) if len(digits) < 12 else MOST + 1
        if not 1 <= value <= MOST:
            raise self.fault(f"{what} must be 1 to {MOST:,}", place, len(digits))
        return value


def gather(nodes: list[NodeClass]) -> tuple[NodeClass, ...]:
    """Equal classes become one, counted; others of the same name get letters (a100x8b)."""
    counts: dict[NodeClass, int] = {}
    for node in nodes:
        alone = msgspec.structs.replace(node, count=1)
        counts[alone] = counts.get(alone, 0) + node.count
    taken: dict[str, int] = {}
    classes = []
    for node, count in counts.items():
        taken[node.name] = taken.get(node.name, 0) + 1
        letters = "" if taken[node.name] == 1 else _letters(taken[node.name] - 1)
        classes.append(msgspec.structs.replace(node, count=count, name=node.name + letters))
    return tuple(classes)


def _letters(number: int) -> str:
    """1 → "b", 25 → "z", 26 → "ab": like the columns of a table, from the second on."""
    letters = ""
    number += 1
    while number:
        number, digit = divmod(number - 1, 26)
        letters = chr(ord("a") + digit) + letters
    return letters


def _window(text: str, place: int, length: int) -> tuple[str, str]:
    """The text around the place on one line, and the caret line under it."""
    first = max(0, place - 50)
    shown = "".join(each if each.isprintable() else "?" for each in text[first : first + 100])
    width = max(1, min(length, len(shown) - (place - first)))
    return shown, " " * (place - first) + "^" * width
