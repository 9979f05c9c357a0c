"""Tests of .bzl files under Bazels and on machines that are not at hand.

Python reads these files as Starlark does; what Bazel gives them is replaced by fakes.
"""

import re
import unittest


class Refused(Exception):
    """What fail() raises."""


def fail(message):
    raise Refused(message)


class Struct:

    def __init__(self, **fields):
        self.__dict__.update(fields)


def read(path, **names):
    """The names that a .bzl file defines. `names`: what it loads, and what Bazel gives it."""
    defined = {'fail': fail, 'load': lambda *_, **__: None, 'repository_rule': lambda **kwargs: kwargs, **names}
    with open(path, encoding='utf-8') as file:
        exec(compile(file.read(), path, 'exec'), defined)
    return defined


LIBRARIES = read('third_party/libraries.bzl')


def read_deps_test(native, label=None):
    return read('tools/build_defs/deps_test.bzl', native=native, Label=label, sh_test=None, **{
        name: LIBRARIES[name] for name in ('LIBRARIES', 'RULES')
    })


class NoPathTest(unittest.TestCase):
    """deps_test.bzl: how no_path_test finds what its patterns mean."""

    def workspace(self, repository='@'):
        """Bazel 4 to 6, and 7 with WORKSPACE, as far as it lacks native.package_relative_label."""
        return read_deps_test(Struct(repository_name=lambda: repository))

    def bzlmod(self, seen, ours=()):
        """Bazel 7 and newer; `seen` and `ours`: apparent to canonical names, for the consumer and for ding_worker."""

        def canonical(names):

            def label(text):
                name, rest = text.split('//', 1)
                if not name:
                    return '@@//' + rest
                return '@@%s//%s' % (dict(names).get(name[1:], "[unknown repo '%s' requested from @@]" % name[1:]), rest)

            return label

        return read_deps_test(Struct(package_relative_label=canonical(seen)), canonical(ours))

    def assert_matches(self, file, start, label, matches=True):
        regex = '^' + file['_start_regex'](start, [])
        self.assertEqual(re.match(regex, label) is not None, matches, '%s, %s' % (regex, label))

    def test_workspace_takes_names_of_the_list(self):
        file = self.workspace()
        for start in ['@zlib//', '@com_google_absl//', '@libtorch//', '@rules_cc//']:
            self.assert_matches(file, start, start + 'a:b')
        self.assert_matches(file, '@zlib//', '@zlib2//:b', False)
        self.assert_matches(file, '//learner', '//learner:hooks')
        self.assert_matches(file, '//learner', '//learner/comm:hooks')
        self.assert_matches(file, '//learner', '//learner2:hooks', False)
        self.assert_matches(file, '//learner:hooks', '//learner:hooks')
        self.assert_matches(file, '//learner:hooks', '//learner:hooks2', False)

    def test_workspace_refuses_other_names(self):
        file = self.workspace()
        with self.assertRaisesRegex(Refused, "no repository '@zlip'.*`repositories`"):
            file['_start_regex']('@zlip//', [])
        file['_start_regex']('@zlip//', ['zlip'])

    def test_workspace_of_a_consumer_sees_our_labels_with_our_name(self):
        self.assert_matches(self.workspace('@ding_worker'), '//learner', '@ding_worker//learner:hooks')

    def test_bzlmod_takes_canonical_names(self):
        for mark in ['~', '+', '~1.3.1', '~~system~zlib', '++system+zlib']:
            file = self.bzlmod({'zlib': 'zlib' + mark})
            for at in ['@', '@@']:
                self.assert_matches(file, '@zlib//', '%szlib%s//:z' % (at, mark))
            self.assert_matches(file, '@zlib//', '@@zlibx//:z', False)
        self.assert_matches(self.bzlmod({}), '//learner', '//learner:hooks')

    def test_bzlmod_takes_names_that_ding_worker_alone_has(self):
        self.assert_matches(self.bzlmod({}, {'libtorch': 'ding_worker~~system~libtorch'}), '@libtorch//',
                            '@@ding_worker~~system~libtorch//:torch')

    def test_bzlmod_refuses_unknown_names(self):
        with self.assertRaisesRegex(Refused, "no repository '@zlip'"):
            self.bzlmod({'zlib': 'zlib~'})['_start_regex']('@zlip//', [])


class CheckBazelTest(unittest.TestCase):
    """deps.bzl: the Bazels that WORKSPACE is for."""

    def check(self, version):
        names = ('LINK_ALL', 'cc_library_text', 'forward_text', 'link_as_needed', 'system_repo')
        read('third_party/deps.bzl',
             native=Struct(bazel_version=version),
             maybe=None,
             LIBRARIES={},
             **dict.fromkeys(names))['_check_bazel']()

    def test_versions(self):
        for version in ['', 'no_version', '4.2.0', '4.2.3- (@non-git)', '5.4.1', '6.0.0-pre.1', '7.7.1', '7.7.1+dfsg']:
            self.check(version)
        for version in ['0.29.1', '3.7.2', '4.1.0']:
            with self.assertRaisesRegex(Refused, 'needs Bazel 4.2 or newer; this is Bazel ' + re.escape(version)):
                self.check(version)
        for version in ['8.0.0', '9.0.0rc1', '10.1.0']:
            with self.assertRaisesRegex(Refused, r'Write into MODULE.bazel instead:\n  bazel_dep\(name = "ding_worker"'):
                self.check(version)


class SystemRepoTest(unittest.TestCase):
    """system_repo.bzl: what a machine without a package reads."""

    def setUp(self):
        self.file = read('third_party/system_repo.bzl', attr=Struct(**dict.fromkeys(['string', 'string_list', 'string_dict'],
                                                                                  lambda: None)))

    def context(self, name, dpkg, execute):
        library = LIBRARIES['LIBRARIES']['com_google_protobuf']
        attributes = Struct(debian_packages=library['debian'], fedora_packages=library['fedora'], header=library['header'])
        return Struct(name=name, attr=attributes, which=lambda _: dpkg, execute=execute)

    def assert_refused(self, context, package):
        with self.assertRaises(Refused) as refused:
            self.file['_package_versions'](context)
        text = str(refused.exception)
        self.assertIn('@com_google_protobuf needs the package %s, which is not installed' % package, text)
        self.assertIn('Debian, Ubuntu: apt-get install libprotobuf-dev protobuf-compiler', text)
        self.assertIn('Fedora:         dnf install protobuf-devel protobuf-compiler', text)

    def test_one_package_of_two_is_missing(self):

        def execute(command):
            there = command[-1] == 'libprotobuf-dev'
            return Struct(return_code=0 if there else 1, stdout='installed 3.21.12-3' if there else '')

        for name in ['com_google_protobuf', 'ding_worker~~system~com_google_protobuf', 'ding_worker++system+com_google_protobuf']:
            self.assert_refused(self.context(name, '/usr/bin/dpkg-query', execute), 'protobuf-compiler')

    def test_a_package_is_removed_and_its_settings_are_left(self):
        context = self.context('com_google_protobuf', '/usr/bin/dpkg-query',
                               lambda _: Struct(return_code=0, stdout='config-files 3.21.12-3'))
        self.assert_refused(context, 'libprotobuf-dev')

    def test_a_system_without_dpkg_looks_for_the_header(self):
        context = self.context('com_google_protobuf', None, lambda _: Struct(return_code=1, stdout=''))
        self.assert_refused(context, 'protobuf-devel or protobuf-compiler or libprotobuf-dev or protobuf-compiler')
        context.execute = lambda _: Struct(return_code=0, stdout='123 456 /usr/include/google/protobuf/message.h\n')
        self.assertEqual(self.file['_package_versions'](context), ['123 456 /usr/include/google/protobuf/message.h'])


class ModuleTest(unittest.TestCase):
    """MODULE.bazel and extensions.bzl: what a consumer's module graph gets from us, and where libraries come from."""

    def test_a_consumer_resolves_these_modules_of_ours_and_no_others(self):
        modules = {True: [], False: []}
        used, own = [], {}

        def use_extension(_, name, dev_dependency=False):
            self.assertEqual(name, 'system')
            return Struct(module=lambda library, repository: own.update({library: repository})) if dev_dependency else None

        with open('MODULE.bazel', encoding='utf-8') as file:
            exec(file.read(), {
                'module': lambda **_: None,
                'bazel_dep': lambda name, version, repo_name=None, dev_dependency=False: modules[dev_dependency].append(name),
                'use_extension': use_extension,
                'use_repo': lambda _, *names: used.extend(names),
            })
        # Each new one is a decision: whoever takes the buffer alone resolves it, too.
        self.assertEqual(sorted(modules[False]), [
            'abseil-cpp', 'gflags', 'giflib', 'glog', 'googletest', 'lz4', 'nlohmann_json', 'protobuf', 'rules_cc',
            'rules_shell', 'zlib', 'zstd'
        ])
        self.assertEqual(sorted(modules[True]), ['google_benchmark', 'grpc', 'hiredis', 'openssl'])
        self.assertEqual(used, [
            'box2d', 'com_github_grpc_grpc', 'ding_worker_proto_rules', 'dygraphs', 'ffmpeg', 'hiredis', 'libmicrohttpd', 'libtorch', 'mujoco', 'openblas', 'openssl',
            'pybind11', 'sqlite3'
        ])
        self.assertEqual(own, {
            'com_github_grpc_grpc': '@grpc_module', 'hiredis': '@hiredis_module', 'openssl': '@openssl_module'
        })

    def repositories(self, *modules):
        """Name -> arguments of the repositories that the extension declares for a module graph with these tags."""
        declared = {}
        names = ('LINK_ALL', 'cc_library_text', 'forward_text', 'link_as_needed', 'system_repo')
        deps = read('third_party/deps.bzl', maybe=None, LIBRARIES=LIBRARIES['LIBRARIES'], **dict.fromkeys(names))
        system = read('third_party/extensions.bzl',
                      Label=lambda text: '@@protobuf~//' + text.split('//')[1],
                      attr=Struct(label=lambda **_: None, string=lambda **_: None),
                      library_labels=deps['library_labels'],
                      module_extension=lambda implementation, **_: implementation,
                      system_library=lambda _, name, restricted: declared.update({name: 'packages'}),
                      system_repo=lambda name, **kwargs: declared.update({name: kwargs}),
                      tag_class=lambda **_: None,
                      LIBRARIES=LIBRARIES['LIBRARIES'])['system']
        system(Struct(modules=[Struct(tags=Struct(distribution=d, module=m)) for d, m in modules]))
        return declared

    def test_the_proto_rules_are_those_of_the_module(self):
        # In a repository of the extension, "@com_google_protobuf" would be the one beside it: the packages of the distribution.
        text = self.repositories()['ding_worker_proto_rules']['files']['defs.bzl']
        self.assertEqual(re.findall(r'load\("([^"]*)"', text),
                         ['@@protobuf~//bazel:cc_proto_library.bzl', '@@protobuf~//bazel:proto_library.bzl'])

    def test_an_optional_library_that_nobody_names_says_what_to_write(self):
        refusal = self.repositories()['com_github_grpc_grpc']['refusal']
        for line in ['bazel_dep(name = "grpc", version = "', 'ding_system.module(library = "com_github_grpc_grpc", repository = "@grpc")']:
            self.assertIn('\n  ' + line, refusal)
        self.assertEqual(self.repositories()['openblas'], 'packages')

    def test_an_optional_library_comes_from_the_module_that_the_root_names(self):
        named = [Struct(library='com_github_grpc_grpc', repository='@@%s~//:it' % name) for name in ('theirs', 'ours')]
        declared = self.repositories(([], named[:1]), ([], named[1:]))
        packages = declared['com_github_grpc_grpc']['packages']
        self.assertIn('actual = "@@theirs~//:grpc++"', packages[''])
        self.assertIn('actual = "@@theirs~//src/compiler:grpc_cpp_plugin"', packages['src/compiler'])
        self.assertIn('refusal', declared['hiredis'])

    def test_with_the_stubs_every_library_is_a_package(self):
        named = Struct(library='openssl', repository='@@openssl~//:openssl')
        declared = self.repositories(([], [named]), ([Struct()], []))
        self.assertEqual({name for name, what in declared.items() if what == 'packages'}, set(LIBRARIES['LIBRARIES']))


if __name__ == '__main__':
    unittest.main()
