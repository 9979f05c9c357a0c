"""docs/reference/results.md, its pictures and the last cells of the tables of ready configs there and in the README, which
tools/learning_bars --page makes of the recorded results and curves.
"""

import hashlib
import json
import os
import re
import statistics
import sys

from learning_bars_rows import CURVES, PUBLISHED, RESULTS, ROOT, TABLE, curve_path, read_published
from plot_picture import draw, use_matplotlib, x_unit, y_unit
from plot_runs import make_curve, read_run

PAGE = "docs/reference/results.md"
README = "README.md"
PICTURES = "docs/pictures/learning"
TAGS = ["evaluator_step/reward_mean", "evaluator_iter/reward_mean"]

HEAD = f"""# What the shipped configs reach

`tools/learning_bars --page` writes this page of `{RESULTS}` and `{CURVES}`; a test says when it is out of date. To add to it, run seeds that
are missing, write the page and commit all three:

<!-- by hand: takes hours -->
```sh
tools/learning_bars --only sac_lunar_lander --seeds 0 --nice
tools/learning_bars --page
```

"""

# Written by hand, but for the last cells of its tables.
CONFIGS = "## Ready configs\n"
TABLE_HEAD = f"""## Table

- **result**: of each seed, the mean return of the policy at the end of its run, with its best actions, over 100 episodes that are the same for all
  seeds and are not those of the evaluations within the run. Games: the share of games that the policy does not lose (TicTacToe) or wins (Connect
  Four) against the opponents that `{TABLE}` names. Goals: the share of episodes that end at the goal.
- **env steps** of a run, its seconds of the **CPU** and by the **clock**, evaluations included: medians over the seeds. A run uses one core, so both
  are the same if nothing else runs; **where** has the [machine](#machines) and its load at the ends of the runs.
- **published**: what others report for the same task and algorithm, in their versions of it; sources below. `-`: nothing to compare with.

"""

SOURCES = """
Published figures of "SB3 zoo": the table in [benchmark.md](https://github.com/DLR-RM/rl-baselines3-zoo/blob/master/benchmark.md) of RL Baselines3
Zoo, one run each; its tasks are the versions v2 of LunarLander and v3 of MuJoCo. They are copied by hand into
`{published}`.
"""


def number(value, digits=4):
    return f"{value:.{digits}g}" if abs(value) < 1000 else f"{value:,.0f}"


def env_steps(row):
    """The median; a run that learns from recorded episodes has none."""
    steps = statistics.median_high([int(row.results[seed]["env_steps"]) for seed in row.seeds if seed in row.results])
    return f"{steps:,}" if steps else "-"


def cells(row, published, machines):
    figure, source = published.get(row.name, ("-", ""))
    status = "not run yet" if not row.values() else row.status()
    if row.missed():
        status = "**missed**"
    line = [f"`{row.name}`", f"`{row.config}`", row.bar_text(), status]
    if not row.values():
        return [*line, "-", "-", "-", "-", "-", "-", f"{figure} ({source})" if source else figure]
    lines = [row.results[seed] for seed in row.seeds if seed in row.results]
    values = row.values()
    loads = [float(line["load"]) for line in lines]
    load = f"{min(loads):.1f}" if min(loads) == max(loads) else f"{min(loads):.1f} to {max(loads):.1f}"
    places = sorted({machines[line["machine"]] for line in lines})
    return [
        *line,
        ", ".join(number(value) for value in values),
        number(statistics.median(values)),
        env_steps(row),
        number(statistics.median(row.seconds("cpu")), digits=3),
        number(statistics.median(row.seconds("wall")), digits=3),
        f"{', '.join(places)}; load {load}",
        f"{figure} ({source})" if source else figure,
    ]


def panel_of(row):
    """What the picture of the row's curves shows, for draw(); None if there are none."""
    runs = [read_run(curve_path(row.name, seed), TAGS) for seed in row.seeds if os.path.exists(curve_path(row.name, seed))]
    for tag in TAGS:
        points = [[(step, value) for step, value, _ in run.values[tag]] for run in runs if tag in run.values]
        if points:
            return {
                "title": "",
                "curves": [make_curve(row.config, points)],
                "line": None if row.check else row.bar,
                "x_unit": x_unit(tag),
                "y_unit": y_unit(tag),
                "whole": True,
            }
    return None


class Picture:
    """An SVG file whose last line says what it was drawn of, so that a check needs neither matplotlib nor the same version of it."""

    def __init__(self, title, panel):
        self.title, self.panel = title, panel
        digest = hashlib.sha256(json.dumps([title, panel]).encode()).hexdigest()
        self.stamp = f"<!-- drawn of {digest[:16]} -->\n"

    def is_written_as(self, text):
        return text.endswith(self.stamp)

    def text(self):
        return draw(self.title, [self.panel]).decode() + self.stamp


class Page:
    """A text file."""

    def __init__(self, text):
        self._text = text

    def is_written_as(self, text):
        return text == self._text

    def text(self):
        return self._text


def seconds(value):
    if value >= 120:
        return f"{value / 60:.0f} min" if value < 7200 else f"{value / 3600:.1f} h"
    return f"{value:.2g} s" if value < 9.95 else f"{value:.0f} s"


def read(path):
    try:
        with open(os.path.join(ROOT, path), encoding="utf-8") as file:
            return file.read()
    except FileNotFoundError:
        return ""


def fill(text, rows):
    """The text, with what is recorded about a config in the last three cells of its line: | `config` | text | reaches | steps | time |.

    Other lines stay as they are.
    """
    lines = text.split("\n")
    by_config = {row.config: row for row in rows if row.values()}
    for i, line in enumerate(lines):
        match = re.fullmatch(r"(\| `([a-z0-9_]+)` \| [^|]* \|)[^|]*\|[^|]*\|[^|]*\|", line)
        row = by_config.get(match[2]) if match else None
        if row is None:
            continue
        reaches = number(statistics.median(row.values()), digits=3) + ("" if row.complete() else f" ({row.status()})")
        lines[i] = f"{match[1]} {reaches} | {env_steps(row)} | {seconds(statistics.median(row.seconds()))} |"
    return "\n".join(lines)


def make_files(rows):
    """The page and its pictures: path from the root -> Page or Picture."""
    published = read_published()
    known = sorted({line["machine"] for row in rows for line in row.results.values()})
    machines = {name: chr(ord("A") + i) for i, name in enumerate(known)}
    header = ["run", "config", "bar", "reached?", "result", "median", "env steps", "CPU s", "clock s", "where", "published"]
    table = [header, ["---"] * len(header)] + [cells(row, published, machines) for row in rows]
    configs = read(PAGE).partition(CONFIGS)[2].partition(TABLE_HEAD.split("\n")[0] + "\n")[0]
    text = HEAD + CONFIGS + fill(configs, rows) + TABLE_HEAD + "".join("| " + " | ".join(line) + " |\n" for line in table)
    text += SOURCES.format(published=PUBLISHED)
    text += "\n## Machines\n\n" + "".join(f"- {letter}: {name}\n" for name, letter in machines.items())
    text += "- none yet\n" if not machines else ""
    text += "\n## Curves\n\nThe dashed line is the bar. Most evaluations within a run have fewer episodes than those of the table.\n"
    files = {}
    for row in rows:
        panel = panel_of(row)
        if panel is None:
            continue
        files[f"{PICTURES}/{row.name}.svg"] = Picture(f"{row.name}: mean return of the evaluations", panel)
        text += f"\n### {row.name}\n\n![{row.name}](../pictures/learning/{row.name}.svg)\n"
    missing = [f"`{row.name}`" for row in rows if f"{PICTURES}/{row.name}.svg" not in files]
    if missing:
        text += "\nRows without curves, because they have not run yet or evaluate nothing: " + ", ".join(missing) + ".\n"
    files[PAGE] = Page(text)
    files[README] = Page(fill(read(README), rows))
    return files


def find_changes(files):
    """Says what differs from what is there: path -> what is wrong."""
    changes = {}
    for path, wanted in files.items():
        try:
            with open(os.path.join(ROOT, path), encoding="utf-8") as file:
                if not wanted.is_written_as(file.read()):
                    changes[path] = "is out of date"
        except FileNotFoundError:
            changes[path] = "is missing"
    folder = os.path.join(ROOT, PICTURES)
    for name in os.listdir(folder) if os.path.isdir(folder) else []:
        if f"{PICTURES}/{name}" not in files:
            changes[f"{PICTURES}/{name}"] = "has no results any more"
    return changes


def check_page(rows):
    """Exit code 1, with a line for each file that --page would change."""
    changes = find_changes(make_files(rows))
    for path, what in sorted(changes.items()):
        print(f"{path} {what}; run tools/learning_bars --page", file=sys.stderr)
    return 1 if changes else 0


def write_page(rows):
    files = make_files(rows)
    changes = find_changes(files)
    if any(isinstance(files.get(path), Picture) for path in changes):
        use_matplotlib()
    for path in changes:
        place = os.path.join(ROOT, path)
        if path not in files:
            os.remove(place)
            print(f"removed {path}")
            continue
        os.makedirs(os.path.dirname(place), exist_ok=True)
        with open(place, "w", encoding="utf-8") as file:
            file.write(files[path].text())
        print(path)
