#!/usr/bin/env python3
"""Gives modules of ding_worker to builds without Bazel: bazel run //:install -- --prefix=DIR, or --debian=DIR

--prefix=DIR installs:
    DIR/include/ding_worker/             headers
    DIR/lib/ding_worker/                 static libraries
    DIR/lib/pkgconfig/                   a file ding_worker_<module>.pc per module
    DIR/lib/cmake/ding_worker/           for find_package(ding_worker): targets ding_worker::<module>
--debian=DIR writes Debian packages instead, one per top folder (libding-worker-data-dev, ...), which install the same below /usr.

--modules=A,B takes those modules only. The libraries were compiled against the packages of this system, and a program that links
them needs the same ones. Run it with --compilation_mode=opt, which is what .bazelrc says.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

import debian_packages


def keep_symbol(library):
    """The symbol by which a linker takes a library that registers something, although nothing in it is called."""
    return 'ding_worker_keeps_' + library


def link_items(libraries, flags, archive):
    """What a linker gets, in order: the archives (name, whether all of it is needed), then the flags, as one word each.

    Every item may be repeated, as it is when a program links two modules that share a library. `archive` is how a linker finds
    the library of that name.
    """
    items = []
    for name, keep in libraries:
        if keep:
            items.append('-Wl,--undefined=' + keep_symbol(name))
        items.append(archive % name)
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


def followers(modules):
    """For each archive, what each module that has it links after it: everything that the archive may need."""
    after = {}
    for module in modules:
        for index, name in enumerate(module['libraries']):
            later = module['libraries'][index + 1:]
            if name in after:
                kept, flags = set(later), set(module['flags'])
                after[name] = ([other for other in after[name][0] if other in kept],
                               [flag for flag in after[name][1] if flag in flags])
            else:
                after[name] = (later, module['flags'])
    # Only the nearest ones: what they need follows them.
    return {name: ([other for other in later if not any(other in after[between][0] for between in later)], flags)
            for name, (later, flags) in after.items()}


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, 'w', encoding='utf-8') as file:
        file.write(text)


def copy(source, target):
    os.makedirs(os.path.dirname(target), exist_ok=True)
    if os.path.exists(target):
        os.remove(target)
    shutil.copyfile(source, target)


def write_kept_library(source, target, library):
    """Copies an archive as one object with a symbol, so that a linker takes all of it, and only once."""
    os.makedirs(os.path.dirname(target), exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        joined = '%s/%s.o' % (folder, library)
        for command in (['ld', '-r', '-o', joined, '--whole-archive', source],
                        ['objcopy', '--add-symbol', keep_symbol(library) + '=.text:0,global', joined],
                        ['ar', 'rcsD', '%s/joined.a' % folder, joined]):
            subprocess.run(command, check=True)
        copy('%s/joined.a' % folder, target)


# find_package(ding_worker [COMPONENTS replay_buffers ...]): every module that is installed beside this file.
CMAKE_CONFIG = """# Written by ding_worker: find_package(ding_worker), then target_link_libraries(... ding_worker::replay_buffers).
# The folder may be reached through a link, such as /lib, which is usr/lib: the prefix is above the real one.
get_filename_component(_ding_prefix "${{CMAKE_CURRENT_LIST_DIR}}" REALPATH)
get_filename_component(_ding_prefix "${{_ding_prefix}}/{up}" ABSOLUTE)
# The characters of patterns are those of a folder here.
string(REGEX REPLACE "([[?*])" "[\\\\1]" _ding_folder "${{CMAKE_CURRENT_LIST_DIR}}")
file(GLOB _ding_modules "${{_ding_folder}}/archives/*.cmake" "${{_ding_folder}}/modules/*.cmake")
foreach(_ding_module IN LISTS _ding_modules)
  include("${{_ding_module}}")
endforeach()
foreach(_ding_component IN LISTS ding_worker_FIND_COMPONENTS)
  if(TARGET ding_worker::${{_ding_component}})
    set(ding_worker_${{_ding_component}}_FOUND TRUE)
  elseif(ding_worker_FIND_REQUIRED_${{_ding_component}})
    set(ding_worker_FOUND FALSE)
    set(ding_worker_NOT_FOUND_MESSAGE "the module '${{_ding_component}}' is not installed")
  endif()
endforeach()
"""

CMAKE_MODULE = """if(NOT TARGET ding_worker::{name})
  add_library(ding_worker::{name} INTERFACE IMPORTED)
  set_target_properties(ding_worker::{name} PROPERTIES
    INTERFACE_INCLUDE_DIRECTORIES "${{_ding_prefix}}/include"
    INTERFACE_COMPILE_FEATURES cxx_std_17
    INTERFACE_LINK_LIBRARIES "{items}")
endif()
"""

# An archive, with what it may need: CMake puts that behind it, whichever modules a program links.
CMAKE_ARCHIVE = """if(NOT TARGET ding_worker::archive_{name})
  add_library(ding_worker::archive_{name} STATIC IMPORTED)
  set_target_properties(ding_worker::archive_{name} PROPERTIES
    IMPORTED_LOCATION "${{_ding_prefix}}/{libdir}/ding_worker/lib{name}.a"
    INTERFACE_LINK_LIBRARIES "{items}")
endif()
"""

# Before 1.0 a new second number may break (docs/decisions/0012-versions-and-namespaces.md).
CMAKE_VERSION = """set(PACKAGE_VERSION "{version}")
if(PACKAGE_FIND_VERSION VERSION_EQUAL PACKAGE_VERSION)
  set(PACKAGE_VERSION_EXACT TRUE)
endif()
if(NOT PACKAGE_FIND_VERSION VERSION_GREATER PACKAGE_VERSION AND
    (NOT PACKAGE_FIND_VERSION_MAJOR STREQUAL "0" OR PACKAGE_FIND_VERSION_COUNT LESS 2 OR
     PACKAGE_FIND_VERSION_MINOR STREQUAL "{minor}"))
  set(PACKAGE_VERSION_COMPATIBLE TRUE)
endif()
"""


class Installation:
    """Where the files of `modules` go: paths below a prefix, for any subset of the headers, libraries and modules."""

    def __init__(self, manifest, modules, version, libdir):
        self.manifest = manifest
        self.modules = modules
        self.version = version
        self.libdir = libdir
        self.headers = {header for module in modules.values() for header in module['headers']}
        self.libraries = {name for module in modules.values() for name in module['libraries']}
        self.followers = followers(manifest['modules'].values())

    def _prefix_from(self, folder):
        return os.path.relpath('.', folder)

    def write_header(self, root, header):
        copy(self.manifest['headers'][header], '%s/include/%s' % (root, header))

    def write_library(self, root, name):
        library = self.manifest['libraries'][name]
        target = '%s/%s/ding_worker/lib%s.a' % (root, self.libdir, name)
        if library['keep']:
            write_kept_library(library['path'], target, name)
        else:
            copy(library['path'], target)
        later, flags = self.followers[name]
        items = link_items([], flags, '')
        write('%s/%s/cmake/ding_worker/archives/%s.cmake' % (root, self.libdir, name),
              CMAKE_ARCHIVE.format(name=name, libdir=self.libdir,
                                   items=';'.join(['ding_worker::archive_' + other for other in later] + items)))

    def write_module(self, root, name):
        module = self.modules[name]
        libraries = [(library, self.manifest['libraries'][library]['keep']) for library in module['libraries']]
        folder = self.libdir + '/pkgconfig'
        # Not by their paths: pkg-config quotes spaces in the prefix after -I and -L only.
        items = link_items(libraries, module['flags'], '-l:lib%s.a')
        write(
            '%s/%s/ding_worker_%s.pc' % (root, folder, name), '\n'.join([
                'prefix=${pcfiledir}/' + self._prefix_from(folder),
                '',
                'Name: ding_worker ' + name,
                'Description: one module of ding_worker, with what it needs',
                'Version: ' + self.version,
                'Cflags: -I${prefix}/include',
                'Libs: -L${prefix}/%s/ding_worker ' % self.libdir + ' '.join(items),
                '',
            ]))
        items = link_items(libraries, module['flags'], 'ding_worker::archive_%s')
        write('%s/%s/cmake/ding_worker/modules/%s.cmake' % (root, self.libdir, name),
              CMAKE_MODULE.format(name=name, items=';'.join(items)))

    def write_config(self, root):
        folder = self.libdir + '/cmake/ding_worker'
        write('%s/%s/ding_workerConfig.cmake' % (root, folder), CMAKE_CONFIG.format(up=self._prefix_from(folder)))
        write('%s/%s/ding_workerConfigVersion.cmake' % (root, folder),
              CMAKE_VERSION.format(version=self.version, minor=self.version.split('.')[1]))

    def write_all(self, root):
        for header in self.headers:
            self.write_header(root, header)
        for library in self.libraries:
            self.write_library(root, library)
        for name in self.modules:
            self.write_module(root, name)
        self.write_config(root)


def read_arguments():
    parser = argparse.ArgumentParser(
        prog='install', description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument('--prefix', metavar='DIR', help='the folder to install into')
    where.add_argument('--debian', metavar='DIR', help='the folder for Debian packages')
    parser.add_argument('--modules', metavar='A,B', help='names, with commas; all if not given')
    for name in ['--manifest', '--module_file', '--license']:
        parser.add_argument(name, required=True, help=argparse.SUPPRESS)
    return parser.parse_args()


def main():
    arguments = read_arguments()
    with open(arguments.manifest, encoding='utf-8') as file:
        manifest = json.load(file)
    modules = manifest['modules']
    if arguments.modules:
        names = arguments.modules.split(',')
        unknown = [name for name in names if name not in modules]
        if unknown:
            sys.exit("install: there is no module '%s'; there are: %s" % (unknown[0], ', '.join(sorted(modules))))
        modules = {name: modules[name] for name in names}
    with open(arguments.module_file, encoding='utf-8') as file:
        version = re.search(r'^    version = "([^"]+)",$', file.read(), re.M)[1]

    # `bazel run` starts the program elsewhere.
    place = os.path.join(os.environ.get('BUILD_WORKING_DIRECTORY', ''),
                         os.path.expanduser(arguments.prefix or arguments.debian))
    if arguments.prefix:
        installation = Installation(manifest, modules, version, 'lib')
        installation.write_all(place)
        print('installed %d modules, %d headers and %d libraries into %s' %
              (len(modules), len(installation.headers), len(installation.libraries), place))
    else:
        installation = Installation(manifest, modules, version, debian_packages.libdir())
        for path in debian_packages.build(installation, place, arguments.license):
            print(path)


if __name__ == '__main__':
    main()
