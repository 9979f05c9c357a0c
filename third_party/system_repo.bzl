"""A repository whose BUILD files stand in for a library that the operating system already has."""

# A header that every library of a repository lists: Bazel does not watch /usr/include, so this is what makes it compile
# again after an upgrade of the package.
VERSION_HEADER = "package_version.h"

# In the text of a BUILD file: the linker flags for all libraries that match the repository's `link_all`.
LINK_ALL = "LINK_ALL"

_LOAD_CC = "load(\"@rules_cc//cc:defs.bzl\", \"cc_library\")\n\n"

# Folders in which a distribution may have the headers and the libraries.
_INCLUDE_FOLDERS = "/usr/include /usr/include/*-linux-gnu /usr/local/include /usr/include/openblas"
_LIBRARY_FOLDERS = "/usr/lib/*-linux-gnu /usr/lib64 /usr/lib /usr/local/lib"

def _refuse(ctx, package):
    # With Bzlmod the name of a repository is that of its module and extension, too.
    name = ctx.name.replace("~", "+").split("+")[-1]
    fail("\n".join([
        "@%s needs the package %s, which is not installed. Install it, then run Bazel again:" % (name, package),
        "  Debian, Ubuntu: apt-get install " + " ".join(ctx.attr.debian_packages),
        "  Fedora:         dnf install " + " ".join(ctx.attr.fedora_packages),
        "or declare a repository '%s' of your own (docs/how_to/use_in_your_repo.md of ding_worker)." % name,
    ]))

def _package_versions(ctx):
    """Name and version of each package; fails with the command to install it if one is missing."""
    dpkg_query = ctx.which("dpkg-query")
    if not dpkg_query:
        script = "for d in %s; do [ -e \"$d/$1\" ] && cksum \"$d/$1\" && exit; done; exit 1" % _INCLUDE_FOLDERS
        found = ctx.execute(["sh", "-c", script, "sh", ctx.attr.header])
        if found.return_code != 0:
            _refuse(ctx, " or ".join(ctx.attr.fedora_packages + ctx.attr.debian_packages))
        return [found.stdout.strip()]
    versions = []
    for package in ctx.attr.debian_packages:
        result = ctx.execute([dpkg_query, "--show", "--showformat=${db:Status-Status} ${Version}", package])
        if result.return_code != 0 or not result.stdout.startswith("installed "):
            _refuse(ctx, package)
        versions.append(package + " " + result.stdout[len("installed "):].strip())
    return versions

def _installed_libraries(ctx, pattern):
    """Names for the linker of the installed libraries whose files match the pattern, each once."""
    script = "for d in %s; do for f in $d/$1; do [ -e \"$f\" ] && basename \"$f\" .so; done; done; true" % _LIBRARY_FOLDERS
    found = ctx.execute(["sh", "-c", script, "sh", pattern])
    return {lib[len("lib"):]: True for lib in found.stdout.split("\n") if lib}.keys()

def _system_repo_impl(ctx):
    if ctx.attr.refusal:
        fail(ctx.attr.refusal)
    ctx.file("WORKSPACE", "workspace(name = \"%s\")\n" % ctx.name)
    if ctx.attr.debian_packages:
        ctx.file(VERSION_HEADER, "".join(["// %s\n" % version for version in _package_versions(ctx)]))
    link_all = ""
    if ctx.attr.link_all:
        libraries = _installed_libraries(ctx, ctx.attr.link_all)
        if not libraries:
            _refuse(ctx, ctx.attr.link_all)
        link_all = str(link_as_needed(libraries))
    for package, content in ctx.attr.packages.items():
        if "cc_library(" in content:
            content = _LOAD_CC + content.replace(LINK_ALL, link_all)
        ctx.file((package + "/" if package else "") + "BUILD.bazel", content)
    for path, content in ctx.attr.files.items():
        ctx.file(path, content)
    for link, target in ctx.attr.links.items():
        if "*" in target:
            # The newest version, as `python3` is where a distribution has several.
            target = ctx.execute(["sh", "-c", "ls -dv %s | tail -n 1" % target]).stdout.strip()
        ctx.symlink(target, link)

# debian_packages: the packages of Debian and Ubuntu that hold the library
# fedora_packages: those of Fedora
# header:          a header that shows on a system without dpkg that the library is installed
# link_all:        a pattern of shared libraries, for LINK_ALL
# packages:        Bazel package -> text of its BUILD file
# files:           path -> text
# links:           path -> where the link points; may be a pattern
# refusal:         instead of all that: what to say to whoever needs this repository
# The files are written at load time, so a workspace that depends on ours gets the same ones.
system_repo = repository_rule(
    implementation = _system_repo_impl,
    local = True,
    attrs = {
        "debian_packages": attr.string_list(),
        "fedora_packages": attr.string_list(),
        "files": attr.string_dict(),
        "header": attr.string(),
        "link_all": attr.string(),
        "links": attr.string_dict(),
        "packages": attr.string_dict(),
        "refusal": attr.string(),
    },
)

def link_as_needed(libs):
    """Linker flags for `libs`; one that a binary does not use is not recorded in it."""
    if not libs:
        return []
    return ["-Wl,--push-state,--as-needed"] + ["-l" + lib for lib in libs] + ["-Wl,--pop-state"]

def cc_library_text(
        name,
        linkopts = [],
        deps = [],
        hdrs = "[]",
        includes = [],
        defines = [],
        visibility = ["//visibility:public"]):
    """The text of a cc_library in the root package of a system_repo with `debian_packages`."""
    return """cc_library(
    name = "%s",
    hdrs = ["%s"] + %s,
    defines = %s,
    includes = %s,
    linkopts = %s,
    visibility = %s,
    deps = %s,
)
""" % (name, VERSION_HEADER, hdrs, defines, includes, linkopts, visibility, deps)

def forward_text(name, dep):
    """The text of a cc_library that is another one under a new name."""
    return """cc_library(
    name = "%s",
    visibility = ["//visibility:public"],
    deps = ["%s"],
)
""" % (name, dep)
