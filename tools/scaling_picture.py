"""Draws docs/pictures/scaling.svg from the table in docs/explanation/scaling.md: python3 tools/scaling_picture.py"""

import pathlib
import re
import sys

from plot_picture import draw, use_matplotlib
from plot_runs import Refused

ROOT = pathlib.Path(__file__).resolve().parent.parent
# (title, {column of the table: its unit})
PANELS = [
    ("CPU of the coordinator", {"CPU": "percent of a core"}),
    ("Memory in use", {"heap, MiB": "MiB"}),
]


def table(text):
    """The columns of the first table, as lists of numbers."""
    rows = [[cell.strip() for cell in line.strip("| \n").split("|")] for line in text.splitlines() if line.startswith("|")]
    numbers = [[float(re.sub(r"[^0-9.]", "", cell)) for cell in row] for row in rows[2:]]
    return {name: [row[i] for row in numbers] for i, name in enumerate(rows[0])}


def main():
    use_matplotlib()
    columns = table((ROOT / "docs/explanation/scaling.md").read_text(encoding="utf-8"))
    panels = []
    for title, curves in PANELS:
        for column, unit in curves.items():
            points = list(zip(columns["collectors"], columns[column]))
            curve = {"name": "measured", "runs": 1, "median": points, "low": points, "high": points, "ends": points}
            panels.append(
                {"title": title, "curves": [curve], "line": None, "x_unit": "collectors", "y_unit": unit, "whole": True}
            )
    picture = ROOT / "docs/pictures/scaling.svg"
    picture.write_bytes(draw("", panels, end_name="a measurement"))


if __name__ == "__main__":
    try:
        main()
    except Refused as refused:
        sys.exit(f"tools/scaling_picture.py: {refused}")
