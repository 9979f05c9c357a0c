"""Tests that a target, or a program as linked, does not carry what it should not."""

def no_path_test(name, from_target, to, size = "small", **kwargs):
    """Fails, and shows the path, if `from_target` depends on anything of `to`, at any distance.

    Args:
      name: name of the test.
      from_target: label of the target to look at, of the same workspace.
      to: starts of labels that must not be reached: "@libtorch//" (all of a repository), "//learner" (a package and
        those below it), "//learner:hooks" (one target).
      size: as in every test.
      **kwargs: as in sh_test.
    """
    if from_target.startswith(":"):
        from_target = "//" + native.package_name() + from_target
    from_target = _absolute(from_target)
    pattern = "|".join(["^" + _start_regex(_absolute(start)) for start in to])
    native.genquery(
        name = name + "_path",
        testonly = True,
        expression = "somepath({0}, filter('{1}', deps({0})))".format(from_target, pattern),
        opts = ["--noimplicit_deps"],
        scope = [from_target],
    )
    native.sh_test(
        name = name,
        size = size,
        srcs = [Label("//tools/build_defs:no_path_test.sh")],
        args = [
            "$(location :%s_path)" % name,
            from_target,
        ] + ["'%s'" % start for start in to],
        data = [":%s_path" % name],
        **kwargs
    )

def _absolute(label):
    """A query resolves "//" in the main workspace; the test may be in another one."""
    repository = native.repository_name()
    return repository + label if label.startswith("//") and repository != "@" else label

def _start_regex(start):
    if ":" in start or start.endswith("//"):
        return start + ("$" if ":" in start else "")
    return start + "[:/]"

def linked_libraries_test(name, binary, forbidden, size = "small", **kwargs):
    """Fails if the program `binary` loads one of the libraries at its start, directly or through others.

    Args:
      name: name of the test.
      binary: label of a cc_binary.
      forbidden: starts of file names of shared libraries: ["libtorch", "libprotobuf"].
      size: as in every test.
      **kwargs: as in sh_test.
    """
    native.sh_test(
        name = name,
        size = size,
        srcs = [Label("//tools/build_defs:linked_libraries_test.sh")],
        args = ["$(location %s)" % binary] + ["'%s'" % start for start in forbidden],
        data = [binary],
        **kwargs
    )
