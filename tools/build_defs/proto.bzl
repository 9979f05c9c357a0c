"""The protobuf rules of this repository. BUILD files load these, never the rules of protobuf or Bazel.

A file is imported as "ding_worker/<package>/<file>.proto" and its header is "ding_worker/<package>/<file>.pb.h".
"""

load("@rules_cc//cc:defs.bzl", "cc_proto_library")
load("@rules_proto//proto:defs.bzl", "proto_library")

def ding_proto_library(name, **kwargs):
    """A proto_library whose files are imported as "ding_worker/<package>/<file>.proto"."""
    proto_library(
        name = name,
        import_prefix = "ding_worker",
        strip_import_prefix = "/",
        **kwargs
    )

def ding_cc_proto_library(name, deps, **kwargs):
    """The C++ code of one ding_proto_library (`deps` has one element, as in cc_proto_library)."""
    cc_proto_library(
        name = name,
        deps = deps,
        **kwargs
    )
