#!/usr/bin/env python3
"""Copies modules of ding_worker to where builds without Bazel find them: bazel run //:install -- --prefix=DIR

    DIR/include/ding_worker/             headers
    DIR/lib/ding_worker/                 static libraries
    DIR/lib/pkgconfig/                   a file ding_worker_<module>.pc per module
    DIR/lib/cmake/ding_worker/           for find_package(ding_worker): targets ding_worker::<module>

--modules=A,B copies those modules only. The libraries were compiled against the packages of this system, and a program that links
them needs the same ones. Run it with --compilation_mode=opt, which is what .bazelrc says.
"""

import argparse
import os
import re
import shutil
import sys


def link_items(libraries, flags, folder):
    """What a linker gets, in order: the archives, then the flags of outside libraries, as one word each."""
    items = []
    for library in libraries:
        path = '%s/lib%s.a' % (folder, library.rstrip('!'))
        items.append('-Wl,--whole-archive,%s,--no-whole-archive' % path if library.endswith('!') else path)
    # One word per group, so that nobody removes a "--push-state" as a repetition.
    group = None
    for flag in flags:
        if flag.startswith('-Wl,--push-state'):
            group = [flag]
        elif group is None:
            items.append(flag)
        else:
            group.append(flag[len('-Wl,'):] if flag.startswith('-Wl,') else flag)
            if group[-1] == '--pop-state':
                items.append(','.join(group))
                group = None
    return list(dict.fromkeys(items))


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, 'w', encoding='utf-8') as file:
        file.write(text)


def copy(source, target):
    os.makedirs(os.path.dirname(target), exist_ok=True)
    if os.path.exists(target):
        os.remove(target)
    shutil.copyfile(source, target)


def cmake_config(modules):
    lines = [
        '# Written by ding_worker: find_package(ding_worker), then target_link_libraries(... ding_worker::naive_buffer).',
        'get_filename_component(_ding_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)',
    ]
    for name, (libraries, flags) in sorted(modules.items()):
        items = link_items(libraries, flags, '${_ding_prefix}/lib/ding_worker')
        lines += [
            'if(NOT TARGET ding_worker::%s)' % name,
            '  add_library(ding_worker::%s INTERFACE IMPORTED)' % name,
            '  set_target_properties(ding_worker::%s PROPERTIES' % name,
            '    INTERFACE_INCLUDE_DIRECTORIES "${_ding_prefix}/include"',
            '    INTERFACE_COMPILE_FEATURES cxx_std_17',
            '    INTERFACE_LINK_LIBRARIES "%s")' % ';'.join(items),
            'endif()',
        ]
    return '\n'.join(lines) + '\n'


def pkg_config(name, libraries, flags, version):
    return '\n'.join([
        'prefix=${pcfiledir}/../..',
        '',
        'Name: ding_worker ' + name,
        'Description: one module of ding_worker, with what it needs',
        'Version: ' + version,
        'Cflags: -I${prefix}/include',
        'Libs: ' + ' '.join(link_items(libraries, flags, '${prefix}/lib/ding_worker')),
        '',
    ])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--prefix', required=True, help='the folder to install into')
    parser.add_argument('--modules', help='names, with commas; all if not given')
    parser.add_argument('--manifest', required=True, help=argparse.SUPPRESS)
    parser.add_argument('--module_file', required=True, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    # `bazel run` starts the program elsewhere.
    prefix = os.path.join(os.environ.get('BUILD_WORKING_DIRECTORY', ''), os.path.expanduser(arguments.prefix))

    headers, archives, modules = {}, {}, {}
    with open(arguments.manifest, encoding='utf-8') as file:
        for line in file:
            kind, *fields = line.rstrip('\n').split('\t')
            if kind == 'header':
                headers[fields[1]] = fields[0]
            elif kind == 'library':
                archives[fields[1]] = fields[0]
            else:
                modules[fields[0]] = (fields[1].split(), fields[2].split())
    if arguments.modules:
        names = arguments.modules.split(',')
        unknown = [name for name in names if name not in modules]
        if unknown:
            sys.exit("install: there is no module '%s'; there are: %s" % (unknown[0], ', '.join(sorted(modules))))
        modules = {name: modules[name] for name in names}
    with open(arguments.module_file, encoding='utf-8') as file:
        version = re.search(r'^    version = "([^"]+)",$', file.read(), re.M)[1]

    wanted = {'lib%s.a' % library.rstrip('!') for libraries, _ in modules.values() for library in libraries}
    for destination, source in headers.items():
        copy(source, '%s/include/%s' % (prefix, destination))
    for destination in sorted(wanted):
        copy(archives[destination], '%s/lib/ding_worker/%s' % (prefix, destination))
    write(prefix + '/lib/cmake/ding_worker/ding_workerConfig.cmake', cmake_config(modules))
    write(
        prefix + '/lib/cmake/ding_worker/ding_workerConfigVersion.cmake',
        'set(PACKAGE_VERSION "%s")\n'
        'if(PACKAGE_FIND_VERSION VERSION_EQUAL PACKAGE_VERSION)\n'
        '  set(PACKAGE_VERSION_EXACT TRUE)\n'
        'endif()\n'
        'if(NOT PACKAGE_FIND_VERSION VERSION_GREATER PACKAGE_VERSION)\n'
        '  set(PACKAGE_VERSION_COMPATIBLE TRUE)\n'
        'endif()\n' % version)
    for name, (libraries, flags) in modules.items():
        write('%s/lib/pkgconfig/ding_worker_%s.pc' % (prefix, name), pkg_config(name, libraries, flags, version))
    print('installed %d modules, %d headers and %d libraries into %s' % (len(modules), len(headers), len(wanted), prefix))


if __name__ == '__main__':
    main()
