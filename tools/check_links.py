"""Names each link, anchor and file in README, docs and examples that does not exist, and each table without rows.

A link is a Markdown link to a place of this repository. A file is a word in backquotes, or in a block of code, that begins with
a folder of the root or names a tool: `base/mutex.h`, `tools/test`, also without its ending (`data/decoder_fuzz_test`) or with a
"*". In the page of a package a header may be named from there (`mutex.h` in docs/reference/base.md).

    python3 tools/check_links.py      from the root
"""

import glob
import os
import re
import sys

PAGES = ['*.md', 'docs/**/*.md', 'examples/*/README.md']
# The files in their tables are checked by docs/mapping.py; beside them they name those of DI-engine.
WITHOUT_FILES = ['docs/reference/mapping.md', 'docs/reference/di_engine_workers.md']
# A change names what was there at its time.
WITHOUT_FILES += ['CHANGELOG.md']
# Words that look like a file of the repository and are something else.
NO_FILES = re.compile(
    r'(coordinator|learner|collector)/((ca|cert|key)\.pem|tokens)$'  # what tools/make_certs writes for each role
    r'|coordinator/(address|orders\.jsonl|run\.textproto|saved/)$'  # in the folder of a run
    r'|base/fuzz_seed\.txt$'  # made by the build
    r'|data/[0-9]+/[0-9]+$'  # a key of a store
    r'|policy/init$'  # a random stream
)

LINK = re.compile(r'\]\(([^)\s]+)\)')
CODE = re.compile(r'`([^`]+)`')
HEADING = re.compile(r'^#{1,6}\s+(.*?)\s*#*$')
WORD = re.compile(r'''[^\s`'"(),;=|\[\]]+''')
HEADER = re.compile(r'^[a-z0-9_/]+\.(h|proto)$')
TABLE_WITHOUT_ROWS = re.compile(r'^\|.*\n\|[-:| ]+\|\n(?!\|)', re.M)


def anchors(path, known={}):
    """The anchors that GitHub gives to the headings of a page."""
    if path not in known:
        known[path] = set()
        fenced = False
        with open(path, encoding='utf-8') as file:
            for line in file:
                fenced ^= line.lstrip().startswith('```')
                match = HEADING.match(line) if not fenced else None
                if match:
                    text = re.sub(r'\[([^\]]*)\]\([^)]*\)', r'\1', match.group(1)).lower()
                    anchor = re.sub(r'[^\w\- ]', '', text).replace(' ', '-')
                    number = 1
                    while (anchor if number == 1 else '%s-%d' % (anchor, number - 1)) in known[path]:
                        number += 1
                    known[path].add(anchor if number == 1 else '%s-%d' % (anchor, number - 1))
    return known[path]


def check_link(page, link):
    """What is wrong with a link, or None."""
    if re.match(r'[a-z]+:', link):
        return None  # Outside of the repository: not looked at, because checks need no network.
    path, _, anchor = link.partition('#')
    target = os.path.normpath(os.path.join(os.path.dirname(page), path)) if path else page
    if target.startswith('..'):
        return "the link '%s' leaves the repository" % link
    if not os.path.exists(target):
        return "the link '%s' leads nowhere: there is no '%s'" % (link, target)
    if anchor and (not target.endswith('.md') or anchor not in anchors(target)):
        return "the link '%s' leads nowhere: '%s' has no heading of that name" % (link, target)
    return None


def check_word(page, word, folders):
    """What is wrong with a word of code, or None."""
    if word.startswith('./'):
        word = word[2:]
    word = re.sub(r'(:\d+)?[.:!?]*$', '', word)
    if re.search(r'[<>${}@\\:+&!]|\.\.', word) or NO_FILES.match(word):
        return None  # Not a file, or a placeholder.
    first, slash, _ = word.partition('/')
    if slash and first in folders:
        places = [word]
    elif page.startswith('docs/reference/') and HEADER.match(word):
        package = os.path.basename(page)[:-len('.md')]
        if not os.path.isdir(package):
            return None
        places = [os.path.join(package, word), word]
    else:
        return None
    for place in places:
        if os.path.exists(place) or glob.glob(place) or glob.glob(place + '.*'):
            return None
    return "there is no file '%s'" % word


def main():
    folders = {os.path.dirname(build) for build in glob.glob('*/BUILD')} | {'examples', '.ci'}
    complaints = 0
    for pattern in PAGES:
        for page in sorted(glob.glob(pattern, recursive=True)):
            fenced = False
            with open(page, encoding='utf-8') as file:
                content = file.read()
                for table in TABLE_WITHOUT_ROWS.finditer(content):
                    print('%s:%d: the table has no rows' % (page, content.count('\n', 0, table.start()) + 1))
                    complaints += 1
                for number, line in enumerate(content.splitlines(keepends=True), 1):
                    problems = []
                    if line.lstrip().startswith('```'):
                        fenced = not fenced
                        continue
                    if not fenced:
                        problems += [check_link(page, link) for link in LINK.findall(CODE.sub('', line))]
                    if page not in WITHOUT_FILES:
                        code = [line] if fenced else CODE.findall(line)
                        problems += [check_word(page, word, folders) for text in code for word in WORD.findall(text)]
                    for problem in problems:
                        if problem:
                            print('%s:%d: %s' % (page, number, problem))
                            complaints += 1
    sys.exit(1 if complaints else 0)


if __name__ == '__main__':
    main()
