"""proto_library, as Bazel 7 has it built in."""

proto_library = native.proto_library
