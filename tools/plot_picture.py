"""The picture of tools/plot: panels with axes, curves, bands and ends of runs, and a legend, as SVG.

A curve is what plot_runs.make_curve() returns. Lengths are pixels. Equal arguments give equal bytes.
"""

import html
import math
import re

from plot_layout import Occupancy, text_width, wrap

FONT, PANEL_FONT, TITLE_FONT, LINE_HEIGHT = 12, 13, 15, 16
# Told apart also by the colour-blind (Okabe and Ito). Further curves repeat the colours, dashed.
COLORS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000"]
DASHES = ["", "7 3", "2 3", "10 3 2 3"]
WIDTH, RIGHT, GAP = 860, 28, 14
# How high the area of the curves is: of one panel, and of one among several.
SINGLE_HEIGHT, PANEL_HEIGHT = 384, 230
# About how far apart the ticks of a vertical axis are.
TICK_DISTANCE = 48
# More points than this are thinned out, to those that can be seen.
MAX_POINTS = 2000
LEGEND_TEXT = 240
END_RADIUS = 3.5


class Axis:
    """Maps values to pixels from `start` to `end`, and has ticks at round numbers.

    Very large and very small values are shown in units of a power of ten, `exponent`.
    """

    def __init__(self, low, high, start, end, whole=False, largest=1e7):
        magnitude = max(abs(low), abs(high))
        self.exponent = 0
        if magnitude >= largest or 1e-300 <= magnitude < 1e-3:
            self.exponent = max(-300, math.floor(math.log10(magnitude) / 3) * 3)
        self.low, self.high = self._scaled(low), self._scaled(high)
        self.start, self.end = start, end
        # A width that float64 can barely tell from none is none, and so is a value that it can barely tell from zero.
        if self.high - self.low <= 1e-9 * self._scaled(magnitude) or magnitude < 1e-300:
            margin = 1 if magnitude < 1e-300 else abs(self.high) * 0.05
            self.low, self.high = self.low - margin, self.high + margin
        self.whole = whole and self.exponent == 0

    def _scaled(self, value):
        return value / 10.0**self.exponent

    def widen(self, share):
        margin = (self.high - self.low) * share
        self.low, self.high = self.low - margin, self.high + margin

    def at(self, value):
        return self._place(self._scaled(value))

    def _place(self, scaled):
        return self.start + (scaled - self.low) / (self.high - self.low) * (self.end - self.start)

    def ticks(self, count):
        """About `count` (pixel, text)."""
        raw = (self.high - self.low) / count
        unit = 10.0 ** math.floor(math.log10(raw))
        step = next(unit * factor for factor in (1, 2, 5, 10) if unit * factor >= raw * (1 - 1e-9))
        step = max(step, 1.0) if self.whole else step
        decimals = max(0, -math.floor(math.log10(step) + 1e-9))
        first = math.ceil(self.low / step - 1e-9)
        last = math.floor(self.high / step + 1e-9)
        return [(self._place(i * step), number(i * step, decimals)) for i in range(first, last + 1)]

    def fitting_ticks(self):
        """As many ticks as have room side by side, at most about 8."""
        for count in range(8, 1, -1):
            ticks = self.ticks(count)
            if len(ticks) < 2:
                break
            if max(text_width(text, FONT) for _, text in ticks) + 18 <= ticks[1][0] - ticks[0][0]:
                return ticks
        return self.ticks(2)

    def unit(self, unit):
        if not self.exponent:
            return unit
        digits = str(self.exponent).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
        return f"{unit} (in 10{digits})"


def number(value, decimals):
    """With thousands separators and the minus of mathematics."""
    return f"{value:,.{decimals}f}".replace("-", "−")


class Legend:
    """The names of the curves and what else is drawn, in a box of `width` times `height`."""

    def __init__(self, curves, lines):
        self.rows = []
        for i, curve in enumerate(curves):
            name = curve["name"] + (f" (median of {curve['runs']})" if curve["runs"] > 1 else "")
            self.rows.append((color(i), dash(i), wrap(name, LEGEND_TEXT, FONT)))
        for value in lines:
            self.rows.append(("#888", "6 4", [f"line at {value:,.10g}".replace("-", "−")]))
        self.rows.append(("#555", None, ["end of a run"]))
        texts = [text for _, _, lines in self.rows for text in lines]
        self.width = math.ceil(max(text_width(text, FONT) for text in texts)) + 52
        self.height = LINE_HEIGHT * len(texts) + 10

    def draw(self, left, top):
        out = [
            f'<g class="legend"><rect x="{left:.1f}" y="{top:.1f}" width="{self.width}" height="{self.height}" '
            'fill="white" stroke="#ccc"/>'
        ]
        middle = top + 5 + LINE_HEIGHT / 2
        for stroke, dashes, lines in self.rows:
            if dashes is None:
                out.append(end_mark(left + 21, middle, stroke))
            else:
                out.append(
                    f'<line x1="{left + 8:.1f}" x2="{left + 34:.1f}" y1="{middle:.1f}" y2="{middle:.1f}" '
                    f'stroke="{stroke}" stroke-width="2"{dash_attribute(dashes)}/>'
                )
            for text in lines:
                out.append(f'<text x="{left + 42:.1f}" y="{middle + 4:.1f}">{html.escape(text)}</text>')
                middle += LINE_HEIGHT
        return out + ["</g>"]


def color(index):
    return COLORS[index % len(COLORS)]


def dash(index):
    return DASHES[index // len(COLORS) % len(DASHES)]


def dash_attribute(dashes):
    return f' stroke-dasharray="{dashes}"' if dashes else ""


def end_mark(x, y, stroke):
    place = f'cx="{x:.1f}" cy="{y:.1f}" r="{END_RADIUS}"'
    return f'<circle class="end" {place} fill="white" stroke="{stroke}" stroke-width="1.8"/>'


def thinned(points):
    """At most four of the points (x, y) in each column of pixels: the first, the lowest, the highest and the last."""
    if len(points) <= MAX_POINTS:
        return points
    columns = {}
    for point in points:
        columns.setdefault(math.floor(point[0]), []).append(point)
    kept = []
    for column in columns.values():
        places = {0, len(column) - 1}
        for choose in (min, max):
            places.add(choose(range(len(column)), key=lambda i: column[i][1]))
        kept += [column[i] for i in sorted(places)]
    return kept


class Panel:
    """The curves of one tag. `x_high` is the end of the axis; all panels with the same unit share it."""

    def __init__(self, panel, top, height, x_low, x_high, left):
        self.panel = panel
        self.left, self.top = left, top
        self.right, self.bottom = WIDTH - RIGHT, top + height
        self.x = Axis(x_low, x_high, self.left, self.right, whole=panel["whole"], largest=1e10)
        self.y = y_axis(panel, self.bottom, self.top)
        self.paths = [self._path(curve["median"]) for curve in panel["curves"]]
        self.bands = [
            (self._path(curve["high"]), self._path(curve["low"])) if curve["runs"] > 1 else None
            for curve in panel["curves"]
        ]
        self.ends = [[(self.x.at(x), self.y.at(y)) for x, y in curve["ends"]] for curve in panel["curves"]]

    def _path(self, points):
        return thinned([(self.x.at(x), self.y.at(y)) for x, y in points])

    def occupancy(self):
        """What a legend must leave free."""
        taken = Occupancy(self.left, self.top, self.right, self.bottom)
        for path, band, ends in zip(self.paths, self.bands, self.ends):
            taken.add_line(path)
            if band:
                taken.add_band(*band)
            for x, y in ends:
                taken.add_box(x - END_RADIUS, y - END_RADIUS, x + END_RADIUS, y + END_RADIUS)
        if self.panel["line"] is not None:
            y = self.y.at(self.panel["line"])
            taken.add_line([(self.left, y), (self.right, y)])
        return taken

    def draw(self):
        out = ['<g class="panel">']
        if self.panel["title"]:
            title = html.escape(shortened(self.panel["title"], (self.right - self.left) * FONT / PANEL_FONT))
            place = f'x="{self.left}" y="{self.top - 8}"'
            out.append(f'<text class="panel_title" {place} font-size="{PANEL_FONT}">{title}</text>')
        for y, text in self.y.ticks((self.bottom - self.top) // TICK_DISTANCE):
            out.append(f'<line x1="{self.left}" x2="{self.right}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>')
            out.append(f'<text class="y" x="{self.left - 8}" y="{y + 4:.1f}" text-anchor="end">{text}</text>')
        for x, text in self.x.fitting_ticks():
            out.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{self.bottom}" y2="{self.bottom + 5}" stroke="#888"/>')
            out.append(f'<text class="x" x="{x:.1f}" y="{self.bottom + 19}" text-anchor="middle">{text}</text>')
        place = f'x1="{self.left}" x2="{self.right}" y1="{self.bottom}" y2="{self.bottom}"'
        out.append(f'<line class="x_axis" {place} stroke="#888"/>')
        middle = (self.left + self.right) / 2
        unit = html.escape(self.x.unit(self.panel["x_unit"]))
        out.append(f'<text class="x_unit" x="{middle:.1f}" y="{self.bottom + 37}" text-anchor="middle">{unit}</text>')
        unit = html.escape(shortened(self.y.unit(self.panel["y_unit"]), self.bottom - self.top))
        middle = (self.top + self.bottom) / 2
        out.append(
            f'<text class="y_unit" transform="translate(18 {middle:.1f}) rotate(-90)" '
            f'text-anchor="middle">{unit}</text>'
        )
        if self.panel["line"] is not None:
            y = self.y.at(self.panel["line"])
            out.append(
                f'<line class="line" x1="{self.left}" x2="{self.right}" y1="{y:.1f}" y2="{y:.1f}" stroke="#888" '
                'stroke-width="1.5" stroke-dasharray="6 4"/>'
            )
        for i, band in enumerate(self.bands):
            if band:
                outline = points_text(band[0] + band[1][::-1])
                out.append(f'<polygon class="band" points="{outline}" fill="{color(i)}" fill-opacity="0.15"/>')
        for i, path in enumerate(self.paths):
            out.append(
                f'<polyline class="curve" points="{points_text(path)}" fill="none" stroke="{color(i)}" '
                f'stroke-width="1.8" stroke-linejoin="round"{dash_attribute(dash(i))}/>'
            )
        for i, ends in enumerate(self.ends):
            out += [end_mark(x, y, color(i)) for x, y in ends]
        return out + ["</g>"]


def points_text(points):
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)


def shortened(text, width):
    if text_width(text, FONT) <= width:
        return text
    return wrap(text, width - text_width("…", FONT), FONT)[0] + "…"


def y_axis(panel, start, end):
    values = [value for curve in panel["curves"] for side in ("low", "high") for _, value in curve[side]]
    values += [] if panel["line"] is None else [panel["line"]]
    axis = Axis(min(values), max(values), start, end)
    axis.widen(0.05)
    return axis


def draw(title, panels):
    """A picture of panels below each other.

    A panel is a dictionary: `title`, `curves` (in each panel the same names, in the same order), `line` (a value or
    None), `x_unit`, `y_unit`, and `whole`, which says that x has whole numbers only.
    """
    height = SINGLE_HEIGHT if len(panels) == 1 else PANEL_HEIGHT
    ranges = {}
    for panel in panels:
        places = [x for curve in panel["curves"] for x, _ in curve["median"]] + ranges.get(panel["x_unit"], [0])
        ranges[panel["x_unit"]] = [min(places), max(places)]
    left = 0
    for panel in panels:
        texts = [text for _, text in y_axis(panel, height, 0).ticks(height // TICK_DISTANCE)]
        left = max(left, math.ceil(max(text_width(text, FONT) for text in texts)) + 44)
    out, top = [], 16
    for text in wrap(title, WIDTH - left - RIGHT, TITLE_FONT) if title else []:
        top += 20
        place = f'x="{left}" y="{top - 8}"'
        out.append(f'<text class="title" {place} font-size="{TITLE_FONT}">{html.escape(text)}</text>')
    drawn = []
    for panel in panels:
        top += 22 if panel["title"] else 0
        low, high = ranges[panel["x_unit"]]
        drawn.append(Panel(panel, top, height, low, high if high > low else low + 1, left))
        out += drawn[-1].draw()
        top += height + 37 + GAP
    lines = [panel["line"] for panel in panels if panel["line"] is not None]
    legend = Legend(panels[0]["curves"], lines)
    # In the first panel that has room for it, else on the right of all.
    places = (panel.occupancy().free_place(legend.width, legend.height) for panel in drawn)
    place = next((place for place in places if place), None)
    width = WIDTH
    if place is None:
        place = (WIDTH, drawn[0].top)
        width = WIDTH + legend.width + GAP
        top = max(top, drawn[0].top + legend.height + GAP)
    out += legend.draw(*place)
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {top}" width="{width}" height="{top}" '
            f'font-family="DejaVu Sans, Verdana, sans-serif" font-size="{FONT}" fill="#333">',
            f'<rect width="{width}" height="{top}" fill="white"/>',
            *out,
            "</svg>",
            "",
        ]
    )


# What a metric is measured in, by its name.
UNITS = [
    (r"_per_sec(_|$)", "per second"),
    (r"(^|_)(time|seconds)(_|$)", "seconds"),
    (r"(^|_)bytes(_|$)", "bytes"),
    (r"(^|_)(reward|return)(_|$)", "return of an episode"),
    (r"(^|_)envstep(_|$)", "env steps"),
    (r"(^|_)episode(_|$)", "episodes"),
    (r"(^|_)sample(_|$)", "samples"),
]


def y_unit(tag):
    metric = tag.partition("/")[2]
    if metric.startswith("info/"):  # a statistic of the env, of which only the env knows the unit
        return metric
    metric = tag.rsplit("/", 1)[-1]
    return next((f"{metric} ({unit})" for pattern, unit in UNITS if re.search(pattern, metric)), metric)


def x_unit(tag):
    return {"step": "env steps", "iter": "train iterations", "sec": "reports"}.get(axis_of(tag), "step")


def axis_of(tag):
    """What the steps of a tag count: step, iter, sec; or None if its name does not say."""
    match = re.match(r"[^/]*_(step|iter|sec)/", tag)
    return match.group(1) if match else None
