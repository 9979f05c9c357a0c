#!/usr/bin/env python3
"""Writes what follows from third_party/libraries.bzl: the bazel_dep lines of MODULE.bazel, the stub modules of this folder, the
overrides of examples/bzlmod_debian, and docs/reference/dependencies.md.

A stub module has the name of a module of the Bazel Central Registry and the labels that ding_worker uses of it; behind them are the
packages of the distribution (the repositories of third_party/extensions.bzl). Whoever overrides a module with its stub builds
without a network (docs/how_to/use_in_your_repo.md).

    third_party/debian/generate.py           writes the files
    third_party/debian/generate.py --check   names the files that differ, with status 1
"""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
EXAMPLE = 'examples/bzlmod_debian/MODULE.bazel'
BEGIN_EXAMPLE = '# The block of third_party/debian/overrides.MODULE.bazel: outside libraries are the packages of the distribution.\n'
BEGIN = '# Begin of what third_party/debian/generate.py writes.\n'
END = '# End of what third_party/debian/generate.py writes.\n'
NOTE = '# Written by third_party/debian/generate.py.\n'
PROTO_RULES = 'ding_worker_proto_rules'
WELL_KNOWN = [
    'any', 'api', 'descriptor', 'duration', 'empty', 'field_mask', 'source_context', 'struct', 'timestamp', 'type', 'wrappers'
]
# Modules that Bazel itself asks for and that nothing uses on Linux.
EMPTY_MODULES = ['apple_support', 'buildozer']


def read_libraries():
    """LIBRARIES and RULES of libraries.bzl, which holds literals only."""
    names = {}
    with open(os.path.join(ROOT, 'third_party/libraries.bzl'), encoding='utf-8') as file:
        exec(file.read(), {'__builtins__': {}}, names)  # Python and Starlark write these literals alike.
    return names['LIBRARIES'], names['RULES']


def module_block(libraries, rules):
    """The lines of MODULE.bazel between the marks."""
    lines = []
    for name, library in libraries.items():
        if 'module' not in library:
            continue
        line = 'bazel_dep(name = "%s", version = "%s"' % (library['module'], library['version'])
        if is_own(library):
            line += ', dev_dependency = True'
        # The extension gives an optional library its name.
        repository = library['module'] + '_module' if library.get('optional') else name
        if library['module'] != repository:
            line += ', repo_name = "%s"' % repository
        lines.append(line + ')')
    lines += ['bazel_dep(name = "%s", version = "%s")' % rule for rule in rules.items()]
    optional = {name: library['module'] for name, library in libraries.items() if library.get('optional')}
    names = sorted([name for name, library in libraries.items() if 'module' not in library] + list(optional) + [PROTO_RULES])
    block = '\n'.join(sorted(lines)) + '\n\n'
    block += '# What the registry does not have, from the packages of the distribution, and what a consumer names only if it is wanted. Both are\n'
    block += '# looked up only where a target needs them.\n'
    block += 'system = use_extension("//third_party:extensions.bzl", "system")\n'
    block += 'use_repo(system, %s)\n\n' % ', '.join('"%s"' % name for name in names)
    block += 'own = use_extension("//third_party:extensions.bzl", "system", dev_dependency = True)\n'
    return block + ''.join(
        'own.module(library = "%s", repository = "@%s_module")\n' % item for item in sorted(optional.items()))


def is_own(library):
    """Whether the module of a library is in the module graph of ding_worker itself and not in that of a consumer."""
    return library.get('dev') or library.get('optional')


def alias(name, actual):
    return '\nalias(\n    name = "%s",\n    actual = "%s",\n    visibility = ["//visibility:public"],\n)\n' % (name, actual)


def stub(name, library):
    """Path -> text of the stub of a library."""
    module = library['module']
    files = {}
    files['MODULE.bazel'] = '\n'.join([
        NOTE + 'module(name = "%s")' % module,
        '',
        'bazel_dep(name = "ding_worker")',
        '',
        'system = use_extension("@ding_worker//third_party:extensions.bzl", "system")',
        'system.distribution()',
        'use_repo(system, system_library = "%s")' % name,
        '',
    ])
    packages = library.get('packages', {'': sorted(library.get('targets', {}))})
    for package, targets in packages.items():
        folder = package + '/' if package else ''
        actual = '@system_library//%s:%%s' % package
        files[folder + 'BUILD.bazel'] = NOTE + ''.join(alias(target, actual % target) for target in targets)
    files.setdefault('BUILD.bazel', NOTE)
    if module == 'protobuf':
        targets = ['protoc', 'cc_toolchain'] + [name + '_proto' for name in WELL_KNOWN]
        files['BUILD.bazel'] += ''.join(alias(target, '@system_library//:' + target) for target in targets)
        for folder in ['bazel', 'bazel/toolchains']:
            files[folder + '/BUILD.bazel'] = NOTE
        for path in ['bazel/proto_library', 'bazel/cc_proto_library', 'bazel/toolchains/proto_lang_toolchain']:
            rule = os.path.basename(path)
            files[path + '.bzl'] = '"""%s, as Bazel 7 has it built in."""\n\n%s = native.%s\n' % (rule, rule, rule)
    if module == 'grpc':
        files['src/compiler/BUILD.bazel'] = NOTE + alias('grpc_cpp_plugin', '@system_library//src/compiler:grpc_cpp_plugin')
    return {'%s/%s' % (module, path): text for path, text in files.items()}


def all_files(libraries):
    files = {}
    for name, library in libraries.items():
        if 'module' in library:
            files.update(stub(name, library))
    for name in EMPTY_MODULES:
        files[name + '/MODULE.bazel'] = NOTE + 'module(name = "%s")\n' % name
        files[name + '/BUILD.bazel'] = NOTE
    files['rules_shell/MODULE.bazel'] = NOTE + 'module(name = "rules_shell")\n'
    files['rules_shell/shell/BUILD.bazel'] = NOTE
    for rule in ['sh_binary', 'sh_test']:
        files['rules_shell/shell/%s.bzl' % rule] = '"""%s, as Bazel 7 has it built in."""\n\n%s = native.%s\n' % (rule, rule, rule)
    modules = sorted({path.split('/')[0] for path in files})
    # A module that only ding_worker itself needs is not in the graph of a consumer, and Bazel refuses to override it.
    own = {library['module'] for library in libraries.values() if 'module' in library and is_own(library)}
    files['overrides.MODULE.bazel'] = ''.join(
        ['# Written by third_party/debian/generate.py. To copy into the MODULE.bazel of a workspace that builds with the packages of\n',
         '# its distribution only; `path` is the folder with ding_worker.\n'] +
        ['local_path_override(module_name = "%s", path = "../ding_worker/third_party/debian/%s")\n' % (m, m)
         for m in modules if m not in own])
    files['overrides.bazelrc'] = ''.join(
        ['# Written by third_party/debian/generate.py. The same as flags, for a build of ding_worker itself.\n',
         'common --lockfile_mode=off\n'] +
        ['common --override_module=%s=%%workspace%%/third_party/debian/%s\n' % (m, m) for m in modules])
    return files


def new_module_file(libraries, rules):
    with open(os.path.join(ROOT, 'MODULE.bazel'), encoding='utf-8') as file:
        text = file.read()
    head, rest = text.split(BEGIN)
    return head + BEGIN + module_block(libraries, rules) + END + rest.split(END)[1]


def new_example(overrides):
    """The example with the block for a consumer, which lies beside ding_worker there."""
    with open(os.path.join(ROOT, EXAMPLE), encoding='utf-8') as file:
        head = file.read().split(BEGIN_EXAMPLE)[0]
    lines = [line for line in overrides.splitlines(True) if not line.startswith('#')]
    return head + BEGIN_EXAMPLE + ''.join(lines).replace('"../ding_worker/', '"../../')


def dependencies_page(libraries):
    text = '# Dependencies\n\n'
    text += 'The outside libraries. `third_party/debian/generate.py` writes this page from `third_party/libraries.bzl`. A program links only those\n'
    text += 'that its modules need: a replay buffer alone links Abseil. `tools/setup` installs the packages of Debian 12. Versions are those of the Bazel\n'
    text += 'Central Registry with which Bazel 7 builds; a dash means that the library comes from the distribution.\n\n'
    text += '| Library | Version | Debian | Licence | Needed for |\n|---|---|---|---|---|\n'
    for name, library in sorted(libraries.items(), key=lambda item: item[1].get('module', item[0])):
        debian = ', '.join('`%s`' % package for package in library['debian'])
        text += '| %s | %s | %s | %s | %s |\n' % (library.get('module', name), library.get('version', '-'), debian,
                                                library['license'], library['why'])
    return text + '\nTools and test packages are listed in the file `packages` of `tools`, in groups that `tools/setup` installs one by one.\n'


def main():
    libraries, rules = read_libraries()
    wanted = {'third_party/debian/' + path: text for path, text in all_files(libraries).items()}
    wanted['MODULE.bazel'] = new_module_file(libraries, rules)
    wanted[EXAMPLE] = new_example(wanted['third_party/debian/overrides.MODULE.bazel'])
    wanted['docs/reference/dependencies.md'] = dependencies_page(libraries)
    present = set()
    for folder, _, names in os.walk(HERE):
        present |= {os.path.relpath(os.path.join(folder, name), ROOT) for name in names}
    present -= {'third_party/debian/generate.py', 'third_party/debian/BUILD'}
    status = 0
    for path in sorted(present | set(wanted)):
        full = os.path.join(ROOT, path)
        text = wanted.get(path)
        old = None
        if os.path.exists(full):
            with open(full, encoding='utf-8') as file:
                old = file.read()
        if old == text:
            continue
        if sys.argv[1:] == ['--check']:
            print('%s:1: not what third_party/libraries.bzl says' % path)
            status = 1
        elif text is None:
            os.remove(full)
        else:
            os.makedirs(os.path.dirname(full), exist_ok=True)
            with open(full, 'w', encoding='utf-8') as file:
                file.write(text)
    sys.exit(status)


if __name__ == '__main__':
    main()
