"""The rows of worker/learning_bars.txt, and the table of results and the curves that tools/learning_bars has recorded.

    worker/learning_bars.txt        what the shipped configs have to learn
    worker/learning_published.txt   what others have published for the same task
    worker/learning_results.csv     a line for each seed that has come to its end
    worker/learning_curves/<row>/<seed>.csv   the evaluations of its run, as tools/plot reads them

A result belongs to a row if the digest of what the row trains is still the same; others are left out.
"""

import csv
import fcntl
import hashlib
import os
import re
import shlex
import statistics
import sys

from programs import ROOT

TABLE = "worker/learning_bars.txt"
PUBLISHED = "worker/learning_published.txt"
RESULTS = "worker/learning_results.csv"
CURVES = "worker/learning_curves"
COLUMNS = ["name", "seed", "config_digest", "commit", "env_steps", "result", "last_evaluation"]
COLUMNS += ["wall_seconds", "cpu_seconds", "load", "machine", "date", "reached"]
# What is left of a curve; a picture shows no more.
MAX_CURVE_POINTS = 100


def die(message):
    sys.exit(f"tools/learning_bars: {message}")


def config_file(config):
    return os.path.join(ROOT, "worker", "configs", config + ".textproto")


def read_config(config):
    try:
        with open(config_file(config), encoding="utf-8") as file:
            return file.read()
    except OSError as error:
        die(f"cannot read '{error.filename}', which {TABLE} names: {error.strerror}")


def config_text(config):
    """A config without its comments and line breaks, which change nothing."""
    text = read_config(config)
    return " ".join(re.sub(r'("(?:\\.|[^"\\\n])*")|#[^\n]*', lambda match: match.group(1) or "", text).split())


class Lesson:
    """What a teacher's episodes are, as the config's comment says: # demonstrations: COUNT episodes of worker/configs/TEACHER.textproto,
    then values of the teacher's config (max_env_step=3000) and flags of the program that records (--actions=sampled)."""

    def __init__(self, config, teacher, where):
        pattern = r"^# demonstrations: (\d+) episodes of worker/configs/(\S+)\.textproto(.*)$"
        comment = re.search(pattern, read_config(config), re.MULTILINE)
        if not comment or comment[2] != teacher:
            found = f"those of '{comment[2]}'" if comment else "no comment '# demonstrations: ...'"
            die(f"{where}: expected episodes of '{teacher}', but worker/configs/{config}.textproto names {found}")
        words = comment[3].split()
        self.episodes = int(comment[1])
        self.settings = [f"--set={word}" for word in words if not word.startswith("--")]
        self.flags = [word for word in words if word.startswith("--")]


class Row:
    def __init__(self, line, where):
        fields = line.split(None, 7)
        if len(fields) < 7:
            die(f"{where}: {len(fields)} fields, expected at least 7: {line.strip()}")
        self.name, config, seeds, self.rule, bar, self.env_steps, self.place = fields[:7]
        self.config, _, self.teacher = config.partition("<")
        self.check = shlex.split(fields[7]) if len(fields) > 7 else []
        # The name of the episodes' value that is the result, if the check is one.
        self.info = self.check[0].partition("info:")[2] if self.check else ""
        self.best = self.check == ["best"]
        # Whether the program that plays checkpoints judges it, not one of its own.
        self.plays = not self.check or bool(self.info) or self.best
        try:
            self.seeds, self.bar = list(range(int(seeds))), float(bar)
            self.lowest = None
            self.share = {"every": 1.0, "below": 1.0, "median": 0.5}.get(self.rule)
            if self.rule.startswith("median>="):
                self.share, self.lowest = 0.5, float(self.rule.removeprefix("median>="))
            elif self.share is None:
                self.share = float(self.rule.removeprefix("share="))
        except ValueError as error:
            die(f"{where}: {error}")
        self.lesson = Lesson(self.config, self.teacher, where) if self.teacher else None
        what = [config_text(self.config), self.teacher and config_text(self.teacher), self.env_steps, *self.check]
        if self.lesson:
            what += self.lesson.settings + self.lesson.flags
        self.digest = hashlib.sha256("\n".join(what).encode()).hexdigest()[:12]
        self.results = {}  # by seed: a line of the table of results, as a dictionary
        self.failures = []

    def bar_text(self):
        steps = "" if self.env_steps == "-" else f" within {int(self.env_steps):,} env steps"
        if self.rule == "below":
            return f"below {self.bar:g}{steps}, every seed"
        rule = {"every": "every seed", "median": "median"}.get(self.rule, f"{self.share:.0%} of the seeds")
        if self.lowest is not None:
            rule = f"median, no seed below {self.lowest:g}"
        return f"{self.bar:g}{steps}, {rule}"

    def reached_by(self, result):
        return result < self.bar if self.rule == "below" else result >= self.bar

    def values(self):
        """The results that there are, in the order of the seeds."""
        return [float(self.results[seed]["result"]) for seed in self.seeds if seed in self.results]

    def seconds(self, clock="cpu"):
        return [float(self.results[seed][clock + "_seconds"]) for seed in self.seeds if seed in self.results]

    def complete(self):
        return all(seed in self.results for seed in self.seeds)

    def missed(self):
        """Whether all seeds have results, and they do not reach the bar."""
        if not self.complete():
            return False
        values = self.values()
        if self.lowest is not None and min(values) < self.lowest:
            return True
        if self.rule.startswith("median"):
            return statistics.median(values) < self.bar
        return sum(map(self.reached_by, values)) < self.share * len(values) - 1e-9

    def status(self):
        if self.missed():
            return "MISSED"
        if self.complete():
            return "reached"
        return f"{len(self.values())} of {len(self.seeds)} seeds" if self.values() else "not run"

    def cells(self):
        results = [f"{float(self.results[seed]['result']):.4g}" if seed in self.results else "-" for seed in self.seeds]
        seconds = f"{statistics.median(self.seconds()):.3g}" if self.values() else "-"
        return [self.name, self.bar_text(), ", ".join(results), self.status(), seconds]


def read_rows():
    """The rows, with the results that are recorded for them."""
    with open(os.path.join(ROOT, TABLE), encoding="utf-8") as file:
        rows = [
            Row(line, f"{TABLE}:{number}") for number, line in enumerate(file, 1) if line.strip() and not line.startswith("#")
        ]
    for result in read_results():
        for row in rows:
            if row.name == result["name"] and row.digest == result["config_digest"]:
                row.results[int(result["seed"])] = result
    return rows


def read_results():
    """The lines of the table, as dictionaries. A later one of the same seed replaces an earlier one."""
    path = os.path.join(ROOT, RESULTS)
    if not os.path.exists(path):
        return []
    results = {}
    with open(path, newline="", encoding="utf-8") as file:
        lines = csv.DictReader(file)
        if lines.fieldnames != COLUMNS:
            die(f"{RESULTS} has the columns {lines.fieldnames}, expected {COLUMNS}")
        for result in lines:
            try:
                int(result["seed"]), int(result["env_steps"] or 0)
                float(result["result"]), float(result["wall_seconds"]), float(result["cpu_seconds"])
            except (TypeError, ValueError) as error:
                die(f"{RESULTS}:{lines.line_num} is damaged ({error}); mend or delete the line")
            results[result["name"], result["seed"]] = result
    return list(results.values())


def append_result(result):
    """Adds a line to the table. Several processes may do so at a time."""
    path = os.path.join(ROOT, RESULTS)
    with open(path, "a", newline="", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        if os.path.getsize(path) == 0:
            writer.writeheader()
        writer.writerow(result)


def curve_path(name, seed):
    return os.path.join(ROOT, CURVES, name, f"{seed}.csv")


def write_curve(name, seed, tag, points):
    """Keeps at most MAX_CURVE_POINTS of the (step, value), among them the last one."""
    step = -(-len(points) // MAX_CURVE_POINTS)
    kept = points[::-1][::step][::-1]
    path = curve_path(name, seed)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write("step,tag,value\n")
        file.writelines(f"{step},{tag},{value:.6g}\n" for step, value in kept)


def read_published():
    """By row: (figure, source)."""
    path = os.path.join(ROOT, PUBLISHED)
    published = {}
    if not os.path.exists(path):
        return published
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            if line.strip() and not line.startswith("#"):
                fields = [field.strip() for field in line.split("|")]
                if len(fields) != 3:
                    die(f"{PUBLISHED}:{number}: {len(fields)} fields, expected 3: row | figure | source")
                published[fields[0]] = tuple(fields[1:])
    return published
