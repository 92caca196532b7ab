"""Draw one oriented box as each convention writes it: python docs/oriented_pictures.py [FOLDER]

The numbers come from `permafrost.data.labels.oriented`, so a picture shows what the program reads and writes.
"""

from __future__ import annotations

import math
import sys
from pathlib import Path

import numpy as np
from permafrost.data.labels.oriented import CONVENTIONS, corners_of, rotated_of

FOLDER = Path(__file__).with_name("images")
NAMES = ("le90-degrees", "le135-degrees", "oc-degrees", "detectron2")
WIDTH, HEIGHT, RADIUS = 190, 150, 34
# the long side runs up to the right, so that all conventions give other numbers
BOX = (95.0, 78.0, 96.0, 40.0, -60.0)
_INK, _SIDE, _PALE = "#37474f", "#c62828", "#90a4ae"


def picture(name: str) -> str:
    """The SVG of one convention: the box, its side w in red, and the angle from the x axis to it."""
    corners = corners_of([BOX], "le90-degrees")
    x, y, width, height, angle = rotated_of(corners, name)[0].tolist()
    own = corners_of([(x, y, width, height, angle)], name)[0]
    clockwise = CONVENTIONS[name].clockwise
    turn = math.radians(angle if clockwise else -angle)
    end = x + RADIUS * math.cos(turn), y + RADIUS * math.sin(turn)
    large, sweep = int(abs(turn) > math.pi), int(turn > 0)
    # the side w from the first to the second corner
    side = own[:2]
    middle = (own[0] + own[1]) / 2
    outward = middle - (x, y)
    label = middle + outward / np.hypot(*outward) * 12
    points = " ".join(f"{px:.1f},{py:.1f}" for px, py in own)
    numbers = f"w {width:g}, h {height:g}, angle {angle:g}°"
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}"'
            f' viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12">',
            f"<title>{name}: {numbers}</title>",
            f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>',
            f'<path d="M6 6H34M30 3L34 6L30 9M6 6V34M3 30L6 34L9 30" fill="none" stroke="{_PALE}"/>',
            f'<text x="37" y="10" fill="{_PALE}">x</text><text x="3" y="46" fill="{_PALE}">y</text>',
            f'<polygon points="{points}" fill="#eceff1" stroke="{_INK}"/>',
            f'<line x1="{side[0][0]:.1f}" y1="{side[0][1]:.1f}" x2="{side[1][0]:.1f}" y2="{side[1][1]:.1f}"'
            f' stroke="{_SIDE}" stroke-width="3"/>',
            f'<text x="{label[0]:.1f}" y="{label[1] + 4:.1f}" fill="{_SIDE}" text-anchor="middle">w</text>',
            f'<line x1="{x:.1f}" y1="{y:.1f}" x2="{x + RADIUS + 14:.1f}" y2="{y:.1f}" stroke="{_PALE}"'
            ' stroke-dasharray="3 2"/>',
            f'<line x1="{x:.1f}" y1="{y:.1f}" x2="{end[0]:.1f}" y2="{end[1]:.1f}" stroke="{_SIDE}"/>',
            f'<path d="M{x + RADIUS * 0.7:.1f} {y:.1f}A{RADIUS * 0.7:.1f} {RADIUS * 0.7:.1f} 0 {large} {sweep}'
            f' {x + 0.7 * (end[0] - x):.1f} {y + 0.7 * (end[1] - y):.1f}" fill="none" stroke="{_SIDE}"/>',
            f'<text x="{WIDTH / 2:g}" y="{HEIGHT - 5}" fill="{_INK}" text-anchor="middle">{numbers}</text>',
            "</svg>",
            "",
        ]
    )


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    for name in NAMES:
        (folder / f"oriented-{name.removesuffix('-degrees')}.svg").write_text(picture(name))


if __name__ == "__main__":
    main()
