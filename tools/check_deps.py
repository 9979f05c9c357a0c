"""Reads `bazel query --output=xml` and names each header that a C++ target includes from a library that it does not list in deps.

GCC does not notice: the headers of outside libraries are all in /usr/include, and those of ours are found through the deps of deps. (With
clang, layering_check sees the latter.) A workspace that brings its own Abseil, or another compiler, does.

    bazel query 'kind("(cc_.*|proto_library|alias|genrule) rule", //...)' --output=xml | python3 tools/check_deps.py
"""

import os
import re
import sys
import xml.etree.ElementTree as ElementTree

# Headers whose target has another name than the header.
ABSL_HEADERS = {
    'base/call_once.h': 'base:base',
    'base/casts.h': 'base:base',
    'base/config.h': 'base:config',
    'base/dynamic_annotations.h': 'base:dynamic_annotations',
    'base/internal/endian.h': 'base:endian',
    'base/log_severity.h': 'base:log_severity',
    'base/options.h': 'base:config',
    'container/btree_map.h': 'container:btree',
    'container/btree_set.h': 'container:btree',
    'status/statusor.h': 'status:statusor',
    'strings/cord.h': 'strings:cord',
    'strings/str_format.h': 'strings:str_format',
}
# Packages where every other header belongs to one target.
ABSL_PACKAGES = {
    'base': 'base:core_headers',
    'status': 'status:status',
    'strings': 'strings:strings',
    'synchronization': 'synchronization:synchronization',
    'time': 'time:time',
}
OTHERS = [
    (r'g(test|mock)/', ['@com_google_googletest//:gtest', '@com_google_googletest//:gtest_main']),
    (r'benchmark/benchmark\.h', [
        '@com_github_google_benchmark//:benchmark',
        '@com_github_google_benchmark//:benchmark_main',
    ]),
    (r'google/protobuf/', ['@com_google_protobuf//:protobuf']),
    (r'glog/', ['@com_github_google_glog//:glog']),
    (r'gflags/', ['@com_github_gflags_gflags//:gflags']),
    (r'(open)?blas\.h|cblas\.h', ['@openblas//:openblas']),
    (r'nlohmann/', ['@nlohmann_json//:json']),
    (r'zlib\.h', ['@zlib//:zlib']),
    (r'lz4(frame|hc)?\.h', ['@lz4//:lz4']),
    (r'zstd(_errors)?\.h', ['@zstd//:zstd']),
    (r'(torch|c10|ATen)/', ['//third_party:torch', '@libtorch//:torch']),
    (r'grpc(pp)?/', ['//third_party:grpc++', '@com_github_grpc_grpc//:grpc++']),
    (r'openssl/', ['//third_party:crypto', '@openssl//:crypto', '//third_party:ssl', '@openssl//:ssl']),
    (r'lib(avcodec|avformat|avutil|swscale)/', ['//third_party:ffmpeg', '@ffmpeg//:ffmpeg']),
    (r'box2d/', ['//third_party:box2d', '@box2d//:box2d']),
    (r'mujoco/', ['//third_party:mujoco', '@mujoco//:mujoco']),
    (r'EGL/', ['//third_party:egl', '@mujoco//:egl']),
    (r'hiredis/', ['//third_party:hiredis', '@hiredis//:hiredis']),
    (r'microhttpd\.h', ['//third_party:microhttpd', '@libmicrohttpd//:microhttpd']),
    (r'sqlite3\.h', ['//third_party:sqlite3', '@sqlite3//:sqlite3']),
]
UNIT = re.compile(r'_unit_\d+_test$')
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]')


def labels_for(header):
    """The labels of which a target that includes `header` must list one; empty for any other header."""
    if header.startswith('absl/'):
        path = header[len('absl/'):]
        package, name = path.split('/', 1)
        target = ABSL_HEADERS.get(path) or ABSL_PACKAGES.get(package) or '%s:%s' % (package, name[:-len('.h')])
        label = '@com_google_absl//absl/' + target
        directory, name = label.rsplit(':', 1)
        return [directory if directory.endswith('/' + name) else label]
    for pattern, labels in OTHERS:
        if re.match(pattern, header):
            return labels
    return []


def short(label):
    """The label with its target left out where it is the last part of the package: //a/b:b is //a/b."""
    package, _, name = label.partition(':')
    return package if name and package.endswith('/' + name) else label


def path_of(label):
    """The path of the file of a label of this workspace, or None for another label."""
    return label[len('//'):].replace(':', '/').lstrip('/') if label.startswith('//') else None


class Rule:
    """A rule of the query: its kind, and its attributes that are labels."""

    def __init__(self, element):
        self.name = element.get('name')
        self.kind = element.get('class')
        self.lists = {
            entry.get('name'): [label.get('value') for label in entry.findall('label')] for entry in element.findall('list')
        }
        self.actual = next((entry.get('value') for entry in element.findall('label') if entry.get('name') == 'actual'), None)

    def labels(self, *attributes):
        return [label for attribute in attributes for label in self.lists.get(attribute, [])]


def owners_of_headers(rules):
    """Path of a header of ours -> the targets that offer it."""
    owners = {}
    protos = {rule.name: rule for rule in rules if rule.kind == 'proto_library'}
    for rule in rules:
        if rule.kind == 'cc_proto_library':
            for proto in rule.labels('deps'):
                for source in protos[proto].labels('srcs') if proto in protos else []:
                    owners.setdefault(path_of(source)[:-len('.proto')] + '.pb.h', set()).add(rule.name)
        for header in rule.labels('hdrs', 'textual_hdrs'):
            if path_of(header):
                owners.setdefault(path_of(header), set()).add(rule.name)
    return owners


def missing_deps(rule, aliases, owners, units):
    """A label that the rule does not list -> the first line that needs it."""
    deps = {short(aliases.get(label, label)) for label in rule.labels('deps')}
    files = [
        path_of(file)
        for label in rule.labels('srcs', 'hdrs', 'textual_hdrs')
        for file in units.get(label, [label])
    ]
    missing = {}
    for path in files:
        if path is None or not os.path.isfile(path):
            continue
        with open(path, encoding='utf-8') as file:
            for number, line in enumerate(file, 1):
                match = INCLUDE.match(line)
                header = match.group(1) if match else ''
                wanted = labels_for(header)
                if header.startswith('ding_worker/') and header[len('ding_worker/'):] not in files:
                    wanted = sorted(owners.get(header[len('ding_worker/'):], []))
                if wanted and not deps.intersection(short(label) for label in wanted):
                    missing.setdefault(wanted[0], '%s:%d' % (path, number))
    return missing


def main():
    rules = [Rule(element) for element in ElementTree.parse(sys.stdin).getroot().iter('rule')]
    aliases = {rule.name: rule.actual for rule in rules if rule.kind == 'alias'}
    owners = owners_of_headers(rules)
    # A source that ding_cc_tests has made -> the files that it consists of.
    units = {rule.name + '.cc': rule.labels('srcs') for rule in rules if rule.kind == 'genrule' and UNIT.search(rule.name)}
    complaints = 0
    for rule in rules:
        if not rule.kind.startswith('cc_'):
            continue
        for label, place in sorted(missing_deps(rule, aliases, owners, units).items()):
            print('%s: %s does not list "%s"' % (place, rule.name, label))
            complaints += 1
    sys.exit(1 if complaints else 0)


if __name__ == '__main__':
    main()
