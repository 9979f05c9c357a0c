"""Checks an SVG picture of tools/plot, for plot_test.sh, by what is drawn in it and not by how it was computed.

    python3 tools/plot_test_picture.py FILE CHECK...

Every picture must be XML, no curve, band, end or dashed line may come into the box of the legend, and nothing may leave the
picture. Each CHECK must hold, too:

  inside, beside          the legend is in the area of the curves, or on its right
  curves=N bands=N ends=N panels=N dashed=N     how many there are; dashed counts curves
  colors=N                how many curves can be told apart by colour and dashes
  x=TEXT,TEXT y=TEXT      the ticks of the first panel, separated by blanks
  x_unit=TEXT y_unit=TEXT title=TEXT      the texts of all panels, separated by " | "
  name=TEXT               a text of the legend
  end=SHARE,VALUE         an end of a run, of the first panel, at this share of the horizontal axis, at this value
"""

import sys
import xml.etree.ElementTree

SVG = "{http://www.w3.org/2000/svg}"


def fail(message):
    sys.exit(f"{sys.argv[1]}: {message}")


def points_of(element):
    return [tuple(map(float, point.split(","))) for point in element.get("points").split()]


def dense(points):
    """Points at most half a pixel apart on the line through all the points."""
    for (x1, y1), (x2, y2) in zip(points, points[1:]):
        parts = int(max(abs(x2 - x1), abs(y2 - y1)) * 2) + 1
        for i in range(parts + 1):
            yield x1 + (x2 - x1) * i / parts, y1 + (y2 - y1) * i / parts
    if len(points) == 1:
        yield points[0]


def inside_polygon(x, y, points):
    """Whether a ray from the point to the right crosses the outline an odd number of times."""
    crossings = 0
    for (x1, y1), (x2, y2) in zip(points, points[1:] + points[:1]):
        if (y1 > y) != (y2 > y) and x < x1 + (x2 - x1) * (y - y1) / (y2 - y1):
            crossings += 1
    return crossings % 2 == 1


def main():
    root = xml.etree.ElementTree.parse(sys.argv[1]).getroot()
    panels = [group for group in root.iter(SVG + "g") if group.get("class") == "panel"]
    legend = next(group for group in root.iter(SVG + "g") if group.get("class") == "legend")

    def all_of(kind):
        return [element for panel in panels for element in panel.iter() if element.get("class") == kind]

    box = legend.find(SVG + "rect")
    left, top = float(box.get("x")), float(box.get("y"))
    right, bottom = left + float(box.get("width")), top + float(box.get("height"))
    width, height = float(root.get("width")), float(root.get("height"))
    if not (0 <= left and right <= width and 0 <= top and bottom <= height):
        fail(f"the legend {left, top, right, bottom} leaves the picture of {width} x {height}")

    drawn = [(element.get("class"), points_of(element)) for kind in ("curve", "band") for element in all_of(kind)]
    drawn += [("end", [(float(end.get("cx")), float(end.get("cy")))]) for end in all_of("end")]
    for line in all_of("line"):
        drawn.append(("line", [(float(line.get(f"x{i}")), float(line.get(f"y{i}"))) for i in (1, 2)]))
    for kind, points in drawn:
        for x, y in dense(points):
            if not (0 <= x <= width and 0 <= y <= height):
                fail(f"a {kind} leaves the picture at {x, y}")
            if left - 2 <= x <= right + 2 and top - 2 <= y <= bottom + 2:
                fail(f"a {kind} is under the legend at {x, y}")
        corners = [(left, top), (right, top), (left, bottom), (right, bottom)]
        if kind == "band" and any(inside_polygon(x, y, points) for x, y in corners):
            fail("the legend is in a band")

    axis = next(line for line in panels[0].iter(SVG + "line") if line.get("class") == "x_axis")
    area_left, area_right = float(axis.get("x1")), float(axis.get("x2"))
    y_ticks = [(element.text, float(element.get("y")) - 4) for element in panels[0].iter() if element.get("class") == "y"]
    curves = all_of("curve")
    counts = {"curves": len(curves), "bands": len(all_of("band")), "ends": len(all_of("end")), "panels": len(panels)}
    counts["dashed"] = sum(curve.get("stroke-dasharray") is not None for curve in curves)
    counts["colors"] = len({(curve.get("stroke"), curve.get("stroke-dasharray")) for curve in curves})
    texts = {
        "x": " ".join(element.text for element in panels[0].iter() if element.get("class") == "x"),
        "y": " ".join(text for text, _ in y_ticks),
        "x_unit": " | ".join(element.text for element in all_of("x_unit")),
        "y_unit": " | ".join(element.text for element in all_of("y_unit")),
        "title": " | ".join(element.text for element in root.iter() if element.get("class") in ("title", "panel_title")),
    }
    for check in sys.argv[2:]:
        name, _, expected = check.partition("=")
        if name in ("inside", "beside"):
            if (left >= area_right) != (name == "beside"):
                fail(f"the legend is not {name} the area, which ends at {area_right}: it begins at {left}")
        elif name in counts:
            if counts[name] != int(expected):
                fail(f"{counts[name]} {name}, expected {expected}")
        elif name in texts:
            if texts[name] != expected:
                fail(f"{name} is '{texts[name]}', expected '{expected}'")
        elif name == "name":
            names = [text.text for text in legend.iter(SVG + "text")]
            if expected not in names:
                fail(f"the legend has {names}, expected '{expected}'")
        elif name == "end":
            x_share, value = map(float, expected.split(","))
            # The value's height, from two ticks.
            (low, low_y), (high, high_y) = ((float(text), y) for text, y in (y_ticks[0], y_ticks[-1]))
            x = area_left + x_share * (area_right - area_left)
            y = low_y + (value - low) / (high - low) * (high_y - low_y)
            ends = [points[0] for kind, points in drawn if kind == "end"]
            if not any(abs(x - end_x) < 0.2 and abs(y - end_y) < 0.2 for end_x, end_y in ends):
                fail(f"the ends are at {ends}, expected one at {x, y}")
        else:
            fail(f"there is no check '{name}'")


main()
