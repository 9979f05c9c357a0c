"""Compares the public targets with docs/public_targets.txt, and what README, docs and examples name with the public targets.

Below a library the list has the headers that users include, indented; its other headers may change with every release. A public
library has at least one, unless it has no header at all, and README, docs and examples include no other header.

A label that they name must exist. It must be public, too, unless it is a test or a program: those are run, not linked. In the
page of a package, `:name` and `folder:name` are of that package or of the label before them on the line, as are the factories
that "(`_factory`...)" behind them stands for.

Every public class must be installed, too (tools/install/BUILD), and every one of data, env, policy/dqn and replay_buffer must be in
a test that shows which outside libraries it needs (worker/BUILD).

    tools/check_targets.py           complains, a line each, with status 1
    tools/check_targets.py --write   writes docs/public_targets.txt
"""

import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

GOLDEN = 'docs/public_targets.txt'
PUBLIC = '//visibility:public'
PAGES = ['README.md', 'docs/**/*.md', 'examples/*/README.md']
SOURCES = [
    'examples/*/BUILD', 'examples/workspace/programs/BUILD', 'examples/*/WORKSPACE', 'examples/*/*.sh',
    'examples/*/*.textproto', 'examples/own_policies/*/BUILD', 'tools/new_env_templates/*.in', 'tools/new_policy_templates/*.in'
]
INCLUDERS = ['examples/**/*.h', 'examples/**/*.cc', 'tools/new_env_templates/*.in', 'tools/new_policy_templates/*/*.in']
# Packages that the pages' own commands write, for example tools/new_env.
WRITTEN = re.compile(r'^//my_maze:')
# Pages of a package that have another name than the package.
PACKAGE_OF_PAGE = {'docs/reference/networks.md': 'policy', 'docs/explanation/architecture.md': None, 'docs/explanation/testing.md': None}

INSTALL = 'tools/install/BUILD'
# Public libraries that are not installed: factories and configs for our own programs, what tests of modules use, and what needs more
# packages than `tools/setup build` installs.
NOT_INSTALLED = re.compile(r'[_:](factory|factories|proto|config|matchers|conformance|gradient_check)$|(?<!//env:env)_registry$|'
                           r'[:/](testing|conformance)\b|'
                           r'^//:|^//(adapter|worker|tools|policy/(export|torch)|env/(box2d|mujoco)|interaction/(grpc|redis))\b|'
                           r':((lz4|zstd)_codec|describe_actor)$|'
                           r'^//(?P<folder>adapter|collector|coordinator|learner|replay_buffer):(?P=folder)$')

LIGHT_TESTS = 'worker/BUILD'
# Packages whose classes need few outside libraries, and what of them reads configs: those are messages of protobuf.
LIGHT = re.compile(r'^//(data|env|replay_buffer|policy/dqn)\b')
READS_CONFIGS = re.compile(r'^//env:env_registry$|^//env/([a-z0-9_]+):\1$')

LABEL = re.compile(r'(?<![\w:/.])(@[\w.-]*)?//([a-z_][\w/]*(?:\.\.\.)?|\.\.\.)?(?::([\w.+/-]*[\w+]|\.\.\.))?')
RELATIVE = re.compile(r'`([a-z_]*(?:/[a-z_]+)*):([a-z_][a-z0-9_]*)`')


def files(pattern):
    """Those of the repository: a glob would follow the links that Bazel leaves in the examples into all that was built."""
    command = ['git', 'ls-files', '--cached', '--others', '--exclude-standard', ':(glob)' + pattern]
    listed = subprocess.run(command, stdout=subprocess.PIPE, universal_newlines=True, check=True).stdout.split('\n')
    return sorted(path for path in set(listed) if os.path.isfile(path))


def query(expression, *flags):
    command = ['bazel', 'query', '--noshow_progress', expression] + list(flags)
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True)
    if done.returncode != 0:
        sys.exit('%s failed:\n%s' % (' '.join(command), done.stderr))
    return done.stdout


def load_targets():
    """All targets, label to kind of rule ('' for a file), and the set of the public ones."""
    kinds = {}
    headers = {}
    public = set(query('attr(visibility, "%s", //...)' % PUBLIC).split())
    # The XML is of version 1.1, which the parser does not know.
    text = query('//...:*', '--output=xml', '--noimplicit_deps').replace('version="1.1"', 'version="1.0"', 1)
    for target in ElementTree.fromstring(text.encode()):
        kinds[target.get('name')] = target.get('class', '')
        headers[target.get('name')] = {
            label.get('value')[2:].replace(':', '/').lstrip('/') for entry in target.findall('list') if entry.get('name') == 'hdrs'
            for label in entry.findall('label')
        }
        # A query finds attributes of rules alone; a file that is exported says itself who may see it.
        if any(label.get('name') == PUBLIC for label in target.findall('visibility-label')):
            public.add(target.get('name'))
    return kinds, public, headers


def read_golden():
    """The comments of the list, its labels, each with its public headers, and the line of each."""
    head, golden, lines = [], {}, {}
    with open(GOLDEN, encoding='utf-8') as file:
        for number, line in enumerate(file.read().splitlines(), 1):
            if line.startswith('#'):
                head.append(line)
                continue
            lines[line.strip()] = number
            if line.startswith(' '):
                golden[label].append(line.strip())
            else:
                label = line
                golden[label] = []
    return head, golden, lines


def compare_with_golden(public, headers):
    _, golden, lines = read_golden()
    complaints = ['%s:1: %s is public and not in the list' % (GOLDEN, label) for label in sorted(public - set(golden))]
    for label, listed in golden.items():
        place = '%s:%d: ' % (GOLDEN, lines[label])
        if label not in public:
            complaints.append('%s%s is in the list and not public' % (place, label))
        elif headers.get(label) and not listed and not label.startswith('//tools/'):
            complaints.append('%s%s is public and has no public header: list one, or make it private' % (place, label))
        for header in listed:
            if header not in headers.get(label, ()):
                complaints.append('%s:%d: %s is no header of %s' % (GOLDEN, lines[header], header, label))
    return complaints


def check_includes(headers):
    """README, docs and examples include public headers."""
    own = {header for of_target in headers.values() for header in of_target}
    listed = {header for of_label in read_golden()[1].values() for header in of_label}
    complaints = []
    for pattern in PAGES + INCLUDERS:
        for path in files(pattern):
            with open(path, encoding='utf-8') as file:
                for number, line in enumerate(file, 1):
                    for header in re.findall(r'#include "ding_worker/([\w/]+\.h)"', line):
                        if header in own - listed:
                            complaints.append('%s:%d: %s is no public header' % (path, number, header))
    return complaints


def write_golden(public, headers):
    """Keeps which headers are public; those of a library that is new in the list all are."""
    head, golden, _ = read_golden()
    with open(GOLDEN, 'w', encoding='utf-8') as file:
        for line in head:
            file.write(line + '\n')
        for label in sorted(public):
            file.write(label + '\n')
            for header in sorted(set(golden.get(label, headers.get(label, ()))) & headers.get(label, set())):
                file.write('    %s\n' % header)


def full_label(package, name):
    return '//%s:%s' % (package, name or package.rsplit('/', 1)[-1])


def labels_of_line(line, package):
    """The labels that a line names, as (label, text); `package` is that of the page, or None."""
    found = []
    base = package
    places = [(match.start(), match) for match in LABEL.finditer(line)]
    if line.startswith('|') or package is not None:
        places += [(match.start(), match) for match in RELATIVE.finditer(line)]
    for _, match in sorted(places, key=lambda place: place[0]):
        if match.re is LABEL:
            repository, folder, name = match.groups()
            if repository not in (None, '', '@ding_worker') or not (folder or name):
                continue
            if (folder or '').endswith('...') or name == '...':
                continue
            base = folder or ''
            found.append((full_label(base, name), match.group(0)))
        elif base is not None:
            folder, name = match.groups()
            # "file:name" and its like are something else, unless there is a folder of that name.
            of = '%s/%s' % (package, folder) if folder else base
            if os.path.isfile(of + '/BUILD'):
                found.append((full_label(of, name), match.group(0).strip('`')))
    if line.startswith('|') and '`_factory`' in line.split('|')[1]:
        cell = {label for label, text in found if text in line.split('|')[1]}
        found += [(label + '_factory', '`_factory`') for label in sorted(cell)]
    return found


def check_names(kinds, public):
    complaints = []
    for pattern in PAGES + SOURCES:
        for path in files(pattern):
            package = os.path.basename(path)[:-len('.md')] if path.startswith('docs/') else None
            package = PACKAGE_OF_PAGE.get(path, package)
            if package is not None and not os.path.isfile(package + '/BUILD'):
                package = None
            # An example is a workspace of its own, in which "//" is its own root.
            prefix = '@ding_worker//' if pattern in SOURCES or path.startswith('examples/') else '//'
            with open(path, encoding='utf-8') as file:
                for number, line in enumerate(file, 1):
                    for label, text in labels_of_line(line, package):
                        if not text.startswith(prefix) and text.startswith('//'):
                            continue
                        if label in public or WRITTEN.match(label) or os.path.isfile(label[2:].replace(':', '/')):
                            continue
                        kind = kinds.get(label)
                        if kind is None:
                            complaints.append("%s:%d: there is no target '%s' (%s)" % (path, number, text, label))
                        elif not kind.endswith(('_test', '_binary')):
                            complaints.append("%s:%d: '%s' (%s) is not public" % (path, number, text, label))
    return complaints


def check_installed(kinds, public):
    with open(INSTALL, encoding='utf-8') as file:
        listed = {full_label(*(label[2:].split(':') + [None])[:2]) for label in re.findall(r'^ +"(//[^"]+)": "', file.read(), re.M)}
    classes = {label for label in public if kinds.get(label) == 'cc_library' and not NOT_INSTALLED.search(label)}
    return (['%s:1: the public class %s is not installed' % (INSTALL, label) for label in sorted(classes - listed)] +
            ['%s:1: %s is installed and is no public class' % (INSTALL, label) for label in sorted(listed - classes)])


def check_light(kinds, public):
    with open(LIGHT_TESTS, encoding='utf-8') as file:
        listed = {full_label(*(label[2:].split(':') + [None])[:2]) for label in re.findall(r'^ {12}"(//[^"]+)",$', file.read(), re.M)}
    classes = {
        label for label in public if kinds.get(label) == 'cc_library' and LIGHT.search(label) and
        not NOT_INSTALLED.search(label) and not READS_CONFIGS.search(label)
    }
    return [
        '%s:1: classes_need_abseil_alone_test and its neighbour do not name the public class %s' % (LIGHT_TESTS, label)
        for label in sorted(classes - listed)
    ]


def main():
    kinds, public, headers = load_targets()
    if sys.argv[1:] == ['--write']:
        write_golden(public, headers)
        return
    complaints = (compare_with_golden(public, headers) + check_includes(headers) + check_names(kinds, public) +
                  check_installed(kinds, public) + check_light(kinds, public))
    for complaint in complaints:
        print(complaint)
    sys.exit(1 if complaints else 0)


if __name__ == '__main__':
    main()
