"""Checks an SVG picture of tools/plot, for plot_test.sh, by what is drawn in it and not by how it was computed.

    python3 tools/plot_test_picture.py FILE CHECK...

Every picture must be XML, nothing may leave it, no two ticks may touch, and no curve may come into the legend. Each CHECK must
hold, too:

  curves=N bands=N ends=N panels=N dashed=N     how many there are; dashed counts curves
  colors=N                how many curves can be told apart by colour and dashes
  points=N                no curve and no band has more points
  x=TEXT,TEXT y=TEXT      the ticks of the first panel, separated by blanks
  x_unit=TEXT y_unit=TEXT title=TEXT      the texts of all panels, separated by " | "
  name=TEXT               a text of the legend
  end=X,Y                 an end of a run, of the first panel, at this place
"""

import re
import sys
import xml.etree.ElementTree

SVG = "{http://www.w3.org/2000/svg}"


def fail(message):
    sys.exit(f"{sys.argv[1]}: {message}")


def places(element):
    """The points (x, y) of the paths and marks in a group."""
    found = []
    for part in element.iter():
        if part.tag == SVG + "path" and "clip-path" in part.attrib:
            found += [tuple(map(float, pair)) for pair in re.findall(r"[ML] (\S+) (\S+)", part.get("d"))]
        elif part.tag == SVG + "use":
            found.append((float(part.get("x")), float(part.get("y"))))
    return found


def texts(element):
    return [text.text for text in element.iter(SVG + "text")]


def value_at(ticks, place):
    """The value at a place of an axis, by its first and last tick (value, place)."""
    (low, start), (high, end) = ticks[0], ticks[-1]
    return low + (place - start) / (end - start) * (high - low)


def main():
    root = xml.etree.ElementTree.parse(sys.argv[1]).getroot()
    width, height = map(float, root.get("viewBox").split()[2:])

    def groups(kind, within=root):
        return [group for group in within.iter(SVG + "g") if re.fullmatch(kind + r"(-\d+)*", group.get("id", ""))]

    panels, curves, bands = groups("panel"), groups("curve"), groups("band")
    legend = groups("legend")[0]
    heights = [text.get("y") or re.search(r" ([\d.]+)\)", text.get("transform"))[1] for text in legend.iter(SVG + "text")]
    legend_bottom = max(map(float, heights))
    ends = [place for group in groups("ends") for place in places(group)]
    for group in [*curves, *groups("ends"), *groups("line")]:
        for x, y in places(group):
            if not (-1 <= x <= width + 1 and legend_bottom <= y <= height):
                fail(f"{group.get('id')} leaves the picture of {width} x {height}, or is in the legend, at {x, y}")
    ticks = {}
    for axis in "xy":
        ticks[axis] = [(texts(group)[0], *places(group)[:1]) for group in groups(f"{axis}tick_\\d+", panels[0])]
    row = [place[0] for _, place in ticks["x"]]
    for i in range(len(row) - 1):
        if row[i + 1] - row[i] < 3.2 * (len(ticks["x"][i][0]) + len(ticks["x"][i + 1][0])):
            fail(f"the ticks {ticks['x'][i][0]} and {ticks['x'][i + 1][0]} touch")

    looks = [next(curve.iter(SVG + "path")).get("style") for curve in curves]
    counts = {"curves": len(curves), "bands": len(bands), "ends": len(ends), "panels": len(panels)}
    counts["dashed"] = sum("stroke-dasharray" in look for look in looks)
    counts["colors"] = len(set(looks))
    titles = [text for group in sorted(groups("title"), key=lambda group: group.get("id")) for text in texts(group)]
    read = {
        "x": " ".join(text for text, _ in ticks["x"]),
        "y": " ".join(text for text, _ in ticks["y"]),
        "x_unit": " | ".join(text for group in groups("x_unit") for text in texts(group)),
        "y_unit": " | ".join(text for group in groups("y_unit") for text in texts(group)),
        "title": " | ".join(titles),
    }
    for check in sys.argv[2:]:
        name, _, expected = check.partition("=")
        if name in counts:
            if counts[name] != int(expected):
                fail(f"{counts[name]} {name}, expected {expected}")
        elif name == "points":
            most = max(len(re.findall("[ML] ", path.get("d"))) for group in curves + bands for path in group.iter(SVG + "path"))
            if most > int(expected):
                fail(f"{most} points, expected at most {expected}")
        elif name in read:
            if read[name] != expected:
                fail(f"{name} is '{read[name]}', expected '{expected}'")
        elif name == "name":
            if expected not in texts(legend):
                fail(f"the legend has {texts(legend)}, expected '{expected}'")
        elif name == "end":
            scales = [[(float(text.replace(",", "").replace("−", "-")), place[i]) for text, place in ticks["xy"[i]]] for i in (0, 1)]
            found = [tuple(value_at(scale, place) for scale, place in zip(scales, end)) for end in ends]
            x, y = map(float, expected.split(","))
            if not any(abs(x - end[0]) <= 0.002 * abs(x) and abs(y - end[1]) <= 0.002 * abs(y) for end in found):
                fail(f"the ends are at {found}, expected one at {x, y}")
        else:
            fail(f"there is no check '{name}'")


main()
