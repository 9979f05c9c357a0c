"""Tests tools/compare_scores.py against brute force: loops over runs, and all resamples of small sets."""

import itertools
import math
import os
import statistics
import sys
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import compare_scores
import numpy


def brute_iqm(values):
    cut = int(0.25 * len(values))
    return statistics.fmean(sorted(values)[cut : len(values) - cut])


def brute_improvement(first, second):
    by_task = []
    for x, y in zip(first.T, second.T):
        by_task.append(statistics.fmean(1.0 if a > b else 0.5 if a == b else 0.0 for a in x for b in y))
    return statistics.fmean(by_task)


def all_resamples(scores):
    """Each of the equally likely stratified resamples: for each task as many runs as there are."""
    runs = len(scores)
    columns = [list(itertools.product(column, repeat=runs)) for column in scores.T]
    for chosen in itertools.product(*columns):
        yield numpy.array(chosen).T


class ScoresTest(unittest.TestCase):
    def setUp(self):
        self.random = numpy.random.default_rng(1)

    def test_iqm_is_the_mean_of_the_middle_half(self):
        for runs, tasks in itertools.product(range(1, 8), range(1, 4)):
            scores = self.random.normal(size=(runs, tasks))
            self.assertAlmostEqual(compare_scores.iqm(scores), brute_iqm(scores.ravel().tolist()))
        self.assertEqual(compare_scores.iqm(numpy.array([[-100.0], [1], [3], [1000]])), 2)

    def test_improvement_counts_pairs_by_task(self):
        for first_runs, second_runs, tasks in itertools.product((1, 2, 5), (1, 3), (1, 4)):
            first = self.random.integers(3, size=(first_runs, tasks))
            second = self.random.integers(3, size=(second_runs, tasks))
            self.assertAlmostEqual(compare_scores.improvement(first, second), brute_improvement(first, second))

    def test_profile_is_the_share_above_each_level(self):
        scores = self.random.integers(5, size=(4, 3))
        levels = numpy.arange(-1, 6)
        expected = [sum(score > level for score in scores.ravel()) / scores.size for level in levels]
        numpy.testing.assert_allclose(compare_scores.profile(scores, levels), expected)

    def test_all_of_them_take_many_samples_at_once(self):
        samples = self.random.integers(5, size=(6, 4, 3))
        for statistic in (compare_scores.iqm, lambda s: compare_scores.profile(s, [1, 2]), lambda s: compare_scores.improvement(s, s[..., ::-1, :])):
            numpy.testing.assert_allclose(statistic(samples), [statistic(sample) for sample in samples])

    def test_resamples_draw_within_the_task(self):
        sets = [numpy.array([[0.0, 10], [1, 11], [2, 12]]), numpy.array([[5.0, 15], [6, 16]])]
        seen = [set(), set()]
        count = 0
        for blocks in compare_scores.resamples(sets, 40000, 0):
            count += len(blocks[0])
            for places, block, scores in zip(seen, blocks, sets):
                self.assertEqual(block.shape[1:], scores.shape)
                for task in range(2):
                    self.assertTrue(set(block[:, :, task].ravel()) <= set(scores[:, task]))
                places.update(map(bytes, block.reshape(len(block), -1)))
        self.assertEqual(count, 40000)
        self.assertEqual([len(places) for places in seen], [27**2, 4**2])

    def test_resamples_of_a_seed_are_the_same(self):
        sets = [self.random.normal(size=(3, 2))]
        first, second, other = (next(compare_scores.resamples(sets, 10, seed))[0] for seed in (4, 4, 5))
        numpy.testing.assert_array_equal(first, second)
        self.assertFalse((first == other).all())

    def test_intervals_are_those_of_all_resamples(self):
        first, second = self.random.normal(size=(3, 2)), self.random.normal(0.5, size=(3, 2))
        exact = [brute_iqm(scores.ravel().tolist()) for scores in all_resamples(first)]
        sampled = numpy.concatenate([compare_scores.iqm(a) for a, in compare_scores.resamples([first], 50000, 0)])
        numpy.testing.assert_allclose(compare_scores.interval(sampled, 0.9), compare_scores.interval(exact, 0.9), atol=0.03)
        # The two sets are resampled independently of each other.
        exact = [brute_improvement(a, b) for a in all_resamples(first[:, :1]) for b in all_resamples(second[:, :1])]
        chances = [compare_scores.improvement(a, b) for a, b in compare_scores.resamples([first[:, :1], second[:, :1]], 50000, 0)]
        numpy.testing.assert_allclose(numpy.var(numpy.concatenate(chances)), numpy.var(exact), rtol=0.03)
        numpy.testing.assert_allclose(numpy.mean(numpy.concatenate(chances)), numpy.mean(exact), atol=0.01)

    def test_interval_leaves_out_both_tails(self):
        numpy.testing.assert_allclose(compare_scores.interval(numpy.arange(101), 0.9), [5, 95])

    def test_smallest_p_is_that_of_sets_without_overlap(self):
        for n, m in [(2, 2), (3, 3), (3, 5)]:
            orders = list(itertools.combinations(range(n + m), n))
            extreme = sum(sum(order) in (sum(range(n)), sum(range(m, n + m))) for order in orders)
            self.assertAlmostEqual(compare_scores.smallest_p(numpy.zeros((n, 1)), numpy.zeros((m, 1))), extreme / len(orders))
        self.assertAlmostEqual(compare_scores.smallest_p(numpy.zeros((2, 3)), numpy.zeros((2, 3))), 2 / math.comb(4, 2) ** 3)


if __name__ == "__main__":
    unittest.main()
