"""The C++ rules of this repository. BUILD files load these, never @rules_cc.

Headers are included as "ding_worker/<package>/<file>.h" here and in a workspace that depends on this one. The flags are
part of the rules, because such a workspace does not read our .bazelrc.
"""

load("@rules_cc//cc:defs.bzl", "cc_binary", "cc_library", "cc_test")
load("@rules_shell//shell:sh_test.bzl", "sh_test")
load(":precompiled_headers.bzl", "use_precompiled_headers")

DING_COPTS = [
    "-std=c++17",
    "-Wall",
    "-Wextra",
]

# Sources of tests compile a third faster without optimization, and spend no time that counts. Debian's flag for checked calls of libc
# needs optimization.
DING_TEST_COPTS = DING_COPTS + [
    "-O0",
    "-U_FORTIFY_SOURCE",
]

# What nearly every target includes. The macros add it, so that a BUILD file lists what sets a target apart.
_ABSL = [Label("@com_google_absl//absl/" + name) for name in [
    "base:core_headers",
    "memory",
    "status",
    "status:statusor",
    "strings",
    "time",
    "types:span",
]]
_BASE = Label("//base")
_TEST_BASE = Label("//base:testing")

# Clang complains about a header that comes from no direct dep.
_FEATURES = [
    "layering_check",
    "parse_headers",
]

_LIBRARY_HEADERS = Label("//tools/build_defs:library_headers")
_TEST_HEADERS = Label("//tools/build_defs:test_headers")

def _basics():
    return _ABSL + ([] if native.package_name() == "base" else [_BASE])

def ding_cc_library(name, srcs = [], hdrs = [], textual_hdrs = [], copts = [], deps = [], features = [], linkstatic = True, precompiled = True, **kwargs):
    """A cc_library whose headers are included as "ding_worker/<package>/<file>.h".

    Its deps have //base and the most used parts of Abseil already.

    Args:
      name: as in cc_library.
      srcs: as in cc_library.
      hdrs: as in cc_library. A header that other targets must not use goes into a target of its own with private visibility.
      textual_hdrs: as in cc_library.
      copts: flags after those of the house.
      deps: as in cc_library.
      features: as in cc_library.
      linkstatic: True, so that an object file is compiled once and a missing alwayslink shows in tests.
      precompiled: False for a source with functions for other instruction sets (base/compiled_loops.h), on which GCC 12 has crashed with
        precompiled headers.
      **kwargs: as in cc_library.
    """
    if hdrs or textual_hdrs:
        kwargs["include_prefix"] = "ding_worker"
        kwargs["strip_include_prefix"] = "/"
    if srcs and precompiled:
        copts = use_precompiled_headers("library_headers") + copts
        deps = deps + [_LIBRARY_HEADERS]
    cc_library(
        name = name,
        srcs = srcs,
        hdrs = hdrs,
        textual_hdrs = textual_hdrs,
        copts = DING_COPTS + copts,
        deps = deps + _basics(),
        features = _FEATURES + features,
        linkstatic = linkstatic,
        **kwargs
    )

def ding_cc_binary(name, copts = [], deps = [], features = [], linkstatic = True, precompiled = True, **kwargs):
    """A cc_binary with the flags of the house; `deps` and `precompiled` as in ding_cc_library."""
    if precompiled:
        copts = use_precompiled_headers("library_headers") + copts
        deps = deps + [_LIBRARY_HEADERS]
    cc_binary(
        name = name,
        copts = DING_COPTS + copts,
        features = _FEATURES + features,
        linkstatic = linkstatic,
        deps = deps + [_BASE] + _ABSL,
        **kwargs
    )

def ding_cc_test(name, size = "small", copts = [], deps = [], features = [], linkstatic = True, **kwargs):
    """A cc_test, small unless said otherwise. Its deps have GoogleTest, //base:testing and what ding_cc_library adds already."""
    gtest_main = "@com_google_googletest//:gtest_main"
    has_main = gtest_main in deps or "@com_google_googletest//:gtest" in deps
    cc_test(
        name = name,
        size = size,
        copts = DING_TEST_COPTS + use_precompiled_headers("test_headers") + copts,
        features = _FEATURES + features,
        linkstatic = linkstatic,
        # A Label is that of our own workspace, so that another one need not know the name.
        deps = deps + [_TEST_HEADERS, _TEST_BASE, _BASE] + _ABSL + ([] if has_main else [Label(gtest_main)]),
        **kwargs
    )

def ding_cc_tests(name, srcs, size = "medium", files_per_unit = 12, fuzz_srcs = [], deps = [], **kwargs):
    """One cc_test of several files, which are compiled together: most of the time of a test's compilation is spent in headers.

    Each file is a whole test that could be compiled alone, with its helpers in "namespace {" below "namespace ding {". A
    translation unit is a copy of some of the files, one after the other, in which these namespaces have different parents, so that
    equal names do not meet. A file that needs other data, tags or shards than the rest, or registrations that they must not see, goes
    into a target of its own.

        bazel test //data:tests --test_filter='BatchTest.*'

    Args:
      name: as in cc_test.
      srcs: the files, FILE_test.cc.
      size: as in cc_test, for all of them together.
      files_per_unit: how many files are compiled together at most. After a change in one, the others of its unit are compiled again, too.
      fuzz_srcs: those of the files that make a program as of ding_cc_fuzz_test.
      deps: what all of them need.
      **kwargs: as in cc_test.
    """
    script = str(Label("//tools/build_defs:test_unit.sh"))
    units = []
    for start in range(0, len(srcs), files_per_unit):
        # tools/check_deps.py and tools/compile_commands know units by their names.
        units.append("%s_unit_%d_test" % (name, start // files_per_unit))
        native.genrule(
            name = units[-1],
            testonly = True,
            srcs = srcs[start:start + files_per_unit],
            outs = [units[-1] + ".cc"],
            cmd = "bash $(location %s) $(SRCS) > $@" % script,
            tools = [script],
            visibility = ["//visibility:private"],
        )
    ding_cc_test(
        name = name,
        size = size,
        srcs = [unit + ".cc" for unit in units],
        deps = deps,
        **kwargs
    )
    if fuzz_srcs:
        _fuzz_program(name, fuzz_srcs, deps)

def ding_cc_benchmark(name, copts = [], deps = [], tags = [], data = [], smoke_size = "small", **kwargs):
    """A benchmark program, and `<name>_smoke_test`, which runs it for a moment.

    Args:
      name: name of the program.
      copts: flags after those of the house.
      deps: as in cc_binary; Google Benchmark and its main are added.
      tags: as in cc_binary; "benchmark" is added.
      data: files that the program reads.
      smoke_size: size of the smoke test.
      **kwargs: as in cc_binary.
    """
    ding_cc_binary(
        name = name,
        testonly = True,
        copts = copts,
        data = data,
        tags = tags + ["benchmark"],
        deps = deps + [
            Label("@com_github_google_benchmark//:benchmark"),
            Label("@com_github_google_benchmark//:benchmark_main"),
        ],
        **kwargs
    )
    sh_test(
        name = name + "_smoke_test",
        size = smoke_size,
        srcs = [Label("//tools/build_defs:benchmark_smoke_test.sh")],
        args = ["$(location :%s)" % name],
        data = [":" + name] + data,
        tags = tags + ["benchmark"],
    )

def _fuzz_program(name, srcs, deps, tags = []):
    # It links by --config=fuzz only, which has the compiler's fuzzer.
    ding_cc_binary(
        name = name + "_libfuzzer",
        testonly = True,
        srcs = srcs,
        linkopts = ["-fsanitize=fuzzer"],
        tags = tags + ["manual"],
        deps = deps + [_TEST_BASE, Label("@com_google_googletest//:gtest")],
        precompiled = False,
    )

def ding_cc_fuzz_test(name, srcs, deps, tags = [], **kwargs):
    """A ding_cc_test that calls Fuzz() (base/fuzz_testing.h), and the same as a program that fuzzes by coverage.

    `<name>` is the test; `<name>_libfuzzer` is built and run by `tools/fuzz`, which runs the tests with "Fuzz" in their names.

    Args:
      name: as in ding_cc_test.
      srcs: as in ding_cc_test.
      deps: as in ding_cc_test.
      tags: as in ding_cc_test.
      **kwargs: as in ding_cc_test.
    """
    ding_cc_test(
        name = name,
        srcs = srcs,
        deps = deps,
        tags = tags,
        **kwargs
    )
    _fuzz_program(name, srcs, deps, tags)
