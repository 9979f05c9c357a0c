"""Tests that a target, or a program as linked, does not carry what it should not."""

load("@rules_shell//shell:sh_test.bzl", "sh_test")
load("//third_party:libraries.bzl", "LIBRARIES", "RULES")

def no_path_test(name, from_target, to, repositories = [], size = "small", **kwargs):
    """Fails, and shows the path, if `from_target` depends on anything of `to`, at any distance.

    A repository that does not exist cannot be reached either, so that a wrong name would pass for ever: a name that is not
    known stops the loading of the package.

    Args:
      name: name of the test.
      from_target: label of the target to look at, of the same workspace, or a list of them.
      to: starts of labels that must not be reached: "@libtorch//" (all of a repository), "//learner" (a package and
        those below it), "//learner:hooks" (one target).
      repositories: names of repositories of your own WORKSPACE that `to` may contain, besides those of ding_worker. Bzlmod
        knows them without this.
      size: as in every test.
      **kwargs: as in sh_test.
    """
    from_targets = [
        "//" + native.package_name() + target if target.startswith(":") else target
        for target in (from_target if type(from_target) == type([]) else [from_target])
    ]
    start = "set(%s)" % " ".join(["\"%s\"" % _query_label(target, repositories) for target in from_targets])
    pattern = "|".join(["^" + _start_regex(start, repositories) for start in to])
    native.genquery(
        name = name + "_path",
        testonly = True,
        expression = "somepath({0}, filter('{1}', deps({0})))".format(start, pattern),
        opts = ["--noimplicit_deps"],
        scope = from_targets,
    )
    sh_test(
        name = name,
        size = size,
        srcs = [Label("//tools/build_defs:no_path_test.sh")],
        args = [
            "$(location :%s_path)" % name,
            "'%s'" % " ".join(from_targets),
        ] + ["'%s'" % start for start in to],
        data = [":%s_path" % name],
        **kwargs
    )

def _query_label(label, repositories):
    """The label as a query prints it: with the canonical name of its repository, which is another one with Bzlmod."""
    if hasattr(native, "package_relative_label"):
        canonical = str(native.package_relative_label(label))
        if "[unknown repo" in canonical:
            # A repository of ding_worker that the consumer has not named.
            canonical = str(Label(label))
        if "[unknown repo" in canonical:
            _refuse(label)
        start = canonical.split("//")[0]
        if start in ["@", "@@"]:
            return canonical[len(start):]
        if "~" in start or "+" in start:
            return canonical
    else:
        repository = native.repository_name()
        canonical = repository + label if label.startswith("//") and repository != "@" else label

    # With WORKSPACE any name goes, and only a list says which exist.
    name = canonical.split("//")[0].lstrip("@")
    if name and not (name in LIBRARIES or name in RULES or name in _OTHER_REPOSITORIES or name in repositories):
        _refuse(label)
    return "@" + name + "//" + canonical.split("//", 1)[1] if name else canonical

_OTHER_REPOSITORIES = ["bazel_tools", "ding_worker"]

def _refuse(label):
    fail(("no_path_test: there is no repository '%s' (of '%s'). Correct the name; with WORKSPACE, name a repository of your " +
          "own in `repositories`") % (label.split("//")[0], label))

def _start_regex(start, repositories):
    """A regular expression for the labels that begin with `start`, as a query prints them."""
    whole = start if ":" in start else start + ":x"
    label = _query_label(whole, repositories)
    if whole != start:
        label = label[:-len(":x")]
    regex = label.replace(".", "[.]").replace("+", "[+]")

    # A query may print one "@" or two.
    if regex.startswith("@"):
        regex = "@@?" + regex.lstrip("@")
    return regex + ("" if start.endswith("//") else "$" if ":" in start else "[:/]")

def linked_libraries_test(name, binary, forbidden, size = "small", **kwargs):
    """Fails if the program `binary` loads one of the libraries at its start, directly or through others.

    Args:
      name: name of the test.
      binary: label of a cc_binary.
      forbidden: starts of file names of shared libraries: ["libtorch", "libprotobuf"].
      size: as in every test.
      **kwargs: as in sh_test.
    """
    sh_test(
        name = name,
        size = size,
        srcs = [Label("//tools/build_defs:linked_libraries_test.sh")],
        args = ["$(location %s)" % binary] + ["'%s'" % start for start in forbidden],
        data = [binary],
        **kwargs
    )
