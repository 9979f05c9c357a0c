"""Prints the table of tools/bench.

    bench_table.py RESULTS judged|unjudged

A line of RESULTS: program, name of the row (empty: that of the benchmark), own|floor|baseline, and a line of Google
Benchmark's CSV, with tabs between. The i-th measurement of a row is compared with the i-th of its floor.
"""

import csv
import re
import statistics
import sys

NANOSECONDS = {'ns': 1, 'us': 1e3, 'ms': 1e6, 's': 1e9}
THOUSANDS = {'': 1, 'k': 1e3, 'M': 1e6, 'G': 1e9}
AGGREGATE = re.compile(r'_(mean|median|stddev|cv)$')
TIMING = re.compile(r'(/iterations:\d+)?/(real|manual)_time(?=$|/threads:)')
AIM = re.compile(r'aim=([\d.]+)([a-zA-Z/]*)')


def scaled(value, units):
    """The number with three digits and a unit."""
    names = units.split()
    while value >= 999.5 and len(names) > 1:
        value /= 1000
        names.pop(0)
    return '%.*f %s' % (2 if value < 9.995 else 1 if value < 99.95 else 0, value, names[0])


class Measurements:
    """What was measured of one benchmark."""

    def __init__(self):
        self.times, self.items, self.bytes, self.label = [], [], [], ''

    def add(self, name, fields):
        # A benchmark of other threads or processes asks for real time; one of a percentile sets its time itself.
        time = fields[2] if TIMING.search(name) else fields[3]
        self.times.append(float(time) * NANOSECONDS[fields[4]])
        for values, field in ((self.bytes, fields[5]), (self.items, fields[6])):
            if field:
                values.append(float(field))
        self.label = self.label or fields[7]


def judge(aim, row, reach):
    """The aim as text, and whether the row reaches it."""
    number, unit = float(aim[1]), aim[2]
    if unit == '':
        return aim[1], reach is not None and reach >= number
    if unit in NANOSECONDS:
        return '%s %s' % (aim[1], unit), statistics.median(row.times) <= number * NANOSECONDS[unit]
    values = row.bytes if unit.endswith('B/s') else row.items
    thousands = THOUSANDS[re.sub('B?/s$', '', unit)]
    return '%s %s' % (aim[1], unit), bool(values) and statistics.median(values) >= number * thousands


def main(path, judged):
    rows, besides, kinds = {}, {}, {}
    with open(path, encoding='utf-8') as results:
        for line in results:
            program, name, kind, measured = line.rstrip('\n').split('\t')
            fields = next(csv.reader([measured]))
            if AGGREGATE.search(fields[0]):
                continue
            key = program + ' ' + (name or re.sub('^BM_', '', TIMING.sub('', fields[0])))
            into = rows if kind == 'own' else besides
            into.setdefault(key, Measurements()).add(fields[0], fields)
            if kind != 'own':
                kinds[key] = kind
    table = [('benchmark', 'time', 'rate', 'beside', 'reach', 'aim', '')]
    for key, row in rows.items():
        beside = besides.get(key)
        reach = statistics.median(b / a for a, b in zip(row.times, beside.times)) if beside else None
        aim = AIM.search(beside.label if beside and 'aim=' in beside.label else row.label)
        goal, verdict = '', ''
        if aim:
            goal, reached = judge(aim, row, reach)
            verdict = ('reached' if reached else 'MISSED') if judged else 'not judged'
        table.append((key, scaled(statistics.median(row.times), 'ns us ms s'),
                      scaled(statistics.median(row.items), '/s k/s M/s G/s') if row.items else '',
                      '%s %s' % (kinds[key], scaled(statistics.median(beside.times), 'ns us ms s')) if beside else '',
                      '' if reach is None else '%.2f' % reach, goal, verdict))
    widths = [max(len(line[column]) for line in table) for column in range(7)]
    for line in table:
        cells = [line[0].ljust(widths[0])] + [line[c].rjust(widths[c]) for c in range(1, 6)] + [line[6]]
        print('  '.join(cells).rstrip())


main(sys.argv[1], sys.argv[2] == 'judged')
