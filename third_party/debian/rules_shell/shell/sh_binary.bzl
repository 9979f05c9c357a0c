"""sh_binary, as Bazel 7 has it built in."""

sh_binary = native.sh_binary
