"""Headers that are compiled once instead of once for each source.

A source of a library spends a third of its compilation in the headers of absl::Status and of the standard library
(docs/decisions has the figures).
"""

load("@bazel_tools//tools/cpp:toolchain_utils.bzl", "find_cpp_toolchain")

def use_precompiled_headers(name):
    """The flags that make a source use what the target `name` of precompiled_headers, among its deps, has made.

    GCC takes the file NAME.h.gch, beside NAME.h, only if its own flags are those that the file was made with, and otherwise
    the header, which is empty. So a source that forgets an #include does not compile with Clang (tools/presubmit), nor with other flags.

    Args:
      name: name of the target.
    """
    return ["-include", "ding_worker_%s.h" % name]

# Other compilers than GCC do not look for the file on the include path: it stays empty. What GCC writes depends on flags that it
# does not check, as -frandom-seed, in no way that matters.
_COMPILE = """
if "$1" --version | grep -q "Free Software Foundation"; then exec "$@"; fi
"""

def _precompiled_headers_impl(ctx):
    toolchain = find_cpp_toolchain(ctx)
    features = cc_common.configure_features(
        ctx = ctx,
        cc_toolchain = toolchain,
        requested_features = ctx.features,
        unsupported_features = ctx.disabled_features,
    )
    context = cc_common.merge_cc_infos(cc_infos = [dep[CcInfo] for dep in ctx.attr.deps]).compilation_context
    stub = ctx.actions.declare_file("{0}/ding_worker_{0}.h".format(ctx.label.name))
    compiled = ctx.actions.declare_file("{0}/ding_worker_{0}.h.gch".format(ctx.label.name))
    header = ctx.actions.declare_file(ctx.label.name + "/precompiled.h")
    ctx.actions.write(header, "".join(["#include %s\n" % name for name in ctx.attr.headers]))
    ctx.actions.write(stub, "// Empty: see tools/build_defs/precompiled_headers.bzl of ding_worker.\n")
    action = "c++-compile"
    flags = cc_common.get_memory_inefficient_command_line(
        feature_configuration = features,
        action_name = action,
        variables = cc_common.create_compile_variables(
            feature_configuration = features,
            cc_toolchain = toolchain,
            source_file = header.path,
            output_file = compiled.path,
            user_compile_flags = ctx.fragments.cpp.copts + ctx.fragments.cpp.cxxopts + ctx.attr.copts + ["-x", "c++-header"],
            include_directories = context.includes,
            quote_include_directories = context.quote_includes,
            system_include_directories = context.system_includes,
            preprocessor_defines = context.defines,
            # As in the programs and tests that the sources are linked into.
            use_pic = ctx.var["COMPILATION_MODE"] != "opt" and toolchain.needs_pic_for_dynamic_libraries(feature_configuration = features),
        ),
    )
    ctx.actions.run_shell(
        outputs = [compiled],
        inputs = depset([header], transitive = [context.headers, toolchain.all_files]),
        command = "touch %s\n%s" % (compiled.path, _COMPILE),
        arguments = [cc_common.get_tool_for_action(feature_configuration = features, action_name = action)] + flags,
        env = cc_common.get_environment_variables(
            feature_configuration = features,
            action_name = action,
            variables = cc_common.empty_variables(),
        ),
        mnemonic = "CppPrecompile",
        progress_message = "Precompiling %s" % ctx.label,
    )
    return [
        DefaultInfo(files = depset([compiled])),
        CcInfo(compilation_context = cc_common.create_compilation_context(
            # GCC says of a source that it has read the header, too.
            headers = depset([stub, compiled, header]),
            quote_includes = depset([stub.dirname]),
        )),
    ]

precompiled_headers = rule(
    implementation = _precompiled_headers_impl,
    attrs = {
        "copts": attr.string_list(doc = "the flags of the sources that use it, besides those of the toolchain"),
        "deps": attr.label_list(doc = "whose headers these are", providers = [CcInfo]),
        "headers": attr.string_list(doc = "what to include: <vector>, or another name in quotation marks"),
        "_cc_toolchain": attr.label(default = Label("@bazel_tools//tools/cpp:current_cc_toolchain")),
    },
    fragments = ["cpp"],
    toolchains = ["@bazel_tools//tools/cpp:toolchain_type"],
)
