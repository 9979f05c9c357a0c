"""What `bazel run //:install` copies: headers and static libraries of modules, for other builds than Bazel."""

def _destination(header):
    """Where a header goes below include/, or None if it is not included as "ding_worker/..."."""
    for folder in ["/_virtual_includes/", "/_virtual_imports/"]:
        if folder in header.path:
            path = header.path.split(folder)[1].split("/", 1)[1]
            if path.startswith("ding_worker/"):
                return path
    return None

def _is_outside(label):
    return label.workspace_name not in ["", "ding_worker"]

def _modules_impl(ctx):
    files = []
    lines = {}
    for target, name in ctx.attr.modules.items():
        libraries = []
        flags = []
        for header in target[CcInfo].compilation_context.headers.to_list():
            destination = _destination(header)
            if destination:
                files.append(header)
                lines["header\t%s\t%s" % (header.short_path, destination)] = True
        for linked in target[CcInfo].linking_context.linker_inputs.to_list():
            for library in linked.libraries:
                archive = library.pic_static_library or library.static_library
                if not archive:
                    continue
                if _is_outside(linked.owner):
                    fail("%s is linked statically into %s; install with the libraries of the distribution" % (linked.owner, target.label))
                files.append(archive)
                stem = (linked.owner.package + "/" + linked.owner.name).replace("/", "_")
                lines["library\t%s\tlib%s.a" % (archive.short_path, stem)] = True
                libraries.append(stem + ("!" if library.alwayslink else ""))
            flags += linked.user_link_flags
        lines["module\t%s\t%s\t%s" % (name, " ".join(libraries), " ".join(flags))] = True
    manifest = ctx.actions.declare_file(ctx.label.name + ".txt")
    ctx.actions.write(manifest, "".join([line + "\n" for line in lines]))
    return [DefaultInfo(files = depset([manifest]), runfiles = ctx.runfiles(files = [manifest] + files))]

# A list of what to copy, a line each; the files themselves are runfiles.
#   header   PATH DESTINATION            below include/
#   library  PATH DESTINATION            below lib/ding_worker/
#   module   NAME LIBRARIES FLAGS        in the order for the linker; "!" marks a library that registers something
installed_modules = rule(
    implementation = _modules_impl,
    attrs = {
        "modules": attr.label_keyed_string_dict(
            doc = "target -> its name in pkg-config and CMake",
            mandatory = True,
            providers = [CcInfo],
        ),
    },
)
