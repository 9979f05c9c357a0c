"""Compares what the headers of public targets declare with docs/api.txt, so that a change of the interface is seen in review.

A declaration is listed with its namespace left out, its default arguments kept, and without comments, bodies, private members,
namespaces that begin with "internal", and overrides, which the base class declares. A line that is gone or different can break the code
of others: it belongs into CHANGELOG.md.

    tools/check_api.py           complains, a line each, with status 1
    tools/check_api.py --write   writes docs/api.txt
"""

import os
import re
import sys

GOLDEN = 'docs/api.txt'
TARGETS = 'docs/public_targets.txt'
TEST_KIT = re.compile(r'/testing/|_(conformance|matchers)\.h$')
HEAD = '# What the headers of docs/public_targets.txt declare. Written by tools/check_api.py --write.\n'


def public_headers():
    """The public headers but for those of test kits."""
    with open(TARGETS, encoding='utf-8') as file:
        headers = [line.strip() for line in file if line.startswith(' ')]
    return sorted(header for header in headers if not TEST_KIT.search(header))


def without_comments(text):
    """The text without comments, with macros as declarations `#define NAME(...)` and no other line of the preprocessor."""
    text = re.sub(r'"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)\'|//[^\n]*|/\*.*?\*/',
                  lambda match: match[0] if match[0][0] in '"\'' else ' ', text, flags=re.S)
    lines = []
    macros = []
    continued = False
    for line in text.split('\n'):
        if continued or line.lstrip().startswith('#'):
            macro = None if continued else re.match(r'\s*#define (DING_[A-Z_]*[A-Z](\([^)]*\))?)(?=\s|$)', line)
            if macro and not macro[1].startswith('DING_WORKER_'):
                macros.append('#define ' + macro[1])
            continued = line.endswith('\\')
        else:
            lines.append(line)
    return '\n'.join(lines), macros


def closing(text, start):
    """The place behind the brace that closes the one at `start`."""
    depth = 0
    for match in re.finditer(r'"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)\'|[{}]', text[start:]):
        depth += {'{': 1, '}': -1}.get(match[0], 0)
        if depth == 0:
            return start + match.end()
    raise ValueError('a brace is not closed')


def tidy(text):
    return re.sub(r'\s+', ' ', text).strip()


def signature(head):
    """A function's declaration without the list that initializes members."""
    depth = 0
    for i, char in enumerate(head):
        depth += {'(': 1, ')': -1}.get(char, 0)
        if char == ':' and depth == 0 and ')' in head[:i] and head[i - 1:i + 2].count(':') == 1:
            return tidy(head[:i])
    return tidy(head)


def declarations(text, scope='', shown=True):
    """The declarations at the top of `text`, and those in its namespaces and classes."""
    found = []
    head = ''
    at = 0
    while at < len(text):
        char = text[at]
        if char in '"\'':
            literal = re.match(r'"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)\'|.', text[at:])[0]
            head += literal
            at += len(literal)
            continue
        if char == ';':
            if tidy(head) and shown:
                found.append(scope + tidy(head))
            head = ''
        elif char == ':' and tidy(head) in ('public', 'protected', 'private'):
            shown = tidy(head) != 'private'
            head = ''
        elif char == '{':
            end = closing(text, at)
            inside = text[at + 1:end - 1]
            start = tidy(head)
            record = re.match(r'(?:template <.*> )?(class|struct|union)\b[^(=]*$', start)
            if re.match(r'(inline )?namespace\b', start):
                name = start.split()[-1]
                if name != 'namespace' and not re.search(r'(^|::)internal', name):
                    found += declarations(inside, scope)
                head = ''
            elif record:
                if shown:
                    found.append(scope + start)
                    name = re.sub(r' final$', '', start.split(' : ')[0]).split()[-1]
                    found += declarations(inside, scope + name + ':: ', record[1] != 'class')
                head = ' '
            elif re.match(r'enum\b', start):
                if shown:
                    found.append(scope + start + ' { ' + tidy(inside) + ' }')
                head = ' '
            elif '(' in start and not re.search(r'(=|return)$', start) and re.search(
                    r'\)( const| noexcept| override| final| &&?| ABSL_[A-Z_]+(\([^()]*\))?| -> [^()]+)*( : .*[)}])?$', start):
                if shown:
                    found.append(scope + signature(start))
                head = ''
            else:
                head += text[at:end]  # a value, or a member that is initialized with braces
            at = end
            continue
        else:
            head += char
        at += 1
    return found


def listing():
    lines = []
    for header in public_headers():
        with open(header, encoding='utf-8') as file:
            text, macros = without_comments(file.read())
        lines += ['%s: %s' % (header, line) for line in macros + declarations(text) if not re.search(r'\boverride\b', line)]
    return lines


def main():
    lines = listing()
    if sys.argv[1:] == ['--write']:
        with open(GOLDEN, 'w', encoding='utf-8') as file:
            file.write(HEAD + ''.join(line + '\n' for line in lines))
        return
    with open(GOLDEN, encoding='utf-8') as file:
        golden = [line for line in file.read().splitlines() if not line.startswith('# ')]
    gone = [line for line in golden if line not in set(lines)]
    new = [line for line in lines if line not in set(golden)]
    for line in gone:
        print('%s:1: gone or changed: %s' % (GOLDEN, line))
    for line in new:
        print('%s:1: not in the list: %s' % (GOLDEN, line))
    sys.exit(1 if gone or new else 0)


if __name__ == '__main__':
    main()
