"""A repository whose BUILD files stand in for a library that the operating system already has."""

# A header that every library of a repository lists: Bazel does not watch /usr/include, so this is what makes it compile
# again after an upgrade of the Debian package.
VERSION_HEADER = "package_version.h"

def _package_versions(ctx):
    """Name and version of each Debian package; fails with the command to install it. Nothing on other systems."""
    dpkg_query = ctx.which("dpkg-query")
    if not dpkg_query:
        return ["not a Debian system"]
    versions = []
    for package in ctx.attr.debian_packages:
        result = ctx.execute([dpkg_query, "--show", "--showformat=${db:Status-Status} ${Version}", package])
        if result.return_code != 0 or not result.stdout.startswith("installed "):
            fail("@%s needs the Debian package %s, which is not installed. Run: apt-get install %s" %
                 (ctx.name, package, package))
        versions.append(package + " " + result.stdout[len("installed "):].strip())
    return versions

def _system_repo_impl(ctx):
    ctx.file("WORKSPACE", "workspace(name = \"%s\")\n" % ctx.name)
    if ctx.attr.debian_packages:
        ctx.file(VERSION_HEADER, "".join(["// %s\n" % version for version in _package_versions(ctx)]))
    for package, content in ctx.attr.packages.items():
        ctx.file((package + "/" if package else "") + "BUILD.bazel", content)
    for path, content in ctx.attr.files.items():
        ctx.file(path, content)
    for link, target in ctx.attr.links.items():
        ctx.symlink(target, link)

# debian_packages: the Debian packages that hold the library
# packages:        Bazel package -> text of its BUILD file
# files:           path -> text
# links:           path -> where the link points
# The files are written at load time, so a workspace that depends on ours gets the same ones.
system_repo = repository_rule(
    implementation = _system_repo_impl,
    local = True,
    attrs = {
        "debian_packages": attr.string_list(),
        "files": attr.string_dict(),
        "links": attr.string_dict(),
        "packages": attr.string_dict(),
    },
)

def link_as_needed(libs):
    """Linker flags for `libs`; one that a binary does not use is not recorded in it."""
    if not libs:
        return []
    return ["-Wl,--push-state,--as-needed"] + ["-l" + lib for lib in libs] + ["-Wl,--pop-state"]

def cc_library_text(name, libs = [], deps = [], hdrs = "[]", includes = [], visibility = ["//visibility:public"]):
    """The text of a cc_library in the root package of a system_repo with `debian_packages`."""
    return """cc_library(
    name = "%s",
    hdrs = ["%s"] + %s,
    includes = %s,
    linkopts = %s,
    visibility = %s,
    deps = %s,
)
""" % (name, VERSION_HEADER, hdrs, includes, link_as_needed(libs), visibility, deps)

def forward_text(name, dep):
    """The text of a cc_library that is another one under a new name."""
    return """cc_library(
    name = "%s",
    visibility = ["//visibility:public"],
    deps = ["%s"],
)
""" % (name, dep)
