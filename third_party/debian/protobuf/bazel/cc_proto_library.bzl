"""cc_proto_library, as Bazel 7 has it built in."""

cc_proto_library = native.cc_proto_library
