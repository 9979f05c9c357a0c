"""Where things have room in a picture of tools/plot: the width of texts, and a place that no curve touches."""

import math
import re

# The widths of the characters of DejaVu Sans, which is wider than most, in units of its size, rounded up.
WIDTHS = [(0.30, "ijlIJ'"), (0.37, " ,./:;\\|f-"), (0.42, "()[]t!r"), (0.54, '"*_`szL?c⁻⁰¹²³⁴⁵⁶⁷⁸⁹')]
WIDTHS += [(0.65, "abdeghknopquvxyFPTYESKL$0123456789{}"), (0.80, "ABCDGHNOQRUVXZ&"), (0.85, "w#+<=>^~−")]
CHARACTER_WIDTHS = {character: width for width, characters in WIDTHS for character in characters}

CELL = 4
# What stays free around a box, and between a box and the edge.
CLEARANCE, INSET = 8, 10


def text_width(text, size):
    return size * sum(CHARACTER_WIDTHS.get(character, 1.0) for character in text)


def wrap(text, width, size):
    """The lines of a text, none wider than `width`. They break after blanks and punctuation, where there are any."""
    lines = [""]
    for word in re.findall(r"[^\s_\-/,.=:]*[\s_\-/,.=:]?", text):
        if lines[-1] and text_width(lines[-1] + word.rstrip(), size) > width:
            lines.append("")
        for character in word:
            if lines[-1] and text_width(lines[-1] + character, size) > width and not character.isspace():
                lines.append("")
            lines[-1] += character
    return [line.strip() for line in lines if line.strip()] or [""]


class Occupancy:
    """The cells of an area that something is drawn on."""

    def __init__(self, left, top, right, bottom):
        self.left, self.top, self.right, self.bottom = left, top, right, bottom
        self.columns = math.ceil((right - left) / CELL)
        self.rows = math.ceil((bottom - top) / CELL)
        self.taken = [[0] * self.columns for _ in range(self.rows)]

    def _mark(self, x, y_low, y_high):
        column = min(max(int((x - self.left) / CELL), 0), self.columns - 1)
        first = max(int((y_low - self.top) / CELL), 0)
        last = min(int((y_high - self.top) / CELL), self.rows - 1)
        for row in range(first, last + 1):
            self.taken[row][column] = 1

    def add_box(self, left, top, right, bottom):
        for i in range(math.ceil((right - left) / CELL) + 1):
            self._mark(min(left + i * CELL, right), top, bottom)

    def add_line(self, points):
        for (x1, y1), (x2, y2) in zip(points, points[1:]):
            parts = max(1, math.ceil(abs(x2 - x1) / (CELL / 2)))
            for i in range(parts):
                here, there = (y1 + (y2 - y1) * k / parts for k in (i, i + 1))
                for x in (x1 + (x2 - x1) * k / parts for k in (i, i + 1)):
                    self._mark(x, min(here, there), max(here, there))

    def add_band(self, highs, lows):
        """What is between two lines that go from left to right, from the same x to the same x."""
        self.add_line(highs)
        self.add_line(lows)
        for column in range(self.columns):
            x = self.left + (column + 0.5) * CELL
            if highs[0][0] <= x <= highs[-1][0]:
                ends = sorted((_height_at(highs, x), _height_at(lows, x)))
                self._mark(x, *ends)

    def free_place(self, width, height):
        """The left upper corner of a free place for a box, the nearest to a corner of the area; None if there is none.

        A box that would fill most of the area has no place, either.
        """
        across = math.ceil((width + 2 * CLEARANCE) / CELL) + 1
        down = math.ceil((height + 2 * CLEARANCE) / CELL) + 1
        if width > 0.6 * (self.right - self.left) or height > 0.6 * (self.bottom - self.top):
            return None
        sums = self._sums()
        best = None
        right, bottom = self.right - INSET - width, self.bottom - INSET - height
        corners = [(right, bottom), (self.left + INSET, self.top + INSET), (right, self.top + INSET)]
        corners.append((self.left + INSET, bottom))
        xs = {self.left + INSET, right, *range(math.ceil(self.left + INSET), math.floor(right) + 1, CELL)}
        ys = {self.top + INSET, bottom, *range(math.ceil(self.top + INSET), math.floor(bottom) + 1, CELL)}
        for y in sorted(ys):
            for x in sorted(xs):
                column = max(0, int((x - CLEARANCE - self.left) / CELL))
                row = max(0, int((y - CLEARANCE - self.top) / CELL))
                columns, rows = min(column + across, self.columns), min(row + down, self.rows)
                if sums[rows][columns] - sums[row][columns] - sums[rows][column] + sums[row][column]:
                    continue
                for order, (corner_x, corner_y) in enumerate(corners):
                    distance = abs(x - corner_x) + abs(y - corner_y)
                    if best is None or (distance, order) < best[0]:
                        best = ((distance, order), (x, y))
        return best[1] if best else None

    def _sums(self):
        """sums[r][c]: how many of the cells above row r and left of column c are taken."""
        sums = [[0] * (self.columns + 1)]
        for row in self.taken:
            line, total = [0], 0
            for column, taken in enumerate(row):
                total += taken
                line.append(sums[-1][column + 1] + total)
            sums.append(line)
        return sums


def _height_at(points, x):
    """The y at x of a line whose points go from left to right."""
    for (x1, y1), (x2, y2) in zip(points, points[1:]):
        if x1 <= x <= x2:
            return y1 if x1 == x2 else y1 + (y2 - y1) * (x - x1) / (x2 - x1)
    return points[-1][1]
