"""A repository whose BUILD files stand in for a library that the operating system already has."""

def _system_repo_impl(ctx):
    ctx.file("WORKSPACE", "workspace(name = \"%s\")\n" % ctx.name)
    for package, content in ctx.attr.packages.items():
        ctx.file((package + "/" if package else "") + "BUILD.bazel", content)
    for path, content in ctx.attr.files.items():
        ctx.file(path, content)
    for link, target in ctx.attr.links.items():
        ctx.symlink(target, link)

# `packages`: package -> text of its BUILD file. `files`: path -> text. `links`: path -> where the link points.
# The files are written at load time, so a workspace that depends on ours gets the same ones.
system_repo = repository_rule(
    implementation = _system_repo_impl,
    local = True,
    attrs = {
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

def cc_library_text(name, libs = [], deps = [], extra = "", visibility = ["//visibility:public"]):
    """The text of a cc_library for installed headers and libraries."""
    return """cc_library(
    name = "%s",
    linkopts = %s,
    visibility = %s,
    deps = %s,
%s)
""" % (name, link_as_needed(libs), visibility, deps, extra)
