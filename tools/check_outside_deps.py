"""Reads `bazel query --output=xml` of the C++ rules and names each outside library that a target includes and does not list.

The installed headers are all in /usr/include, so the compiler does not notice. A workspace that brings its own Abseil does.

    bazel query 'kind("cc_.* rule", //...)' --output=xml | python3 tools/check_outside_deps.py
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
    (r'openssl/', ['//third_party:crypto', '@openssl//:crypto']),
    (r'lib(avcodec|avformat|avutil|swscale)/', ['//third_party:ffmpeg', '@ffmpeg//:ffmpeg']),
    (r'hiredis/', ['//third_party:hiredis', '@hiredis//:hiredis']),
]
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


def main():
    complaints = 0
    for rule in ElementTree.parse(sys.stdin).getroot().iter('rule'):
        lists = {}
        for entry in rule.findall('list'):
            lists[entry.get('name')] = [label.get('value') for label in entry.findall('label')]
        deps = {short(label) for label in lists.get('deps', [])}
        missing = {}
        for label in lists.get('srcs', []) + lists.get('hdrs', []) + lists.get('textual_hdrs', []):
            path = label[len('//'):].replace(':', '/').lstrip('/')
            if not label.startswith('//') or not os.path.isfile(path):
                continue
            with open(path, encoding='utf-8') as file:
                for number, line in enumerate(file, 1):
                    match = INCLUDE.match(line)
                    wanted = labels_for(match.group(1)) if match else []
                    if wanted and not deps.intersection(wanted):
                        missing.setdefault(wanted[0], '%s:%d' % (path, number))
        for label, place in sorted(missing.items()):
            print('%s: %s does not list "%s"' % (place, rule.get('name'), label))
            complaints += 1
    sys.exit(1 if complaints else 0)


if __name__ == '__main__':
    main()
