"""The outside libraries of ding_worker, under their well-known names, from the packages of Debian 12.

Call `ding_worker_dependencies()` in WORKSPACE. Every repository is declared with `maybe`: declare one before the call and
yours is used.
"""

load("@bazel_tools//tools/build_defs/repo:utils.bzl", "maybe")
load(":system_repo.bzl", "cc_library_text", "forward_text", "system_repo")

# Shims: the rules that Bazel 4 loads even for plain C++, without a download.
_RULES_CC_DEFS = """
cc_binary = native.cc_binary
cc_import = native.cc_import
cc_library = native.cc_library
cc_proto_library = native.cc_proto_library
cc_test = native.cc_test
cc_toolchain = native.cc_toolchain
cc_toolchain_suite = native.cc_toolchain_suite
objc_library = native.objc_library
"""

_RULES_JAVA_DEFS = """
java_binary = native.java_binary
java_import = native.java_import
java_library = native.java_library
java_proto_library = native.java_proto_library
java_runtime = native.java_runtime
java_test = native.java_test
java_toolchain = native.java_toolchain
"""

_RULES_PROTO_DEFS = """
proto_lang_toolchain = native.proto_lang_toolchain
proto_library = native.proto_library
"""

_COVERAGE_TOOLS_BUILD = """
[sh_binary(
    name = name,
    srcs = ["none.sh"],
    visibility = ["//visibility:public"],
) for name in ["coverage_report_generator", "lcov_merger"]]
"""

# Abseil's targets, package by package. Debian's headers are in /usr/include and its libraries are small and many, so that
# every target offers them all to the linker, which records only those that are used.
_ABSL_TARGETS = {
    "absl/algorithm": ["algorithm", "container"],
    "absl/base": ["base", "config", "core_headers", "dynamic_annotations", "endian", "log_severity"],
    "absl/cleanup": ["cleanup"],
    "absl/container": [
        "btree",
        "fixed_array",
        "flat_hash_map",
        "flat_hash_set",
        "inlined_vector",
        "node_hash_map",
        "node_hash_set",
    ],
    "absl/debugging": ["failure_signal_handler", "leak_check", "stacktrace", "symbolize"],
    "absl/functional": ["any_invocable", "bind_front", "function_ref"],
    "absl/hash": ["hash"],
    "absl/memory": ["memory"],
    "absl/meta": ["type_traits"],
    "absl/numeric": ["bits", "int128"],
    "absl/status": ["status", "statusor"],
    "absl/strings": ["cord", "str_format", "strings"],
    "absl/synchronization": ["synchronization"],
    "absl/time": ["time"],
    "absl/types": ["any", "optional", "span", "variant"],
    "absl/utility": ["utility"],
}

_ABSL_LIBS = ["absl_" + lib for lib in [
    "failure_signal_handler",
    "examine_stack",
    "leak_check",
    "statusor",
    "status",
    "strerror",
    "cord",
    "cordz_info",
    "cordz_functions",
    "cordz_handle",
    "cordz_sample_token",
    "cord_internal",
    "raw_hash_set",
    "hashtablez_sampler",
    "exponential_biased",
    "hash",
    "city",
    "low_level_hash",
    "synchronization",
    "graphcycles_internal",
    "time",
    "time_zone",
    "civil_time",
    "str_format_internal",
    "symbolize",
    "stacktrace",
    "debugging_internal",
    "demangle_internal",
    "malloc_internal",
    "strings",
    "strings_internal",
    "int128",
    "bad_any_cast_impl",
    "bad_optional_access",
    "bad_variant_access",
    "throw_delegate",
    "base",
    "spinlock_wait",
    "raw_logging_internal",
    "log_severity",
]]

def _absl_packages():
    packages = {"": cc_library_text("libs", _ABSL_LIBS, visibility = ["//:__subpackages__"])}
    for package, names in _ABSL_TARGETS.items():
        packages[package] = "".join([forward_text(name, "//:libs") for name in names])
    return packages

_PROTOBUF_BUILD = cc_library_text("protobuf", ["protobuf"]) + \
                  cc_library_text("protobuf_lite", ["protobuf-lite"]) + """
sh_binary(
    name = "protoc",
    srcs = ["protoc_bin"],
    visibility = ["//visibility:public"],
)

WELL_KNOWN = ["any", "api", "duration", "empty", "field_mask", "source_context", "struct", "timestamp", "type", "wrappers", "descriptor"]

WELL_KNOWN_DEPS = {
    "api": [":source_context_proto", ":type_proto"],
    "type": [":any_proto", ":source_context_proto"],
}

[proto_library(
    name = name + "_proto",
    srcs = ["src/google/protobuf/%s.proto" % name],
    strip_import_prefix = "src",
    visibility = ["//visibility:public"],
    deps = WELL_KNOWN_DEPS.get(name, []),
) for name in WELL_KNOWN]

# The generated code of the well-known types is in libprotobuf: not generated again.
proto_lang_toolchain(
    name = "cc_toolchain",
    blacklisted_protos = [":%s_proto" % name for name in WELL_KNOWN],
    command_line = "--cpp_out=$(OUT)",
    runtime = ":protobuf",
    visibility = ["//visibility:public"],
)
"""

# Only through the aliases in //third_party, which say who may use them.
_RESTRICTED = ["@ding_worker//third_party:__pkg__"]

_LIBTORCH_BUILD = cc_library_text(
    "torch",
    ["torch", "torch_cpu", "c10", "gloo"],
    hdrs = 'glob(["include/**/*.h"])',
    includes = ["include"],
    visibility = _RESTRICTED,
)

_GRPC_BUILD = cc_library_text("grpc++", ["grpc++", "grpc", "gpr"], [
    "@com_google_protobuf//:protobuf",
    "@com_google_absl//absl/synchronization",
], visibility = _RESTRICTED) + """
sh_binary(
    name = "grpc_cpp_plugin",
    srcs = ["grpc_cpp_plugin_bin"],
    visibility = ["//visibility:public"],
)
"""

def _bazel_rules():
    maybe(
        system_repo,
        name = "rules_cc",
        files = {"cc/defs.bzl": _RULES_CC_DEFS},
        packages = {"cc": ""},
    )
    maybe(
        system_repo,
        name = "rules_java",
        files = {"java/defs.bzl": _RULES_JAVA_DEFS},
        packages = {"java": ""},
    )
    maybe(
        system_repo,
        name = "rules_proto",
        files = {"proto/defs.bzl": _RULES_PROTO_DEFS},
        packages = {"proto": ""},
    )
    maybe(
        system_repo,
        name = "remote_coverage_tools",
        files = {"none.sh": "#!/bin/sh\n"},
        packages = {"": _COVERAGE_TOOLS_BUILD},
    )

def ding_worker_dependencies():
    """Declares every outside repository that ding_worker may use and that is not declared yet."""
    _bazel_rules()
    maybe(system_repo, name = "com_google_absl", debian_packages = ["libabsl-dev"], packages = _absl_packages())
    maybe(
        system_repo,
        name = "com_google_protobuf",
        links = {
            "protoc_bin": "/usr/bin/protoc",
            "src": "/usr/include",
        },
        debian_packages = ["libprotobuf-dev", "protobuf-compiler"],
        packages = {"": _PROTOBUF_BUILD},
    )
    maybe(system_repo, name = "com_github_google_glog", debian_packages = ["libgoogle-glog-dev"], packages = {
        "": cc_library_text("glog", ["glog"], ["@com_github_gflags_gflags//:gflags"]),
    })
    maybe(system_repo, name = "com_github_gflags_gflags", debian_packages = ["libgflags-dev"], packages = {
        "": cc_library_text("gflags", ["gflags"]),
    })
    maybe(system_repo, name = "com_google_googletest", debian_packages = ["libgmock-dev"], packages = {
        "": cc_library_text("gtest", ["gmock", "gtest", "pthread"]) +
            cc_library_text("gtest_main", ["gmock_main"], [":gtest"]),
    })
    maybe(system_repo, name = "com_github_google_benchmark", debian_packages = ["libbenchmark-dev"], packages = {
        "": cc_library_text("benchmark", ["benchmark", "pthread"]) +
            cc_library_text("benchmark_main", ["benchmark_main"], [":benchmark"]),
    })
    maybe(system_repo, name = "openblas", debian_packages = ["libopenblas-dev"], packages = {
        "": cc_library_text("openblas", ["openblas"]),
    })
    maybe(system_repo, name = "nlohmann_json", debian_packages = ["nlohmann-json3-dev"], packages = {
        "": cc_library_text("json"),
    })
    maybe(system_repo, name = "giflib", debian_packages = ["libgif-dev"], packages = {
        "": cc_library_text("giflib", ["gif"]),
    })
    maybe(system_repo, name = "zlib", debian_packages = ["zlib1g-dev"], packages = {
        "": cc_library_text("zlib", ["z"]),
    })
    maybe(system_repo, name = "lz4", debian_packages = ["liblz4-dev"], packages = {
        "": cc_library_text("lz4", ["lz4"]),
    })
    maybe(system_repo, name = "zstd", debian_packages = ["libzstd-dev"], packages = {
        "": cc_library_text("zstd", ["zstd"]),
    })
    maybe(
        system_repo,
        name = "libtorch",
        links = {"include": "/usr/include/torch/csrc/api/include"},
        debian_packages = ["libgloo-dev", "libtorch-dev"],
        packages = {"": _LIBTORCH_BUILD},
    )
    maybe(
        system_repo,
        name = "com_github_grpc_grpc",
        links = {"grpc_cpp_plugin_bin": "/usr/bin/grpc_cpp_plugin"},
        debian_packages = ["libgrpc++-dev", "protobuf-compiler-grpc"],
        packages = {"": _GRPC_BUILD},
    )
    maybe(system_repo, name = "hiredis", debian_packages = ["libhiredis-dev"], packages = {
        "": cc_library_text("hiredis", ["hiredis"], visibility = _RESTRICTED),
    })
    maybe(system_repo, name = "openssl", debian_packages = ["libssl-dev"], packages = {
        "": cc_library_text("crypto", ["crypto"], visibility = _RESTRICTED),
    })
