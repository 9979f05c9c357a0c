"""The outside libraries of ding_worker, under their well-known names, from the packages of the operating system.

Call `ding_worker_dependencies()` in WORKSPACE. Every repository is declared with `maybe`: declare one before the call and
yours is used. With Bzlmod, MODULE.bazel does this instead (see extensions.bzl).
"""

load("@bazel_tools//tools/build_defs/repo:utils.bzl", "maybe")
load(":libraries.bzl", "LIBRARIES")
load(":system_repo.bzl", "LINK_ALL", "cc_library_text", "forward_text", "link_as_needed", "system_repo")

# Shims: the rules that BUILD files load, for a Bazel that has them built in, without a download.
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

# Not from @com_google_protobuf//bazel, as with Bzlmod: a protobuf of the consumer may be too old to have it.
_PROTO_RULES = """
cc_proto_library = native.cc_proto_library
proto_library = native.proto_library
"""

_COVERAGE_TOOLS_BUILD = """load("@rules_shell//shell:sh_binary.bzl", "sh_binary")

[sh_binary(
    name = name,
    srcs = ["none.sh"],
    visibility = ["//visibility:public"],
) for name in ["coverage_report_generator", "lcov_merger"]]
"""

_PROTOBUF_FILES = {
    "bazel/cc_proto_library.bzl": "cc_proto_library = native.cc_proto_library\n",
    "bazel/proto_library.bzl": "proto_library = native.proto_library\n",
    "bazel/toolchains/proto_lang_toolchain.bzl": "proto_lang_toolchain = native.proto_lang_toolchain\n",
}

_PROTOBUF_BUILD = """
load("@rules_shell//shell:sh_binary.bzl", "sh_binary")
load("//bazel:proto_library.bzl", "proto_library")
load("//bazel/toolchains:proto_lang_toolchain.bzl", "proto_lang_toolchain")

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

_GRPC_COMPILER_BUILD = """load("@rules_shell//shell:sh_binary.bzl", "sh_binary")

sh_binary(
    name = "grpc_cpp_plugin",
    srcs = ["grpc_cpp_plugin_bin"],
    visibility = ["//visibility:public"],
)
"""

# Bazel package -> programs in it, of libraries that are optional.
_EXTRA_TARGETS = {"src/compiler": ["grpc_cpp_plugin"]}

# What some libraries need besides their cc_library.
_EXTRAS = {
    "com_google_protobuf": {
        "files": _PROTOBUF_FILES,
        "links": {
            "protoc_bin": "/usr/bin/protoc",
            "src": "/usr/include",
        },
        "packages": {
            "bazel": "",
            "bazel/toolchains": "",
        },
        "root": _PROTOBUF_BUILD,
    },
    "com_github_grpc_grpc": {
        "links": {"src/compiler/grpc_cpp_plugin_bin": "/usr/bin/grpc_cpp_plugin"},
        "packages": {"src/compiler": _GRPC_COMPILER_BUILD},
    },
    "dygraphs": {
        "links": {name: "/usr/share/javascript/dygraphs/" + name for name in ["dygraph.min.css", "dygraph.min.js"]},
        "root": """filegroup(
    name = "dygraphs",
    srcs = ["dygraph.min.css", "dygraph.min.js"],
    visibility = ["//visibility:public"],
)
""",
    },
    "libtorch": {
        "links": {"include": "/usr/include/torch/csrc/api/include"},
    },
    "pybind11": {
        "links": {"include": "/usr/include/python3.*"},
    },
}

def _targets_text(library, visibility):
    return "".join([
        cc_library_text(
            name,
            linkopts = link_as_needed(target.get("libs", [])),
            deps = target.get("deps", []),
            hdrs = "glob([\"%s\"])" % target["hdrs"] if "hdrs" in target else "[]",
            includes = target.get("includes", []),
            defines = target.get("defines", []),
            visibility = visibility,
        )
        for name, target in library["targets"].items()
    ])

def _packages(library, visibility):
    """Bazel package -> text of its BUILD file."""
    if "targets" in library:
        return {"": _targets_text(library, visibility)}
    packages = {"": cc_library_text("libs", visibility = ["//:__subpackages__"]).replace("linkopts = []", "linkopts = " + LINK_ALL)}
    for package, names in library["packages"].items():
        packages[package] = "".join([forward_text(name, "//:libs") for name in names])
    return packages

def library_labels(name):
    """Bazel package -> names of the targets that a library has, of which BUILD files may depend."""
    labels = {"": LIBRARIES[name]["targets"].keys()}
    for package in _EXTRAS.get(name, {}).get("packages", {}):
        labels[package] = _EXTRA_TARGETS[package]
    return labels

def system_library(declare, name, restricted):
    """Declares the repository `name` of LIBRARIES, from the packages of the operating system.

    Args:
      declare: function that takes the arguments of system_repo.
      name: a key of LIBRARIES.
      restricted: whether a library that is marked so can be used by the aliases of //third_party alone.
    """
    library = LIBRARIES[name]
    extras = _EXTRAS.get(name, {})
    visibility = ["@ding_worker//third_party:__pkg__"] if restricted and library.get("restricted") else ["//visibility:public"]
    packages = _packages(library, visibility)
    packages[""] += extras.get("root", "")
    packages.update(extras.get("packages", {}))
    declare(
        name = name,
        debian_packages = library["debian"],
        fedora_packages = library["fedora"],
        files = extras.get("files", {}),
        header = library["header"],
        link_all = library.get("link_all", ""),
        links = extras.get("links", {}),
        packages = packages,
    )

def _bazel_rules():
    maybe(
        system_repo,
        name = "rules_cc",
        files = {"cc/defs.bzl": _RULES_CC_DEFS},
        packages = {"cc": ""},
    )
    maybe(
        system_repo,
        name = "rules_shell",
        files = {
            "shell/sh_binary.bzl": "sh_binary = native.sh_binary\n",
            "shell/sh_test.bzl": "sh_test = native.sh_test\n",
        },
        packages = {"shell": ""},
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
        name = "ding_worker_proto_rules",
        files = {"defs.bzl": _PROTO_RULES},
        packages = {"": ""},
    )
    maybe(
        system_repo,
        name = "remote_coverage_tools",
        files = {"none.sh": "#!/bin/sh\n"},
        packages = {"": _COVERAGE_TOOLS_BUILD},
    )

def _check_bazel():
    """Refuses a Bazel that is too old for our rules, or too new for WORKSPACE. One that says no version was built by hand."""
    numbers = (native.bazel_version or "").split("-")[0].split("+")[0].split(".")
    if len(numbers) < 2 or not (numbers[0].isdigit() and numbers[1].isdigit()):
        return
    major = int(numbers[0])
    if major < 4 or (major == 4 and int(numbers[1]) < 2):
        fail("ding_worker needs Bazel 4.2 or newer; this is Bazel %s. " % native.bazel_version +
             "Debian 12 has it in the package bazel-bootstrap; others: https://bazel.build/install")
    if major >= 8:
        # It has no built-in rules for protobuf, which the shims above hand on. Bazel 9 does not read WORKSPACE at all.
        fail(("ding_worker is used from WORKSPACE with Bazel 4 to 7; this is Bazel %s. Write into MODULE.bazel instead:\n" +
              "  bazel_dep(name = \"ding_worker\", version = \"...\")\n" +
              "and where it is, as docs/how_to/use_in_your_repo.md of ding_worker shows") % native.bazel_version)

def _maybe_system_repo(**kwargs):
    maybe(system_repo, **kwargs)

def ding_worker_dependencies():
    """Declares every outside repository that ding_worker may use and that is not declared yet."""
    _check_bazel()
    _bazel_rules()
    for name in LIBRARIES:
        system_library(_maybe_system_repo, name, restricted = True)
