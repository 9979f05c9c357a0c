"""sh_test, as Bazel 7 has it built in."""

sh_test = native.sh_test
