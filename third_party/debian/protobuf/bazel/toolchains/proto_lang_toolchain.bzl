"""proto_lang_toolchain, as Bazel 7 has it built in."""

proto_lang_toolchain = native.proto_lang_toolchain
