"""Recorded stacks as files to look at: a flame graph, and the format of speedscope.

The flame graph is drawn here, so that equal workers lie on top of each other as one, as they do in the table;
py-spy would draw each process apart. Source: Brendan Gregg, "The Flame Graph", CACM 59(6), 2016.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from xml.sax.saxutils import escape

from loaderproof.suite.diagnosis.frames import Frame, Role, Stack, short

_ROW, _HEAD, _WIDTH = 17, 44, 1400
# A frame of less than this share of the picture cannot be seen.
_NARROWEST = 0.0007
# Every frame clips its own text. A click makes a frame as wide as the picture.
_SCRIPT = """
const frames = [...document.querySelectorAll("svg > svg")];
const seen = frames.map(f => [parseFloat(f.getAttribute("x")), parseFloat(f.getAttribute("width"))]);
frames.forEach((frame, clicked) => frame.addEventListener("click", () => {
  const [left, width] = seen[clicked];
  frames.forEach((other, n) => {
    const [x, w] = seen[n], above = x <= left + 1e-6 && x + w >= left + width - 1e-6;
    const inside = x >= left - 1e-6 && x + w <= left + width + 1e-6;
    other.style.display = inside || above ? "" : "none";
    other.setAttribute("x", above ? "0%" : 100 * (x - left) / width + "%");
    other.setAttribute("width", above ? "100%" : 100 * w / width + "%");
  });
}));
"""


@dataclass
class _Node:
    """A function with everything that it called."""

    label: str
    count: int = 0
    children: dict[str, _Node] = field(default_factory=dict)

    def add(self, labels: Sequence[str], count: int) -> None:
        self.count += count
        node = self
        for label in labels:
            node = node.children.setdefault(label, _Node(label))
            node.count += count

    @property
    def depth(self) -> int:
        return 1 + max((child.depth for child in self.children.values()), default=0)


def flame_graph(stacks: Iterable[Stack], rate: int, title: str) -> str:
    """Return a flame graph as SVG: a function hangs below its caller, as wide as the time that it took.

    Args:
        stacks: of one recording; those of one role are merged.
        rate: samples of a thread in a second.
        title: stands above it.
    """
    root = _Node("all threads")
    for stack in stacks:
        root.add([stack.role, *(_label(frame) for frame in stack.frames if _is_worth(frame))], stack.count)
    height = _HEAD + _ROW * root.depth
    boxes = "\n".join(_boxes(root, _Scale(max(root.count, 1), rate), 0.0, 0))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}"'
        ' font-family="monospace" font-size="11">\n'
        f'<rect width="100%" height="100%" fill="#fff"/>\n<text x="8" y="18" font-size="14">{escape(title)}</text>\n'
        '<text x="8" y="34" fill="#666">width is time; click a frame to widen it, the top one for the whole</text>\n'
        f"{boxes}\n<script><![CDATA[{_SCRIPT}]]></script>\n</svg>\n"
    )


@dataclass(frozen=True)
class _Scale:
    """Samples of all threads, and samples of a thread in a second."""

    total: int
    rate: int


def _boxes(node: _Node, scale: _Scale, left: float, level: int) -> Iterator[str]:
    width = node.count / scale.total
    if level and width < _NARROWEST:
        return
    tip = f"{node.label}: {node.count / scale.rate:.2f} s, {width:.1%} of all"
    yield (
        f'<svg x="{100 * left:.4f}%" y="{_HEAD + _ROW * level}" width="{100 * width:.4f}%"'
        f' height="{_ROW - 1}"><title>{escape(tip)}</title>'
        f'<rect width="100%" height="100%" fill="{_colour(node.label)}"/>'
        f'<text x="3" y="12">{escape(node.label)}</text></svg>'
    )
    for child in sorted(node.children.values(), key=lambda one: one.label):
        yield from _boxes(child, scale, left, level + 1)
        left += child.count / scale.total


def _colour(label: str) -> str:
    """Return a warm colour, the same for the same function in every scale."""
    number = zlib.crc32(label.encode())
    return f"hsl({number % 50 + 5},{70 + number // 64 % 20}%,{62 + number // 4096 % 16}%)"


def _is_worth(frame: Frame) -> bool:
    # An import of many modules would be a tower of nothing but its machinery.
    return not frame.file.startswith("<frozen importlib")


def _label(frame: Frame) -> str:
    # Without the line: a function is one, wherever in it the time goes.
    return f"{frame.function} ({short(frame.file)})"


def speedscope(stacks: Iterable[Stack], rate: int, title: str) -> str:
    """Return the stacks in the format of https://www.speedscope.app, a profile for each role.

    The order in which they were seen is not kept: the views "left heavy" and "sandwich" tell.
    Source: https://www.speedscope.app/file-format-schema.json.

    Args:
        stacks: of one recording; those of one role are merged.
        rate: samples of a thread in a second.
        title: names the file in its window.
    """
    places: dict[Frame, int] = {}
    samples: dict[Role, list[tuple[list[int], float]]] = {}
    for stack in stacks:
        indices = [places.setdefault(frame, len(places)) for frame in stack.frames]
        samples.setdefault(stack.role, []).append((indices, stack.count / rate))
    return json.dumps(
        {
            "$schema": "https://www.speedscope.app/file-format-schema.json",
            "name": title,
            "exporter": "loaderproof",
            "activeProfileIndex": 0,
            "shared": {
                "frames": [{"name": one.function, "file": one.file, "line": one.line} for one in places]
            },
            "profiles": [_profile(role, samples[role]) for role in Role if role in samples],
        }
    )


def _profile(role: Role, samples: list[tuple[list[int], float]]) -> dict[str, object]:
    return {
        "type": "sampled",
        "name": str(role),
        "unit": "seconds",
        "startValue": 0,
        "endValue": sum(weight for _, weight in samples),
        "samples": [indices for indices, _ in samples],
        "weights": [weight for _, weight in samples],
    }
