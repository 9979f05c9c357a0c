"""Headers that are compiled once instead of once for each source.

docs/decisions/0017-headers-are-precompiled.md says why.
"""

load("@bazel_tools//tools/cpp:toolchain_utils.bzl", "find_cpp_toolchain")
load("@rules_cc//cc:defs.bzl", "cc_library")

# Other compilers than GCC do not look for the file on the include path: it stays empty. So it does for sanitizers, with which GCC 12
# has crashed on a source that used it.
_COMPILE = """
touch "$1"
shift
case " $* " in *" -fsanitize="*) exit ;; esac
if "$1" --version | grep -q "Free Software Foundation"; then exec "$@"; fi
"""

def _compiled_impl(ctx):
    toolchain = find_cpp_toolchain(ctx)
    features = cc_common.configure_features(
        ctx = ctx,
        cc_toolchain = toolchain,
        requested_features = ctx.features,
        # Clang's module maps, which only its own rules can give.
        unsupported_features = ctx.disabled_features + ["layering_check", "module_maps"],
    )
    context = cc_common.merge_cc_infos(cc_infos = [dep[CcInfo] for dep in ctx.attr.deps]).compilation_context
    ctx.actions.write(ctx.outputs.empty, "// Empty: see tools/build_defs/precompiled_headers.bzl of ding_worker.\n")
    includes = ctx.actions.declare_file(ctx.label.name + ".h")
    ctx.actions.write(includes, "".join(["#include %s\n" % name for name in ctx.attr.headers]))
    action = "c++-compile"
    flags = cc_common.get_memory_inefficient_command_line(
        feature_configuration = features,
        action_name = action,
        variables = cc_common.create_compile_variables(
            feature_configuration = features,
            cc_toolchain = toolchain,
            source_file = includes.path,
            output_file = ctx.outputs.compiled.path,
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
        outputs = [ctx.outputs.compiled],
        inputs = depset([includes], transitive = [context.headers, toolchain.all_files]),
        command = _COMPILE,
        arguments = [
            ctx.outputs.compiled.path,
            cc_common.get_tool_for_action(feature_configuration = features, action_name = action),
        ] + flags,
        env = cc_common.get_environment_variables(
            feature_configuration = features,
            action_name = action,
            variables = cc_common.empty_variables(),
        ),
        mnemonic = "CppPrecompile",
        progress_message = "Precompiling %s" % ctx.label,
    )
    return [DefaultInfo(files = depset([ctx.outputs.compiled]))]

_compiled = rule(
    implementation = _compiled_impl,
    attrs = {
        "compiled": attr.output(mandatory = True),
        "copts": attr.string_list(),
        "deps": attr.label_list(providers = [CcInfo]),
        "empty": attr.output(mandatory = True),
        "headers": attr.string_list(mandatory = True),
        "_cc_toolchain": attr.label(default = Label("@bazel_tools//tools/cpp:current_cc_toolchain")),
    },
    fragments = ["cpp"],
    toolchains = ["@bazel_tools//tools/cpp:toolchain_type"],
)

def precompiled_headers(name, headers, copts, deps, testonly = False, **kwargs):
    """A library for the deps of sources that are compiled with use_precompiled_headers(name).

    Args:
      name: name of the target.
      headers: what to include: <vector>, or another name in quotation marks.
      copts: the flags of those sources, besides those of the toolchain and of the command.
      deps: the libraries of the headers.
      testonly: as in cc_library.
      **kwargs: as in cc_library.
    """
    empty = "{0}/ding_worker_{0}.h".format(name)
    compiled = empty + ".gch"
    _compiled(
        name = name + "_compiled",
        compiled = compiled,
        copts = copts,
        empty = empty,
        headers = headers,
        testonly = testonly,
        visibility = ["//visibility:private"],
        deps = deps,
    )
    cc_library(
        name = name,
        hdrs = [empty],
        includes = [name],
        testonly = testonly,
        textual_hdrs = [compiled],
        **kwargs
    )

def use_precompiled_headers(name):
    """The flags that make a source use what the target `name` of precompiled_headers, among its deps, has made.

    GCC takes the compiled file, beside the empty header, if its own flags fit those that the file was made with, and otherwise the
    header. It does not compare the toolchain's definition of __DATE__ (and crashes), which is the same for both in a build. A source that
    forgets an #include does not compile with Clang (tools/presubmit), nor with flags that do not fit.

    Args:
      name: name of the target.
    """
    return ["-include", "ding_worker_%s.h" % name]
