"""A rule that writes a wheel: python/make_wheel.py with files whose names Bazel cannot know beforehand."""

def _wheel_impl(ctx):
    folder = ctx.actions.declare_directory(ctx.label.name)
    inputs = [ctx.file.script, ctx.file.module, ctx.file.license, ctx.file.project] + ctx.files.srcs
    ctx.actions.run_shell(
        outputs = [folder],
        inputs = inputs,
        command = "python3 \"$@\"",
        arguments = [ctx.file.script.path, folder.path] + [file.path for file in inputs[1:]],
        mnemonic = "PythonWheel",
        use_default_shell_env = True,
    )
    return [DefaultInfo(files = depset([folder]), runfiles = ctx.runfiles([folder]))]

# The wheel is the one file of the folder <name>.
wheel = rule(
    implementation = _wheel_impl,
    attrs = {
        "license": attr.label(allow_single_file = True, mandatory = True),
        "module": attr.label(allow_single_file = True, mandatory = True),
        "project": attr.label(allow_single_file = True, mandatory = True),
        "script": attr.label(allow_single_file = True, mandatory = True),
        "srcs": attr.label_list(allow_files = True, mandatory = True),
    },
)
