"""What tools/sweep has found: tables in Markdown and JSON, and pictures."""

import math

from plot_picture import COLORS, WIDTH, number, printable, show_numbers, style, written

CONFIDENCE, SAMPLES = 0.95, 10_000


def score(values):
    """The interquartile mean of the goal over the seeds."""
    import compare_scores
    import numpy

    return float(compare_scores.iqm(numpy.array(values, dtype=float)[:, None]))


def interval(values):
    """Its interval; None with one seed."""
    import compare_scores
    import numpy

    if len(values) < 2:
        return None
    blocks = compare_scores.resamples([numpy.array(values, dtype=float)[:, None]], SAMPLES, seed=0)
    means = [compare_scores.iqm(samples[0]) for samples in blocks]
    return compare_scores.interval(numpy.concatenate(means), CONFIDENCE).tolist()


def importance(study, remarks):
    """By path: its share in what the scores of the complete trials differ by (fANOVA); none if it cannot be told."""
    import optuna

    complete = [trial for trial in study.get_trials(deepcopy=False) if trial.state == optuna.trial.TrialState.COMPLETE]
    if len(complete) < 4 or len({trial.value for trial in complete}) < 2:
        remarks.append(f"{len(complete)} complete trials with other scores are too few to tell which parameters matter; 4 are needed")
        return {}
    evaluator = optuna.importance.FanovaImportanceEvaluator(seed=0)
    return dict(optuna.importance.get_param_importances(study, evaluator=evaluator))


def result(plan, trials, remarks, shares):
    """The content of sweep.json. Trials are in the order of their rank: complete ones, pruned ones by rung, the others."""
    sign = 1 if plan.message.minimize else -1
    rows = []
    for trial in trials:
        rung, values = trial.last_rung()
        intervals = [{**begun, "score": scores.get(0)} for begun, scores in zip(trial.intervals, trial.values)]
        rows.append(
            {
                "trial": trial.number,
                "state": trial.state,
                "settings": trial.settings,
                "budget": plan.rungs[rung],
                "values": values,
                "score": score(values) if len(values) == plan.seeds else None,
                "interval": interval(values) if len(values) == plan.seeds else None,
                "reason": trial.reason,
                "folder": trial.folder,
                **({"intervals": intervals} if plan.pbt else {}),
            }
        )
    order = ["complete", "pruned", "running", "failed"]

    def rank(row):
        value = math.inf if row["score"] is None else sign * row["score"]
        return order.index(row["state"]), -(row["budget"] or 0), value, row["trial"]

    rows.sort(key=rank)
    best = rows[0]["trial"] if rows and rows[0]["state"] == "complete" else None
    return {
        "sweep": plan.name,
        "method": plan.method,
        "goal": plan.message.goal,
        "minimize": plan.message.minimize,
        "confidence": CONFIDENCE,
        "best": best,
        "importance": shares,
        "remarks": remarks,
        "trials": rows,
    }


def cell(value):
    return number(float(f"{value:.4g}")) if isinstance(value, (int, float)) else str(value)


def table(header, rows):
    lines = [header, ["---"] * len(header), *rows]
    return "".join("| " + " | ".join(" ".join(text.replace("|", "\\|").split()) for text in line) + " |\n" for line in lines)


def markdown(found, plan):
    paths = [parameter.path for parameter in plan.parameters]
    budget = [plan.budget] if plan.budget else []
    header = ["trial", *paths, *budget, f"score ({found['goal']})", f"{100 * CONFIDENCE:g} % interval", "lowest", "highest", "state"]
    rows = []
    for row in found["trials"]:
        if row["score"] is None:
            continue
        bounds = "-" if row["interval"] is None else " to ".join(cell(bound) for bound in row["interval"])
        settings = [cell(row["settings"][path]) for path in paths]
        ends = [cell(min(row["values"])), cell(max(row["values"]))]
        rung = [cell(row["budget"])] if budget else []
        rows.append([str(row["trial"]), *settings, *rung, cell(row["score"]), bounds, *ends, row["state"]])
    failed = [row for row in found["trials"] if row["state"] == "failed"]
    text = f"# {found['sweep']}\n\n" + (table(header, rows) if rows else "No trial has a score.\n")
    if found["importance"]:
        shares = [[path, f"{100 * share:.0f} %"] for path, share in found["importance"].items()]
        text += "\n## What the scores depend on\n" + table(["parameter", "share"], shares)
    if failed:
        reasons = [[str(row["trial"]), ", ".join(f"{k}={cell(v)}" for k, v in row["settings"].items()), row["reason"]] for row in failed]
        text += "\n## Failed trials\n" + table(["trial", "settings", "reason"], reasons)
    return text


def short_names(paths):
    """The ends of the paths that tell them apart."""
    for length in range(1, 20):
        short = [".".join(path.split(".")[-length:]) for path in paths]
        if len(set(short)) == len(paths):
            break
    return short


def axis_places(parameter):
    """How a value of a parameter is placed on its axis, 0 to 1, and the (place, text) of its ticks."""
    if parameter.values:
        count = len(parameter.values)
        places = {value: (i + 0.5) / count for i, value in enumerate(parameter.values)}
        return places.get, [(place, value) for value, place in places.items()]
    from matplotlib.ticker import LogLocator, MaxNLocator

    scale = math.log if parameter.log else float
    low, high = scale(parameter.low), scale(parameter.high)
    locator = LogLocator(subs=(1, 2, 5)) if parameter.log else MaxNLocator(6, steps=[1, 2, 5, 10], integer=parameter.whole)
    ticks = [tick for tick in locator.tick_values(parameter.low, parameter.high) if parameter.low <= tick <= parameter.high]
    return (lambda value: (scale(value) - low) / (high - low)), [((scale(tick) - low) / (high - low), number(tick, 6)) for tick in ticks]


def draw_parallel(found, plan):
    """A line per trial through its settings to its score; better ones are darker and in front. Pruned ones are grey."""
    import matplotlib.cm
    import numpy
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    drawn = [row for row in found["trials"] if row["state"] in ("complete", "pruned") and row["score"] is not None]
    scores = [row["score"] for row in drawn if row["state"] == "complete"]
    low, high = min(scores), max(scores)
    margin = 0.05 * (high - low) or 1.0
    low, high = low - margin, high + margin
    ticks = [tick for tick in MaxNLocator(6, steps=[1, 2, 5, 10]).tick_values(low, high) if low <= tick <= high]
    axes_of = [axis_places(parameter) for parameter in plan.parameters]
    axes_of.append((lambda value: (value - low) / (high - low), [((tick - low) / (high - low), number(tick, 6)) for tick in ticks]))
    names = [*short_names([parameter.path for parameter in plan.parameters]), found["goal"]]
    colors = matplotlib.colormaps["viridis_r"]
    share = numpy.linspace(0, 1, 60)
    ease = share * share * (3 - 2 * share)
    jitter = numpy.random.default_rng(0)  # so that lines through the same value are told apart
    with style():
        figure = Figure(figsize=(max(WIDTH, 1.6 * len(names)), 4.2))
        axes = figure.add_axes((0, 0, 1, 1))
        axes.set_axis_off()
        axes.set_xlim(-0.1, len(names) - 0.6)
        axes.set_ylim(-0.02, 1.12)
        for rank, row in enumerate(reversed(drawn)):
            places = []
            for parameter, (place, _) in zip(plan.parameters, axes_of):
                spread = 0.12 / len(parameter.values) if parameter.values else 0
                places.append(place(row["settings"][parameter.path]) + jitter.uniform(-spread, spread))
            look = {"color": "#bbb", "alpha": 0.6, "linewidth": 0.8}
            if row["state"] == "complete":
                places.append(axes_of[-1][0](row["score"]))
                good = 1 - places[-1] if found["minimize"] else places[-1]
                look = {"color": colors(0.15 + 0.85 * good), "alpha": 0.8, "linewidth": 1.3}
            if row["trial"] == found["best"]:
                look = {"color": COLORS[1], "linewidth": 2.6}
            x = numpy.concatenate([[0], *(i + share for i in range(len(places) - 1))])
            y = numpy.concatenate([places[:1], *(a + (b - a) * ease for a, b in zip(places, places[1:]))])
            axes.plot(x, y, zorder=2 + rank / (len(drawn) + 1), gid=f"trial-{row['trial']}", **look)
        for i, (name, (_, ticks)) in enumerate(zip(names, axes_of)):
            axes.plot([i, i], [0, 1], color="#555", linewidth=1, zorder=4)
            axes.text(i, 1.05, printable(name), ha="center", parse_math=False, fontweight="bold" if i == len(names) - 1 else "normal")
            for place, text in ticks:
                axes.plot([i, i + 0.02], [place, place], color="#555", linewidth=1, zorder=4)
                halo = {"facecolor": "white", "edgecolor": "none", "alpha": 0.75, "pad": 0.6}
                axes.text(i + 0.03, place, printable(text), va="center", fontsize=8, parse_math=False, zorder=5, bbox=halo)
        pruned = " Grey: pruned." if any(row["state"] == "pruned" for row in drawn) else ""
        axes.text(0, -0.1, f"Orange: the best trial. Darker: a better score.{pruned}", color="#555")
        return written(figure, "svg")


def draw_importance(found, plan):
    from matplotlib.figure import Figure

    shares = sorted(found["importance"].items(), key=lambda item: item[1])
    with style():
        figure = Figure(figsize=(WIDTH * 0.7, 0.35 + 0.33 * len(shares)))
        axes = figure.add_axes((0, 0, 1, 1))
        show_numbers(axes)
        axes.barh(range(len(shares)), [100 * share for _, share in shares], color=COLORS[0], height=0.6)
        for i, (_, share) in enumerate(shares):
            axes.text(100 * share + 1, i, f"{100 * share:.0f} %", va="center")
        axes.set_yticks(range(len(shares)), [printable(path) for path in short_names([path for path, _ in shares])], parse_math=False)
        axes.grid(False)
        axes.set_xlim(0, 100 * max(share for _, share in shares) * 1.12 + 1)
        count = sum(row["state"] == "complete" for row in found["trials"])
        axes.set_xlabel(f"share in what the scores ({found['goal']}) of {count} complete trials differ by, in percent", parse_math=False)
        return written(figure, "svg")
