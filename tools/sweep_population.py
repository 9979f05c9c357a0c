"""Population-based training (Jaderberg et al. 2017) for tools/sweep: who takes over whose run after an interval, and with which settings.

A member has `intervals`: for each that it has begun, its `settings` and from whom it has `copied` the run before (None: its own)."""

import os
import random
import shutil

import sweep_report
from plot_runs import Refused


def lineage(members, member, rung):
    """The (member, interval) that the member's run went through, up to `rung`."""
    path = []
    for i in range(rung, -1, -1):
        path.append((member, i))
        copied = member.intervals[i]["copied"]
        member = member if copied is None else members[copied]
    return path[::-1]


def settings(members, member, rung):
    return [other.intervals[i]["settings"] for other, i in lineage(members, member, rung)]


def seed(members, member, rung):
    """A run keeps its seed when it is taken over."""
    return lineage(members, member, rung)[0][0].number


def folder(member, rung):
    """A member has a folder for each run that it has taken over."""
    begun = max(i for i in range(rung + 1) if i == 0 or member.intervals[i]["copied"] is not None)
    return os.path.join(member.folder, f"interval_{begun + 1}")


def begin(plan, members, rung):
    """Decides with which runs and settings the members begin the interval, and copies runs. It comes to the same if it is called again
    after this process was killed: nobody trains before all is copied."""
    rng = random.Random(f"{plan.message.seed} {rung}")
    sign = 1 if plan.message.minimize else -1
    ended = [member for member in members if member.values[rung - 1]]
    ended.sort(key=lambda member: (sign * member.values[rung - 1][0], member.number))
    count = max(len(ended) // 4, 1)
    for member in ended:
        member.intervals[rung:] = [{"settings": member.intervals[rung - 1]["settings"], "copied": None}]
    for member in ended[max(count, len(ended) - count) :]:
        source = rng.choice(ended[:count])
        old = source.intervals[rung - 1]["settings"]
        new = {parameter.path: parameter.perturbed(old[parameter.path], plan.message.pbt.factor, rng) for parameter in plan.parameters}
        if source.values[rung - 1] != member.values[rung - 1]:
            member.intervals[rung] = {"settings": new, "copied": source.number}
    moved = [member for member in ended if member.intervals[rung]["copied"] is not None]
    for member in moved:
        copy(folder(members[member.intervals[rung]["copied"]], rung - 1), folder(member, rung))
    for member in moved:  # What it has left goes on no more.
        points = os.path.join(folder(member, rung - 1), "ckpt")
        for name in os.listdir(points) if os.path.isdir(points) else []:
            if name.startswith("resume_"):
                shutil.rmtree(os.path.join(points, name))
        shutil.rmtree(os.path.join(folder(member, rung - 1), "rows"), ignore_errors=True)  # of a replay buffer on a disk


def copy(source, target):
    if os.path.exists(target):
        return
    unfinished = target + ".copying"
    shutil.rmtree(unfinished, ignore_errors=True)
    try:
        # Without the names by which MLflow and others find the source's records.
        shutil.copytree(source, unfinished, ignore=shutil.ignore_patterns("*_run_id.txt"))
        os.rename(unfinished, target)
    except (OSError, shutil.Error) as error:
        raise Refused(f"cannot copy '{source}' to '{target}': {error}; the same command goes on when it can") from None


def table(plan, members):
    """A row per member, a column per interval: its score, from whom it was taken over, and with which settings."""
    rows = []
    for member in members:
        cells = []
        for rung, begun in enumerate(member.intervals):
            values = ", ".join(sweep_report.cell(value) for value in begun["settings"].values())
            score = sweep_report.cell(member.values[rung][0]) if member.values[rung] else "-"
            cells.append(f"{'' if begun['copied'] is None else 'from ' + str(begun['copied']) + ': '}{score} ({values})")
        rows.append([str(member.number), *cells, *[""] * (len(plan.rungs) - len(cells))])
    header = ["trial", *(f"{plan.budget} {sweep_report.cell(rung)}" for rung in plan.rungs)]
    names = ", ".join(parameter.path for parameter in plan.parameters)
    return f"\n## Score ({names}) after each interval\n" + sweep_report.table(header, rows)
