"""Checks that files, classes and folders have one job and can be read.

A file has at most 500 lines; tests, benchmarks and testing kits 700. A class has at most 700: its declaration and its member
functions, in all files of its folder. A folder has at most 40 sources without tests. tools/long_files.txt has the exceptions, each
with its reason. A comment in C++ or a .proto has at most 100 columns, but for pictures, tables and examples.

    tools/check_lengths.py FILE...     all files of the checkout; complains, a line each, with status 1
"""

import collections
import os
import re
import sys

EXCEPTIONS = 'tools/long_files.txt'
FILE, TEST_FILE, CLASS, FOLDER = 500, 700, 700, 40

CHECKED = re.compile(r'\.(h|cc|proto|bzl|py|sh)$|^tools/[a-z_]+$|^\.ci/')
SOURCE = re.compile(r'\.(h|cc|proto|py)$')
TEST = re.compile(r'(_(test|benchmark|conformance|testing|matchers)|allocation_count)\.(h|cc|proto|py|sh)$|/testing/')

COMMENT_COLUMNS = 100
# An arrow or a frame, columns, or brackets and other signs of code.
PICTURE = re.compile(r'[^ -~]|[^. ]   +|[{}()<>|=;"]')

CLASS_HEAD = re.compile(r'(?:class|struct) (?:[A-Z_]+(?:\([^)]*\))? )?(\w+)(?: final)?(?: :(?!:)| ?$)')
MEMBER_HEAD = re.compile(r'(?<!\w|:)(?!(?:std|absl|ding)::)([A-Z]\w*)(?:<[^<>]*>)?(?:::\w+)*::~?(?:operator\W+|\w+)\(')


def read(path):
    with open(path, encoding='utf-8') as file:
        return file.read().splitlines()


def class_lengths(path, lines):
    """Yields the name of a class, and the lines of a definition that belongs to it: the class, or one of its functions."""
    begin = None
    for number, line in enumerate(lines):
        if begin is None and line and line[0] not in ' #/}' and not line.startswith(('namespace', 'template', 'using')):
            begin = number
        if begin is None or not (line.startswith('}') or line.endswith((';', '}')) and (begin == number or line[0] != ' ')):
            continue
        head, brace, _ = ' '.join(lines[begin:number + 1]).partition('{')
        found = CLASS_HEAD.match(head) or MEMBER_HEAD.search(head)
        if brace and found:
            yield found.group(1), number + 1 - begin
        begin = None


def wide_comments(files):
    for path in files:
        if path.endswith(('.h', '.cc', '.proto')):
            for number, line in enumerate(read(path), 1):
                if len(line) > COMMENT_COLUMNS and line.lstrip().startswith('// ') and not PICTURE.search(line.lstrip()[2:]):
                    yield '%s:%d: a comment of %d columns; at most %d are allowed' % (path, number, len(line), COMMENT_COLUMNS)


def measure(files):
    """Yields what is measured, as exceptions name it, its length, the bound, and the place of a complaint."""
    classes = collections.Counter()
    folders = collections.Counter()
    for path in files:
        if not CHECKED.search(path):
            continue
        lines = read(path)
        is_test = TEST.search(path)
        bound = TEST_FILE if is_test else FILE
        yield path, len(lines), bound, '%s:%d' % (path, bound), 'lines'
        if is_test or not SOURCE.search(path):
            continue
        folder = os.path.dirname(path)
        folders[folder + '/'] += 1
        if path.endswith(('.h', '.cc')):
            for name, length in class_lengths(path, lines):
                classes['%s:%s' % (folder, name)] += length
    for name, length in sorted(classes.items()):
        yield name, length, CLASS, '%s/BUILD:1' % name.split(':')[0], 'lines'
    for name, count in sorted(folders.items()):
        yield name, count, FOLDER, name + 'BUILD:1', 'sources without tests'


def main():
    exceptions = {line.split(' ')[0] for line in read(EXCEPTIONS) if line and not line.startswith('#')}
    needed = set()
    complaints = list(wide_comments(sys.argv[1:]))
    for name, length, bound, place, unit in measure([path for path in sys.argv[1:] if not path.startswith('examples/')]):
        if length <= bound:
            continue
        needed.add(name)
        if name not in exceptions:
            complaints.append('%s: %s has %d %s; at most %d are allowed' % (place, name, length, unit, bound))
    for name in sorted(exceptions - needed):
        complaints.append("%s:1: '%s' needs no exception" % (EXCEPTIONS, name))
    for complaint in complaints:
        print(complaint)
    sys.exit(1 if complaints else 0)


if __name__ == '__main__':
    main()
