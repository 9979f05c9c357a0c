"""Compares the blocks of code in pages with the files that they say they are from.

A block of C++, text format or Python is an excerpt if the text right above it names one file between backquotes after "From":
"From `examples/own_modules/window_buffer.cc`:". Its lines must follow each other in the file, but for their common indentation;
a line "...", also behind "//" or "#", stands for lines that are left out.

    python3 tools/check_excerpts.py [PAGE...]      from the root; default: all pages
"""

import glob
import re
import sys

PAGES = ['README.md', 'docs/**/*.md', 'examples/*/README.md']
SOURCE = re.compile(r'From `([^`]+(?:\.(?:cc|h|proto|textproto|py|in)|/BUILD|/WORKSPACE))`[^`]*:$')
FENCE = re.compile(r'^```(\S*)')
GAP = re.compile(r'^\s*(//|#)? ?\.\.\.$')


def without_indentation(lines):
    """The lines without what they are all indented by, and without empty ones at the ends."""
    while lines and not lines[0].strip():
        lines = lines[1:]
    while lines and not lines[-1].strip():
        lines = lines[:-1]
    indented = [len(line) - len(line.lstrip()) for line in lines if line.strip()]
    return [line[min(indented):] if line.strip() else '' for line in lines]


def parts_of(block):
    """The parts of an excerpt between its gaps."""
    parts = [[]]
    for line in block:
        if GAP.match(line):
            parts.append([])
        else:
            parts[-1].append(line)
    return [part for part in map(without_indentation, parts) if part]


def find(part, lines, begin):
    """The line behind the first place of the part in `lines` from `begin` on, or None."""
    for first in range(begin, len(lines) - len(part) + 1):
        if lines[first].strip() == part[0].strip() and without_indentation(lines[first:first + len(part)]) == part:
            return first + len(part)
    return None


def difference(part, lines, begin):
    """Says where the part differs from the place in `lines` from `begin` on that begins in the same way for longest."""
    best = (0, None)
    for first in range(begin, len(lines)):
        there = [line.strip() for line in lines[first:first + len(part)]]
        same = 0
        while same < len(there) and there[same] == part[same].strip():
            same += 1
        best = max(best, (same, first), key=lambda pair: pair[0])
    same, first = best
    if same == 0:
        return "there is no line '%s', or it is further up" % part[0].strip()
    if same == len(part):
        return "the indentation of '%s' and the lines below it differs" % part[0].strip()
    return "'%s', where the file has '%s'" % (part[same].strip(), lines[first + same].strip() if first + same < len(lines) else 'its end')


def excerpts(page):
    """The excerpts of a page: (number of the line of the fence, file, lines)."""
    found = []
    with open(page, encoding='utf-8') as file:
        lines = file.read().splitlines()
    i = 0
    while i < len(lines):
        if not FENCE.match(lines[i]):
            i += 1
            continue
        end = next(j for j in range(i + 1, len(lines)) if FENCE.match(lines[j]))
        above = [line for line in lines[max(0, i - 3):i] if line.strip()]
        source = SOURCE.search(' '.join(above)) if above and not lines[i - 1].strip() else None
        if source:
            found.append((i + 1, source[1], lines[i + 1:end]))
        i = end + 1
    return found


def main():
    pages = sys.argv[1:] or [page for pattern in PAGES for page in sorted(glob.glob(pattern, recursive=True))]
    complaints = 0
    for page in pages:
        for number, source, block in excerpts(page):
            try:
                with open(source, encoding='utf-8') as file:
                    lines = file.read().splitlines()
            except FileNotFoundError:
                print("%s:%d: there is no file '%s'" % (page, number, source))
                complaints += 1
                continue
            place = 0
            for part in parts_of(block):
                after = find(part, lines, place)
                if after is None:
                    print('%s:%d: not what %s has: %s' % (page, number, source, difference(part, lines, place)))
                    complaints += 1
                    break
                place = after
    sys.exit(1 if complaints else 0)


if __name__ == '__main__':
    main()
