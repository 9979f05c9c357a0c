"""The libraries of the operating system for Bzlmod: an extension whose repositories are looked up only where a target needs them.

    system = use_extension("@ding_worker//third_party:extensions.bzl", "system")
    use_repo(system, "openblas")

MODULE.bazel takes from it what the registry does not have. The stub modules of third_party/debian take the rest from it, for
whoever builds with the packages of the distribution only.
"""

load(":deps.bzl", "system_library")
load(":libraries.bzl", "LIBRARIES")
load(":system_repo.bzl", "system_repo")

_PROTO_RULES = """
load("{cc_proto_library}", _cc_proto_library = "cc_proto_library")
load("{proto_library}", _proto_library = "proto_library")

cc_proto_library = _cc_proto_library
proto_library = _proto_library
"""

def _system_impl(_ctx):
    # Labels, which name the module protobuf: in a repository of this extension "@com_google_protobuf" is the one beside it, with the
    # packages of the distribution.
    proto_rules = _PROTO_RULES.format(
        cc_proto_library = str(Label("@com_google_protobuf//bazel:cc_proto_library.bzl")),
        proto_library = str(Label("@com_google_protobuf//bazel:proto_library.bzl")),
    )
    system_repo(
        name = "ding_worker_proto_rules",
        files = {"defs.bzl": proto_rules},
        packages = {"": ""},
    )
    for name, library in LIBRARIES.items():
        # What is a module elsewhere is public there, too.
        system_library(system_repo, name, restricted = "module" not in library)

system = module_extension(implementation = _system_impl)
