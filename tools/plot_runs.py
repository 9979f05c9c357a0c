"""Reads runs for tools/plot and tools/compare: which ones the arguments name, the values of a tag from the CSV files below log/, and
curves of one or several runs.
"""

import argparse
import bisect
import csv
import difflib
import glob
import math
import os
import re
import statistics

# A median of more steps than a picture has pixels is computed at some of them only.
MAX_MEDIAN_STEPS = 4000
# What makes a name a pattern.
PATTERN = re.compile(r"[*?[]")


class Refused(Exception):
    """What the user asked for cannot be done; the message says why, and what to do."""


class Parser(argparse.ArgumentParser):
    """Arguments of a tool that shows its docstring as its help."""

    def __init__(self, text):
        formatter = argparse.RawDescriptionHelpFormatter
        super().__init__(description=text, formatter_class=formatter, usage=argparse.SUPPRESS, allow_abbrev=False)

    def error(self, message):
        raise Refused(f"{message}; see tools/{self.prog} --help")


def parse_runs(arguments):
    """(name, folders) of each curve; arguments are RUN or NAME=RUN,RUN,..., and RUN may be a pattern."""
    curves = []
    for argument in arguments:
        name, given, folders = argument.partition("=")
        if not given or os.path.exists(argument):
            curves += [(None, [folder]) for folder in expand(argument)]
            continue
        folders = folders.split(",")
        if not name or not all(folders):
            raise Refused(f"'{argument}' lacks a name or a folder, expected NAME=FOLDER,FOLDER,...")
        curves.append((name, [match for folder in folders for match in expand(folder)]))
    unnamed = [folders[0] for name, folders in curves if not name]
    for folders in [unnamed] + [folders for name, folders in curves if name]:
        paths = [os.path.realpath(folder) for folder in folders]
        for folder, path in zip(folders, paths):
            if paths.count(path) > 1:
                raise Refused(f"the run '{folder}' is given twice")
    curves = list(zip(curve_names(curves), (folders for _, folders in curves)))
    names = [name for name, _ in curves]
    for name in names:
        if names.count(name) > 1:
            raise Refused(f"two curves are called '{name}'; name them apart, by NAME=FOLDER")
    return curves


def expand(folder):
    """The runs that match a pattern; a name of something that exists is none."""
    if not PATTERN.search(folder) or os.path.exists(folder):
        return [folder]
    matches = sorted(glob.glob(folder))
    runs = [match for match in matches if match.endswith(".csv") or os.path.isdir(os.path.join(match, "log"))]
    if not runs:
        but = f"; what matches is no run: {', '.join(matches[:3])}" if matches else ""
        raise Refused(f"no run matches '{folder}'{but}")
    return runs


def curve_names(curves):
    """The given names; for runs without, the end of the path that tells them apart."""
    paths = {i: run_path(folders[0]) for i, (name, folders) in enumerate(curves) if not name}
    for length in range(1, max(map(len, paths.values()), default=1) + 1):
        short = {i: "/".join(path[-length:]) for i, path in paths.items()}
        if len(set(short.values())) == len(short):
            break
    return [name or short[i] for i, (name, _) in enumerate(curves)]


def run_path(folder):
    path = os.path.abspath(folder).split(os.sep)
    return path[:-2] if path[-2:] == ["log", "metrics.csv"] else path


class Run:
    """The metrics of one run. `values[tag]` are (step, value, seconds) in the order of steps, of finite values only."""

    def __init__(self, folder):
        self.folder = folder
        self.path = folder if folder.endswith(".csv") else os.path.join(folder, "log", "metrics.csv")
        self.values = {}
        self.tags = set()
        self.not_finite = {}
        self.has_seconds = False
        self.cut = False


def read_run(folder, wanted):
    """Reads the tags in `wanted`, and the names of all. A tag without values is not in Run.values.

    In a parallel run the coordinator writes metrics.csv, and each learner a file of its own beside it, of which the first
    one that has a tag gives its values. Those of collectors are means of a part of the episodes, and are left out.
    """
    run = Run(folder)
    first_time = _read_file(run, wanted, None)
    learners = [] if folder.endswith(".csv") else sorted(glob.glob(os.path.join(glob.escape(folder), "log", "learner-*.csv")))
    for path in learners:
        if os.path.getsize(path) == 0:
            continue  # The learner has not written yet.
        part = Run(path)  # one of its own, so that messages name the file
        _read_file(part, [tag for tag in wanted if tag not in run.values], first_time)
        run.tags |= part.tags
        run.values.update(part.values)
        run.not_finite.update(part.not_finite)
        run.cut |= part.cut
    return run


def _read_file(run, wanted, first_time):
    """Reads run.path. Seconds count from `first_time`, or from its first row, whose time is returned."""
    try:
        with open(run.path, newline="", encoding="utf-8", errors="replace") as file:
            return _read_rows(run, file, wanted, first_time)
    except FileNotFoundError:
        what = "expected the folder of a run, or a file .csv"
        if os.path.isdir(run.folder):
            what = "the folder is there, but is not that of a run, or the run has written no metrics"
        raise Refused(f"cannot read '{run.path}': No such file or directory; {what}") from None
    except OSError as error:
        raise Refused(f"cannot read '{run.path}': {error.strerror}; expected the folder of a run") from None


def _read_rows(run, file, wanted, first_time):
    lines = csv.reader(_complete_lines(run, file))
    try:
        columns = next(lines, None)
        if columns is None:
            raise Refused(f"'{run.path}' is empty: the run has not written yet, or was killed before; leave it out")
        if not {"step", "tag", "value"} <= set(columns):
            raise Refused(f"'{run.path}' has the columns {columns}, expected step, tag and value")
        step_at, tag_at, value_at = (columns.index(name) for name in ("step", "tag", "value"))
        run.has_seconds = "wall_time" in columns
        time_at = columns.index("wall_time") if run.has_seconds else None
        found = {tag: {} for tag in wanted}
        for row in lines:
            number = lines.line_num
            if len(row) != len(columns):
                raise _damaged(run, number, f"{len(row)} fields", f"{len(columns)}: {', '.join(columns)}")
            tag = row[tag_at]
            run.tags.add(tag)
            if first_time is None and run.has_seconds:
                first_time = _number(run, number, "wall_time", row[time_at], float)
            if tag not in found:
                continue
            step = _number(run, number, "step", row[step_at], int)
            value = _number(run, number, "value", row[value_at], float)
            seconds = None
            if run.has_seconds:
                seconds = _number(run, number, "wall_time", row[time_at], float) - first_time
            # A step that was run again after a resume stands twice; the last value is valid.
            found[tag][step] = (step, value, seconds)
    except csv.Error as error:
        raise _damaged(run, lines.line_num, f"something that is not CSV ({error})", "a row") from None
    for tag, points in found.items():
        finite = [point for point in points.values() if math.isfinite(point[1])]
        if finite:
            run.values[tag] = sorted(finite)
        if len(finite) < len(points):
            run.not_finite[tag] = len(points) - len(finite)
    return first_time


def _complete_lines(run, file):
    """The lines without a last one that has no end: a run is writing it, or its machine stopped while it did."""
    for line in file:
        if line.endswith("\n"):
            yield line
        else:
            run.cut = True


def _number(run, line, column, text, kind):
    try:
        return kind(text)
    except ValueError:
        expected = "a whole number" if kind is int else "a number"
        raise _damaged(run, line, f"the {column} '{text}'", expected) from None


def _damaged(run, line, found, expected):
    return Refused(
        f"'{run.path}' is damaged: line {line} has {found}, expected {expected}; "
        "mend or delete the line, or leave the run out"
    )


def check_tags(runs, tags):
    """Refuses a tag that no run has, and one that only some of them have."""
    for tag in tags:
        without = [run for run in runs if tag not in run.values]
        if not without:
            continue
        if len(without) < len(runs):
            common = sorted(set.intersection(*(run.tags for run in runs)))
            raise Refused(
                f"the runs are mixed: some have values of '{tag}', but these have not:\n"
                + _listed(run.path for run in without)
                + "\nLeave them out, draw them apart, or choose a tag that all runs have:\n"
                + _listed(common)
            )
        who = f"'{runs[0].path}' has" if len(runs) == 1 else f"the {len(runs)} runs have"
        known = sorted(set.union(*(run.tags for run in runs)))
        if tag in known:
            raise Refused(f"{who} no values of '{tag}' that are finite, so there is nothing to draw")
        other = _on_other_axis(tag)
        if other in known:
            axis = "TRAIN_ITER" if "_step/" in other else "ENV_STEP"
            raise Refused(
                f"{who} '{other}', but no values of '{tag}': a run writes these, too, with metrics {{ x_axis: BOTH }} in its "
                f"config (--set metrics.x_axis=BOTH), or instead with {axis}"
            )
        close = difflib.get_close_matches(tag, known, 1)
        meant = f" (did you mean '{close[0]}'?)" if close else ""
        raise Refused(f"{who} no values of '{tag}'{meant}; the tags are:\n" + _listed(known))


def _on_other_axis(tag):
    """The same metric over train iterations instead of env steps, or the other way round."""
    instance, slash, metric = tag.partition("/")
    for axis, other in (("_step", "_iter"), ("_iter", "_step")):
        if instance.endswith(axis):
            return instance[: -len(axis)] + other + slash + metric
    return None


def _listed(words):
    return "\n".join(f"  {word}" for word in words) or "  none"


def check_group(name, runs):
    """Refuses the median of runs that do different things: of other envs, or of other policies."""
    for section in ("env", "policy"):
        types = {run.folder: type_of(run, section) for run in runs}
        if len({kind for kind in types.values() if kind}) > 1:
            raise Refused(
                f"the runs of '{name}' are mixed: one curve of them means nothing, because their {section} differs:\n"
                + _listed(f"{folder}: {kind or 'unknown'}" for folder, kind in types.items())
                + "\nName them apart"
            )


def type_of(run, section):
    """The type of a section in the run's resolved config, for a Python env with its id; None where there is no such config."""
    try:
        with open(os.path.join(run.folder, "total_config.textproto"), encoding="utf-8", errors="replace") as file:
            match = re.search(rf'^{section} {{\n  type: "([^"]*)"\n(.*?)^}}', file.read(), re.MULTILINE | re.DOTALL)
    except OSError:
        return None
    if not match:
        return None
    name = re.search(r'GymnasiumConfig\] {\s+(?:id|entry_point): "([^"]*)"', match[2])
    return f"{match[1]} {name[1]}" if name else match[1]


def smooth(points, count):
    """The mean of the last `count` values at each of the points (x, value)."""
    return [
        (x, statistics.fmean(value for _, value in points[max(0, i + 1 - count) : i + 1]))
        for i, (x, _) in enumerate(points)
    ]


def make_curve(name, runs):
    """The median, the lowest and the highest of runs, each a list of (x, value), and where each of the runs ends."""
    ends = [run[-1] for run in runs]
    if len(runs) == 1:
        return {"name": name, "runs": 1, "median": runs[0], "low": runs[0], "high": runs[0], "ends": ends}
    # A run that ended keeps its last value: it may have stopped because it was good enough.
    places = sorted({x for run in runs for x, _ in run})
    places = places[:: math.ceil(len(places) / MAX_MEDIAN_STEPS)] + places[-1:]
    median, low, high = [], [], []
    for x in dict.fromkeys(places):
        values = [_value_at(run, x) for run in runs]
        median.append((x, statistics.median(values)))
        low.append((x, min(values)))
        high.append((x, max(values)))
    return {"name": name, "runs": len(runs), "median": median, "low": low, "high": high, "ends": ends}


def _value_at(points, x):
    """The newest value at `x`; the first one before there is any."""
    return points[max(0, bisect.bisect_right(points, (x, math.inf)) - 1)][1]
