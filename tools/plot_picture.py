"""The picture of tools/plot by matplotlib: panels with curves, bands and ends of runs below each other, and a legend above them.

A curve is what plot_runs.make_curve() returns. Equal arguments and versions of matplotlib give equal bytes.
"""

import importlib.util
import io
import math
import os
import re
import sys
import textwrap
import warnings

from plot_runs import Refused

# Told apart also by the colour-blind (Okabe and Ito). Further curves repeat the colours, dashed.
COLORS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000"]
DASHES = ["-", (0, (5, 2)), (0, (1.5, 2)), (0, (7, 2, 1.5, 2))]
# Inches, of which a browser shows each as 96 pixels. Panels share the height of a picture with several.
WIDTH, SINGLE_HEIGHT, PANEL_HEIGHT, GAP, MARGIN = 8.0, 4.0, 2.4, 0.85, 0.12
# The frame is opaque, so that a picture can be read on a dark page, too.
STYLE = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans", "Verdana"],
    "font.size": 9,
    "text.color": "#333",
    "axes.labelcolor": "#333",
    "axes.edgecolor": "#888",
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "axes.axisbelow": True,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.spines.left": False,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "grid.color": "#ddd",
    "legend.frameon": False,
    "lines.linewidth": 1.4,
    "xtick.color": "#888",
    "xtick.labelcolor": "#333",
    "ytick.labelcolor": "#333",
    "ytick.left": False,
    "path.simplify_threshold": 0.5,
    "svg.fonttype": "none",
    "svg.hashsalt": "ding_worker",
}
DEBIAN_PYTHON = "/usr/bin/python3"


def has_module(name):
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:  # the package that should hold it
        return False


def use_modules(modules, why, packages):
    """Goes on with Debian's Python where this one lacks a module. Refused if that one lacks it, too."""
    if all(has_module(name) for name in modules):
        return
    if os.path.realpath(sys.executable) != os.path.realpath(DEBIAN_PYTHON) and os.path.exists(DEBIAN_PYTHON):
        os.execv(DEBIAN_PYTHON, [DEBIAN_PYTHON, *sys.argv])
    raise Refused(f"{why}, which is not installed. Install it as root:\n  apt-get install --yes --no-install-recommends {packages}")


def use_matplotlib():
    use_modules(["matplotlib"], "pictures are drawn by matplotlib", "python3-matplotlib")


def color(index):
    return COLORS[index % len(COLORS)]


def dash(index):
    return DASHES[index // len(COLORS) % len(DASHES)]


def number(value, digits=10):
    """With thousands separators and the minus of mathematics."""
    return f"{round(value, digits) + 0.0:,.{digits}g}".replace("-", "−")


def printable(text):
    return "".join(character if character.isprintable() else "?" for character in text)


class Range:
    """The values of an axis. Very large and very small values are shown in units of a power of ten, `exponent`."""

    def __init__(self, low, high, margin):
        magnitude = max(abs(low), abs(high))
        self.exponent = 0
        if magnitude >= 1e7 or 1e-300 <= magnitude < 1e-3:
            self.exponent = max(-300, math.floor(math.log10(magnitude) / 3) * 3)
        low, high = self.scaled([low, high])
        # A width that float64 can barely tell from none is none, and so is a value that it can barely tell from zero.
        if magnitude < 1e-300:
            low, high = -1.0, 1.0
        elif high - low <= 1e-9 * max(abs(low), abs(high)):
            low, high = low - abs(low) * 0.05, high + abs(high) * 0.05
        self.low, self.high = low - margin * (high - low), high + margin * (high - low)

    def scaled(self, values):
        return [value / 10.0**self.exponent for value in values]

    def unit(self, unit):
        if not self.exponent:
            return unit
        digits = str(self.exponent).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
        return f"{unit} (in 10{digits})"


def draw_panel(axes, index, panel, x_range):
    values = [value for curve in panel["curves"] for side in ("low", "high") for _, value in curve[side]]
    values += [] if panel["line"] is None else [panel["line"]]
    y_range = Range(min(values), max(values), margin=0.05)
    axes.set_gid(f"panel-{index}")
    axes.set_xlim(x_range.low, x_range.high)
    axes.set_ylim(y_range.low, y_range.high)
    show_numbers(axes, whole=panel["whole"] and x_range.exponent == 0)
    axes.set_title(printable(panel["title"]), gid=f"title-{index}", parse_math=False)
    axes.set_xlabel(x_range.unit(panel["x_unit"]), gid=f"x_unit-{index}")
    axes.set_ylabel(textwrap.fill(y_range.unit(printable(panel["y_unit"])), 50), gid=f"y_unit-{index}", parse_math=False)
    if panel["line"] is not None:
        axes.axhline(*y_range.scaled([panel["line"]]), color="#888", linestyle=(0, (4, 3)), gid=f"line-{index}")

    def at(points):
        return x_range.scaled(x for x, _ in points), y_range.scaled(y for _, y in points)

    for i, curve in enumerate(panel["curves"]):
        if curve["runs"] > 1:
            (places, low), (_, high) = at(curve["low"]), at(curve["high"])
            axes.fill_between(places, low, high, color=color(i), alpha=0.15, linewidth=0, gid=f"band-{index}-{i}")
        axes.plot(*at(curve["median"]), color=color(i), linestyle=dash(i), gid=f"curve-{index}-{i}")
    for i, curve in enumerate(panel["curves"]):
        axes.plot(*at(curve["ends"]), **end_mark(color(i)), gid=f"ends-{index}-{i}")


def show_numbers(axes, whole=False):
    """Ticks at round numbers, with thousands separators."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator("auto", steps=[1, 2, 5, 10], integer=whole and axis is axes.xaxis))
        axis.set_major_formatter(FuncFormatter(lambda value, _: number(value)))


def end_mark(edge):
    look = {"marker": "o", "markersize": 5, "markerfacecolor": "white", "markeredgecolor": edge, "markeredgewidth": 1.3}
    return {"linestyle": "none", "clip_on": False, "zorder": 3, **look}


def add_legend(axes, title, rows, above=0.0):
    """Names above the axes and `above` inches: rows are (name, look of a line)."""
    from matplotlib.lines import Line2D

    names = [textwrap.fill(printable(name), 60) for name, _ in rows]
    widths = [max(map(len, name.splitlines())) * 7 + 55 for name in names]  # about, in pixels
    columns = len(names) if sum(widths) <= 96 * WIDTH else max(1, int(96 * WIDTH / max(widths)))
    legend = axes.legend(
        [Line2D([], [], **look) for _, look in rows],
        ["-"] * len(rows),  # replaced below: matplotlib hides names that begin with _
        title=textwrap.fill(printable(title), 85),
        title_fontsize=11,
        alignment="left",
        loc="lower left",
        bbox_to_anchor=(0, 1 + above / axes.get_window_extent().height * axes.figure.dpi),
        borderpad=0,
        borderaxespad=0.6,
        ncol=columns,
    )
    legend.set_gid("legend")
    legend.get_title().set_gid("title")
    for text, name in zip([legend.get_title(), *legend.get_texts()], [legend.get_title().get_text(), *names]):
        text.set_parse_math(False)
        text.set_text(name)


def new_figure(heights):
    """A figure and its axes of these heights, one below the other. What is around the axes widens the picture when it is written."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH, sum(heights) + (len(heights) - 1) * GAP))
    axes = figure.subplots(len(heights), 1, squeeze=False, gridspec_kw={"height_ratios": heights})[:, 0]
    figure.subplots_adjust(0, 0, 1, 1, hspace=GAP / (sum(heights) / len(heights)))
    return figure, axes


def written(figure, kind):
    """The bytes of a picture of kind "svg" or "png"."""
    out = io.BytesIO()
    silent = dict.fromkeys(["Creator", "Date", "Format", "Type"]) if kind == "svg" else {"Software": None}
    figure.savefig(out, format=kind, dpi=192, bbox_inches="tight", pad_inches=MARGIN, metadata=silent)
    return out.getvalue()


def check_name(path):
    if not path.endswith((".svg", ".png")):
        raise Refused(f"--out is '{path}', expected a name that ends with .svg or .png")


def write_picture(path, data):
    part = path + ".part"
    try:
        with open(part, "wb") as file:
            file.write(data)
        os.replace(part, path)
    except OSError as error:
        if os.path.exists(part):
            os.remove(part)
        raise Refused(f"cannot write '{path}': {error.strerror}") from None


def style():
    import matplotlib.style

    return matplotlib.style.context(["default", STYLE])


def draw(title, panels, kind="svg", end_name="end of a run"):
    """A picture of panels below each other, as the bytes of an SVG or PNG file; a PNG has two pixels for one of SVG.

    A panel is a dictionary: `title`, `curves` (in each panel the same names, in the same order), `line` (a value or
    None), `x_unit`, `y_unit`, and `whole`, which says that x has whole numbers only.
    """
    ranges = {}
    for panel in panels:
        places = [x for curve in panel["curves"] for x, _ in curve["median"]] + ranges.get(panel["x_unit"], [0])
        ranges[panel["x_unit"]] = [min(places), max(places)]
    rows = []
    for i, curve in enumerate(panels[0]["curves"]):
        name = curve["name"] + (f" (median of {curve['runs']})" if curve["runs"] > 1 else "")
        rows.append((name, {"color": color(i), "linestyle": dash(i)}))
    lines = [panel["line"] for panel in panels if panel["line"] is not None]
    rows += [(f"line at {number(line)}", {"color": "#888", "linestyle": (0, (4, 3))}) for line in lines]
    rows.append((end_name, end_mark("#555")))
    with warnings.catch_warnings(), style():
        warnings.simplefilter("ignore")  # about characters that the font lacks: whoever shows an SVG has more fonts
        figure, all_axes = new_figure([SINGLE_HEIGHT if len(panels) == 1 else PANEL_HEIGHT] * len(panels))
        for i, (axes, panel) in enumerate(zip(all_axes, panels)):
            low, high = ranges[panel["x_unit"]]
            draw_panel(axes, i, panel, Range(low, high if high > low else low + 1, margin=0.0))
        figure.align_ylabels()
        add_legend(all_axes[0], title, rows, above=0.28 if panels[0]["title"] else 0.0)
        return written(figure, kind)


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
