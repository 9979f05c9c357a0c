"""The libraries of the operating system for Bzlmod: an extension whose repositories are looked up only where a target needs them.

    system = use_extension("@ding_worker//third_party:extensions.bzl", "system")
    use_repo(system, "openblas")

MODULE.bazel takes from it what the registry does not have. The stub modules of third_party/debian take the rest from it, for
whoever builds with the packages of the distribution only.

A library that is `optional` in libraries.bzl comes from a module if somebody in the module graph says which:

    bazel_dep(name = "grpc", version = "1.76.0")
    system = use_extension("@ding_worker//third_party:extensions.bzl", "system")
    system.module(library = "com_github_grpc_grpc", repository = "@grpc")
"""

load(":deps.bzl", "library_labels", "system_library")
load(":libraries.bzl", "LIBRARIES")
load(":system_repo.bzl", "system_repo")

_PROTO_RULES = """
load("{cc_proto_library}", _cc_proto_library = "cc_proto_library")
load("{proto_library}", _proto_library = "proto_library")

cc_proto_library = _cc_proto_library
proto_library = _proto_library
"""

_REFUSAL = """ding_worker needs the module {module}, which is not among the modules of this build. Write into MODULE.bazel:
  bazel_dep(name = "{module}", version = "{version}")
  ding_system = use_extension("@ding_worker//third_party:extensions.bzl", "system")
  ding_system.module(library = "{name}", repository = "@{module}")"""

def _optional_library(name, library, repository):
    """Declares the repository `name`: that of a module, whose canonical name is `repository`, or one that says what is missing."""
    if not repository:
        system_repo(
            name = name,
            refusal = _REFUSAL.format(module = library["module"], name = name, version = library["version"]),
        )
        return
    packages = {}
    for package, names in library_labels(name).items():
        packages[package] = "".join([
            "alias(name = \"{name}\", actual = \"{repository}//{package}:{name}\", visibility = [\"//visibility:public\"])\n".format(
                name = target,
                package = package,
                repository = repository,
            )
            for target in names
        ])
    system_repo(name = name, packages = packages)

def _system_impl(ctx):
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
    distribution = False
    repositories = {}
    for module in ctx.modules:
        distribution = distribution or len(module.tags.distribution) > 0
        for tag in module.tags.module:
            # The root comes first.
            repositories.setdefault(tag.library, str(tag.repository).split("//")[0])
    for name, library in LIBRARIES.items():
        if library.get("optional") and not distribution:
            _optional_library(name, library, repositories.get(name))
        else:
            # What is a module elsewhere is public there, too.
            system_library(system_repo, name, restricted = "module" not in library)

system = module_extension(
    implementation = _system_impl,
    tag_classes = {
        "distribution": tag_class(doc = "All libraries are packages of the distribution. The stubs of third_party/debian say so."),
        "module": tag_class(
            doc = "An optional library comes from a module.",
            attrs = {
                "library": attr.string(doc = "a key of LIBRARIES", mandatory = True, values = [
                    name
                    for name, library in LIBRARIES.items()
                    if library.get("optional")
                ]),
                "repository": attr.label(doc = "the repository of the module, as @grpc", mandatory = True),
            },
        ),
    },
)
