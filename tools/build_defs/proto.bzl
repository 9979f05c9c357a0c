"""The protobuf rules of this repository. BUILD files load these, never the rules of protobuf or Bazel.

A file is imported as "ding_worker/<package>/<file>.proto" and its header is "ding_worker/<package>/<file>.pb.h".
"""

load("@ding_worker_proto_rules//:defs.bzl", "cc_proto_library", "proto_library")
load(":cc.bzl", "ding_cc_library")

def ding_proto_library(name, testonly = False, visibility = None, **kwargs):
    """A proto_library and its C++ code, for a NAME that ends in "_proto".

    Its files are imported as "ding_worker/<package>/<file>.proto". `<NAME without _proto>_cc_proto` is the C++ code, `<NAME>_files` are
    the files.
    """
    proto_library(
        name = name,
        testonly = testonly,
        import_prefix = "ding_worker",
        strip_import_prefix = "/",
        visibility = visibility,
        **kwargs
    )
    cc_proto_library(
        name = name[:-len("proto")] + "cc_proto",
        testonly = testonly,
        visibility = visibility,
        deps = [":" + name],
    )
    native.filegroup(
        name = name + "_files",
        srcs = kwargs["srcs"],
        visibility = [str(Label("//worker/config:__pkg__"))],
    )

def ding_grpc_library(name, src, deps, **kwargs):
    """The C++ stubs and services of one .proto file: "ding_worker/<package>/<file>.grpc.pb.h".

    Args:
      name: as in cc_library.
      src: the file; it imports nothing.
      deps: the C++ code of the file (ding_proto_library).
      **kwargs: as in cc_library.
    """
    protoc = str(Label("@com_google_protobuf//:protoc"))
    plugin = str(Label("@com_github_grpc_grpc//src/compiler:grpc_cpp_plugin"))
    stem = src[:-len(".proto")]
    folder = "ding_worker/" + native.package_name()
    outs = [stem + ".grpc.pb.h", stem + ".grpc.pb.cc"]
    native.genrule(
        name = name + "_sources",
        srcs = [src],
        outs = outs,
        # protoc writes the path of the file, seen from the folder of -I, into what it generates.
        cmd = " && ".join([
            "root=$(RULEDIR)/%s.root" % name,
            "mkdir -p $$root/" + folder,
            "cp $(location %s) $$root/%s/%s" % (src, folder, src),
            "$(execpath %s) -I$$root --grpc_out=$$root --plugin=protoc-gen-grpc=$(execpath %s) %s/%s" %
            (protoc, plugin, folder, src),
        ] + ["mv $$root/%s/%s $(RULEDIR)/%s" % (folder, out, out) for out in outs] + [
            "rm -r $$root",
        ]),
        tools = [
            plugin,
            protoc,
        ],
        visibility = ["//visibility:private"],
    )
    ding_cc_library(
        name = name,
        srcs = [stem + ".grpc.pb.cc"],
        hdrs = [stem + ".grpc.pb.h"],
        deps = deps + [Label("//third_party:grpc++")],
        **kwargs
    )
