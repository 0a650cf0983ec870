"""SVG documents made fit to stand inside one HTML page.

Invariant: what comes out refers to nothing outside itself, shares no id with another picture, takes
its colours from the page (so that it turns dark with it), and says to a screen reader what it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING
from xml.etree import ElementTree

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element


# How a drawing names a colour of the page: a value that nobody would choose.
NAMES = (
    "ink",
    "soft",
    "rule",
    "predicted",
    "grey",
    "accent",
    "simulate",
    "generate",
    "train",
    "other-1",
    "other-2",
    "other-3",
)
COLOURS = {name: f"#0101{number:02x}" for number, name in enumerate(NAMES)}
THEME = {value: f"var(--{name})" for name, value in COLOURS.items()}

_FONT = re.compile(r"font-family:[^;]*;?\s*")
_LONG = re.compile(r"(\.\d\d)\d+")
_DROPPED = ("metadata", "style", "title")
_REFERENCES = ("href", "clip-path", "marker-end", "marker-start", "fill", "mask", "filter")


def inline(
    svg: str,
    *,
    name: str,
    title: str,
    description: str,
    colours: Mapping[str, str] = THEME,
    style: str = "",
) -> str:
    """The picture as an element of a page. `name` is unique on it; `colours` maps a colour of the
    drawing to one of the page; `style` is a style sheet of the drawing's own, already scoped.
    """
    root = ElementTree.fromstring(svg)
    for element in root.iter():
        element.tag = _local(element.tag)
        _tidy(element, name, colours)
    for parent, child in list(_children(root)):
        if child.tag in _DROPPED:
            parent.remove(child)
    _drop_idle_ids(root)
    kept = {"viewBox": root.get("viewBox", "")}
    root.attrib.clear()
    root.attrib.update(
        kept | {"role": "img", "aria-labelledby": f"{name}-title", "aria-describedby": f"{name}-d"}
    )
    for tag, text in (("style", style), ("desc", description), ("title", title)):
        if text:
            head = ElementTree.Element(tag)
            head.text = text
            if tag != "style":
                head.set("id", f"{name}-title" if tag == "title" else f"{name}-d")
            root.insert(0, head)
    return ElementTree.tostring(root, encoding="unicode")


def _tidy(element: Element, name: str, colours: Mapping[str, str]) -> None:
    attributes = {_local(key): value for key, value in element.attrib.items()}
    for key, value in attributes.items():
        if key == "id":
            attributes[key] = f"{name}-{value}"
        elif key == "d":
            attributes[key] = _LONG.sub(r"\1", " ".join(value.split()))
        elif key in ("style", "fill", "stroke", "stop-color"):
            text = _FONT.sub("", value) if key == "style" else value
            for drawn, shown in colours.items():
                text = text.replace(drawn, shown)
            attributes[key] = text
        if key in _REFERENCES or key == "style":
            attributes[key] = re.sub(r"url\(#([^)]+)\)", rf"url(#{name}-\1)", attributes[key])
        if key == "href" and value.startswith("#"):
            attributes[key] = f"#{name}-{value[1:]}"
    if "fill" in attributes and "var(" in attributes["fill"]:  # var() works in style alone
        _to_style(attributes, "fill")
    if "stroke" in attributes and "var(" in attributes["stroke"]:
        _to_style(attributes, "stroke")
    element.attrib.clear()
    element.attrib.update({key: value for key, value in attributes.items() if value})


def _to_style(attributes: dict[str, str], key: str) -> None:
    rest = attributes.get("style", "").strip().rstrip(";")
    attributes["style"] = "; ".join(filter(None, [f"{key}: {attributes.pop(key)}", rest]))


def _drop_idle_ids(root: Element) -> None:
    """Ids that nothing refers to only make the page longer."""
    used = {
        found
        for element in root.iter()
        for key, value in element.attrib.items()
        if key != "id"
        for found in re.findall(r"#([\w.-]+)", value)
    }
    for element in root.iter():
        if element.get("id") not in used:
            element.attrib.pop("id", None)


def _children(root: Element) -> Iterator[tuple[Element, Element]]:
    for parent in root.iter():
        for child in parent:
            yield parent, child


def _local(tag: str) -> str:
    return tag.rpartition("}")[2]
