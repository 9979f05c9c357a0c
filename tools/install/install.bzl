"""What `bazel run //:install` copies or packs: headers and static libraries of modules, for other builds than Bazel."""

load("//third_party:libraries.bzl", "LIBRARIES")

def _destination(header):
    """Where a header goes below include/, or None if it is not included as "ding_worker/..."."""
    for folder in ["/_virtual_includes/", "/_virtual_imports/"]:
        if folder in header.path:
            path = header.path.split(folder)[1].split("/", 1)[1]
            if path.startswith("ding_worker/"):
                return path
    return None

# Ours, which is the main repository or one with a name that the consumer's Bazel gave it.
_OWN_REPOSITORY = Label("//tools/install").workspace_name

def _outside(label):
    """The name in LIBRARIES of the repository of a label, or None for one of our own."""
    if label.workspace_name in ["", _OWN_REPOSITORY]:
        return None

    # With Bzlmod the name of a repository is that of its module and extension, too.
    return label.workspace_name.replace("~", "+").split("+")[-1]

def _development_package(name):
    """The Debian package with the headers and libraries of an outside library."""
    for package in LIBRARIES[name]["debian"] if name in LIBRARIES else []:
        if package.endswith("-dev"):
            return package
    fail("third_party/libraries.bzl names no -dev package for '%s'" % name)

def _modules_impl(ctx):
    headers = {}
    libraries = {}
    modules = {}
    files = []
    for target, name in ctx.attr.modules.items():
        module = {"flags": [], "headers": [], "libraries": [], "outside": [], "target": str(target.label)}
        for header in target[CcInfo].compilation_context.headers.to_list():
            destination = _destination(header)
            if destination:
                files.append(header)
                headers[destination] = header.short_path
                module["headers"].append(destination)
        for linked in target[CcInfo].linking_context.linker_inputs.to_list():
            outside = _outside(linked.owner)
            if outside and linked.user_link_flags:
                module["outside"].append(_development_package(outside))
            module["flags"] += linked.user_link_flags
            for library in linked.libraries:
                pic, plain = library.pic_static_library, library.static_library
                archive = pic or plain if ctx.attr.pic else plain or pic
                if not archive:
                    continue
                if outside:
                    fail("%s is linked statically into %s; install with the libraries of the distribution" % (linked.owner, target.label))
                files.append(archive)
                stem = (linked.owner.package + "/" + linked.owner.name).replace("/", "_")
                libraries[stem] = {
                    "group": linked.owner.package.split("/")[0],
                    # A library that registers something is needed even if no name of it is.
                    "keep": library.alwayslink,
                    "path": archive.short_path,
                }
                module["libraries"].append(stem)
        module["group"] = target.label.package.split("/")[0]
        modules[name] = module
    manifest = ctx.actions.declare_file(ctx.label.name + ".json")
    ctx.actions.write(manifest, json.encode({"headers": headers, "libraries": libraries, "modules": modules}))
    return [DefaultInfo(files = depset([manifest]), runfiles = ctx.runfiles(files = [manifest] + files))]

# A list of what there is, in JSON; the files themselves are runfiles.
#   headers    place below include/ -> file
#   libraries  name -> {"path": file, "group": top folder, "keep": whether all of it must be linked}
#   modules    name -> {"target", "group": top folder, "headers", "libraries" in the order for the linker, "flags" of outside
#              libraries, "outside": Debian packages with their headers and libraries}
installed_modules = rule(
    implementation = _modules_impl,
    attrs = {
        "modules": attr.label_keyed_string_dict(
            doc = "target -> its name in pkg-config and CMake",
            mandatory = True,
            providers = [CcInfo],
        ),
        "pic": attr.bool(
            default = True,
            doc = "whether the static libraries can be linked into a shared one, too",
        ),
    },
)
