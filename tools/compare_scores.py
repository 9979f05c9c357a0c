"""How tools/compare compares sets of runs, by the definitions of rliable (Agarwal et al. 2021, "Deep reinforcement learning at the edge of
the statistical precipice").

Scores of a set are an array [run, task]. Samples of a set are resamples of its scores, [sample, run, task].
"""

import math

import numpy

# Scores in the resamples of a set that are computed at a time, which bounds the memory.
BLOCK = 1 << 16


def iqm(scores):
    """The mean of the middle half of all runs and tasks, for [..., run, task]: a quarter is cut off at both ends, rounded down."""
    flat = numpy.sort(scores.reshape(*scores.shape[:-2], -1), axis=-1)
    cut = flat.shape[-1] // 4
    return flat[..., cut : flat.shape[-1] - cut].mean(axis=-1)


def improvement(first, second):
    """How likely a run of `first` has a higher score than one of `second`, equal ones counted half; the mean over the tasks."""
    difference = first[..., :, None, :] - second[..., None, :, :]
    return (0.5 + 0.5 * numpy.sign(difference)).mean(axis=(-3, -2, -1))


def profile(scores, levels):
    """The share of runs whose score is above each level, of [..., run, task]: [..., level]."""
    return (scores[..., None] > levels).mean(axis=(-3, -2))


def resamples(sets, count, seed):
    """Blocks of `count` resamples of each set. Stratified: a run is drawn from the runs of the same set and task."""
    generator = numpy.random.default_rng(seed)
    block = max(1, BLOCK // max(scores.size for scores in sets))
    for begin in range(0, count, block):
        size = min(block, count - begin)
        yield [
            scores[generator.integers(len(scores), size=(size, *scores.shape)), numpy.arange(scores.shape[1])] for scores in sets
        ]


def interval(samples, confidence):
    """The percentile interval of what was computed from each resample (the first axis)."""
    tail = 50 * (1 - confidence)
    return numpy.percentile(samples, [tail, 100 - tail], axis=0)


def smallest_p(first, second):
    """The smallest p value that a two-sided test of ranks within the tasks can have with so many runs, however far apart they are."""
    runs, tasks = first.shape
    return 2 / math.comb(runs + len(second), runs) ** tasks
