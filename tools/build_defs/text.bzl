"""Makes texts, such as the comments of .proto files, known to the programs that link a target."""

load(":cc.bzl", "ding_cc_library")

def ding_registered_texts(name, srcs, function, header, deps, **kwargs):
    """A cc_library with the contents of files. Before main() it calls a function with each of them.

    The comments of a .proto file of your own, for --help_config of your program:

        ding_registered_texts(
            name = "my_comments",
            srcs = ["my_params.proto"],
            function = "ding::AddProtoFile",
            header = "ding_worker/worker/config/proto_comments.h",
            deps = ["@ding_worker//worker/config:proto_comments"],
        )

    Args:
      name: as in cc_library.
      srcs: files of text.
      function: the C++ function, which takes an absl::string_view that lives as long as the program.
      header: the header that declares it, as it is included.
      deps: the target of the header.
      **kwargs: as in cc_library.
    """
    script = str(Label("//tools/build_defs:registered_texts.sh"))
    if script.startswith("//"):
        script = "@" + script  # Bazel 4 writes no name of the main workspace, but another one may call this.
    native.genrule(
        name = name + "_source",
        srcs = srcs,
        outs = [name + ".cc"],
        cmd = "bash $(location %s) %s %s $(SRCS) > $@" % (script, function, header),
        tools = [script],
        visibility = ["//visibility:private"],
    )
    ding_cc_library(
        name = name,
        srcs = [name + ".cc"],
        deps = deps,
        alwayslink = True,
        **kwargs
    )
