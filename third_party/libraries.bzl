"""The outside libraries of ding_worker: the one list that WORKSPACE, MODULE.bazel and third_party/debian are made from.

This file holds literals only, because third_party/debian/generate.py reads it, too. After a change, run that script: it writes
the `bazel_dep` lines of MODULE.bazel and the stub modules of third_party/debian.

Keys of a library, whose key is the name of its repository in our BUILD files:
  license    its licence, for docs/reference/dependencies.md
  why        what needs it, for the same page
  module     its name in the Bazel Central Registry; a library without one comes from the distribution in every mode
  version    the lowest version of the module; the graph of whoever depends on us takes the highest that anyone asks for
  dev        True if only tests and benchmarks of ding_worker itself need it
  optional   True if a consumer's module graph is without its module unless the consumer names it (extensions.bzl): what it brings
             with it are rules that most consumers do not use, and Bazel fetches them for their toolchains
  debian     its packages on Debian and Ubuntu
  fedora     its packages on Fedora
  header     a header that shows that it is installed, for systems without dpkg
  targets    name -> {"libs": shared libraries, "deps": labels, "defines" and "includes": of those who depend on it}
  restricted True if only the aliases of //third_party may use it, which say who may use them
  link_all   instead: a pattern of shared libraries, of which a target offers all that are installed to the linker
  packages   with link_all: folder -> names of the targets in it
"""

LIBRARIES = {
    "com_google_absl": {
        "license": "Apache-2.0",
        "why": "status, strings, time, containers, synchronization: the base of all C++ here",
        "module": "abseil-cpp",
        "version": "20250814.1",
        "debian": ["libabsl-dev"],
        "fedora": ["abseil-cpp-devel"],
        "header": "absl/base/config.h",
        # A distribution splits Abseil into some 60 libraries, and not every release into the same ones.
        "link_all": "libabsl_*.so",
        "packages": {
            "absl/algorithm": ["algorithm", "container"],
            "absl/base": ["base", "config", "core_headers", "dynamic_annotations", "endian", "log_severity"],
            "absl/cleanup": ["cleanup"],
            "absl/container": [
                "btree",
                "fixed_array",
                "flat_hash_map",
                "flat_hash_set",
                "inlined_vector",
                "node_hash_map",
                "node_hash_set",
            ],
            "absl/debugging": ["failure_signal_handler", "leak_check", "stacktrace", "symbolize"],
            "absl/functional": ["any_invocable", "bind_front", "function_ref"],
            "absl/hash": ["hash"],
            # Abseil has these since 2023: for a gRPC that logs by Abseil.
            "absl/log": ["globals", "initialize", "log", "log_entry", "log_sink", "log_sink_registry"],
            "absl/memory": ["memory"],
            "absl/meta": ["type_traits"],
            "absl/numeric": ["bits", "int128"],
            "absl/status": ["status", "statusor"],
            "absl/strings": ["cord", "str_format", "strings"],
            "absl/synchronization": ["synchronization"],
            "absl/time": ["time"],
            "absl/types": ["any", "optional", "span", "variant"],
            "absl/utility": ["utility"],
        },
    },
    "com_google_protobuf": {
        "license": "BSD-3-Clause",
        "why": "configs, messages between processes, metadata of checkpoints",
        "module": "protobuf",
        "version": "33.5",
        "debian": ["libprotobuf-dev", "protobuf-compiler"],
        "fedora": ["protobuf-devel", "protobuf-compiler"],
        "header": "google/protobuf/message.h",
        "targets": {
            "protobuf": {"libs": ["protobuf"]},
            "protobuf_lite": {"libs": ["protobuf-lite"]},
        },
    },
    "com_github_google_glog": {
        "license": "BSD-3-Clause",
        "why": "logs of the programs",
        "module": "glog",
        "version": "0.7.1.bcr.1",
        "debian": ["libgoogle-glog-dev"],
        "fedora": ["glog-devel"],
        "header": "glog/logging.h",
        "targets": {
            "glog": {
                "libs": ["glog"],
                "deps": ["@com_github_gflags_gflags//:gflags"],
                # glog 0.7 wants it; glog 0.6 does not look at it.
                "defines": ["GLOG_USE_GLOG_EXPORT"],
            },
        },
    },
    "com_github_gflags_gflags": {
        "license": "BSD-3-Clause",
        "why": "flags of the programs",
        "module": "gflags",
        "version": "2.2.2.bcr.1",
        "debian": ["libgflags-dev"],
        "fedora": ["gflags-devel"],
        "header": "gflags/gflags.h",
        "targets": {"gflags": {"libs": ["gflags"]}},
    },
    "com_google_googletest": {
        "license": "BSD-3-Clause",
        "why": "tests, and the conformance suites for modules of users",
        "module": "googletest",
        "version": "1.17.0.bcr.2",
        "debian": ["libgmock-dev"],
        "fedora": ["gmock-devel", "gtest-devel"],
        "header": "gmock/gmock.h",
        "targets": {
            "gtest": {"libs": ["gmock", "gtest", "pthread"]},
            "gtest_main": {"libs": ["gmock_main"], "deps": [":gtest"]},
        },
    },
    "com_github_google_benchmark": {
        "license": "Apache-2.0",
        "why": "benchmarks",
        "module": "google_benchmark",
        "version": "1.9.5",
        "dev": True,
        "debian": ["libbenchmark-dev"],
        "fedora": ["google-benchmark-devel"],
        "header": "benchmark/benchmark.h",
        "targets": {
            "benchmark": {"libs": ["benchmark", "pthread"]},
            "benchmark_main": {"libs": ["benchmark_main"], "deps": [":benchmark"]},
        },
    },
    "nlohmann_json": {
        "license": "MIT",
        "why": "results, metrics, headers of safetensors, descriptions of policies, output of `ctl`",
        "module": "nlohmann_json",
        "version": "3.11.3",
        "debian": ["nlohmann-json3-dev"],
        "fedora": ["json-devel"],
        "header": "nlohmann/json.hpp",
        "targets": {"json": {}},
    },
    "giflib": {
        "license": "MIT",
        "why": "videos as GIF, which need nothing else",
        "module": "giflib",
        "version": "5.2.1.bcr.1",
        "debian": ["libgif-dev"],
        "fedora": ["giflib-devel"],
        "header": "gif_lib.h",
        "targets": {"giflib": {"libs": ["gif"]}},
    },
    "zlib": {
        "license": "Zlib",
        "why": "tests of the build rules",
        "module": "zlib",
        "version": "1.3.1.bcr.8",
        "debian": ["zlib1g-dev"],
        "fedora": ["zlib-devel"],
        "header": "zlib.h",
        "targets": {"zlib": {"libs": ["z"]}},
    },
    "dygraphs": {
        "license": "MIT",
        "why": "the charts of `//worker/watch`, which has it inside",
        "restricted": True,
        "debian": ["libjs-dygraphs"],
        "fedora": ["nodejs-dygraphs"],
        "header": "../share/javascript/dygraphs/dygraph.min.js",
        "targets": {},
    },
    "lz4": {
        "license": "BSD-2-Clause",
        "why": "fast compression of the store",
        "module": "lz4",
        "version": "1.10.0.bcr.1",
        "debian": ["liblz4-dev"],
        "fedora": ["lz4-devel"],
        "header": "lz4.h",
        "targets": {"lz4": {"libs": ["lz4"]}},
    },
    "zstd": {
        "license": "BSD-3-Clause or GPL-2",
        "why": "tight compression of the store",
        "module": "zstd",
        "version": "1.5.7.bcr.1",
        "debian": ["libzstd-dev"],
        "fedora": ["libzstd-devel"],
        "header": "zstd.h",
        "targets": {"zstd": {"libs": ["zstd"]}},
    },
    "com_github_grpc_grpc": {
        "license": "Apache-2.0",
        "why": "messages between the processes of a parallel run",
        "module": "grpc",
        "optional": True,
        "version": "1.76.0",
        "restricted": True,
        "debian": ["libgrpc++-dev", "protobuf-compiler-grpc"],
        "fedora": ["grpc-devel", "grpc-plugins"],
        "header": "grpcpp/grpcpp.h",
        "targets": {
            "grpc++": {
                "libs": ["grpc++", "grpc", "gpr"],
                "deps": [
                    "@com_google_protobuf//:protobuf",
                    "@com_google_absl//absl/synchronization",
                ],
            },
        },
    },
    "hiredis": {
        "license": "BSD-3-Clause",
        "why": "the store and the journal in Redis",
        "module": "hiredis",
        "optional": True,
        "version": "1.3.0",
        "restricted": True,
        "debian": ["libhiredis-dev"],
        "fedora": ["hiredis-devel"],
        "header": "hiredis/hiredis.h",
        "targets": {"hiredis": {"libs": ["hiredis"]}},
    },
    "openssl": {
        "license": "Apache-2.0",
        "why": "certificates and tokens, which are checked before anything listens; TLS to Redis",
        "module": "openssl",
        "optional": True,
        "version": "3.3.1.bcr.9",
        "restricted": True,
        "debian": ["libssl-dev"],
        "fedora": ["openssl-devel"],
        "header": "openssl/evp.h",
        "targets": {
            "crypto": {"libs": ["crypto"]},
            "ssl": {"libs": ["ssl", "crypto"]},
        },
    },
    "libmicrohttpd": {
        "license": "LGPL-2.1",
        "why": "the server of `//worker/watch` and of metrics. It bounds the connections, the memory and the time of its callers, and has TLS",
        "restricted": True,
        "debian": ["libmicrohttpd-dev"],
        "fedora": ["libmicrohttpd-devel"],
        "header": "microhttpd.h",
        "targets": {"microhttpd": {"libs": ["microhttpd"]}},
    },
    "sqlite3": {
        "license": "public domain",
        "why": "the journal of a coordinator",
        "restricted": True,
        "debian": ["libsqlite3-dev"],
        "fedora": ["sqlite-devel"],
        "header": "sqlite3.h",
        "targets": {"sqlite3": {"libs": ["sqlite3"]}},
    },
    "openblas": {
        "license": "BSD-3-Clause",
        "why": "the floors of benchmarks, and the threads of libtorch, which uses it",
        "debian": ["libopenblas-dev"],
        "fedora": ["openblas-devel"],
        "header": "cblas.h",
        "targets": {"openblas": {"libs": ["openblas"]}},
    },
    "box2d": {
        "license": "MIT",
        "why": "LunarLander, BipedalWalker",
        "restricted": True,
        "debian": ["libbox2d-dev"],
        "fedora": ["Box2D-devel"],
        "header": "box2d/box2d.h",
        "targets": {"box2d": {"libs": ["box2d"]}},
    },
    "mujoco": {
        "license": "Apache-2.0",
        "why": "the locomotion tasks; EGL draws their pictures",
        "restricted": True,
        "debian": ["libmujoco-dev", "libegl-dev", "libgl1-mesa-dri"],
        "fedora": ["mujoco-devel", "libglvnd-devel", "mesa-dri-drivers"],
        "header": "mujoco/mujoco.h",
        "targets": {
            "mujoco": {"libs": ["mujoco"]},
            "egl": {"libs": ["EGL"]},
        },
    },
    "ffmpeg": {
        "license": "LGPL-2.1 (Debian builds it as GPL-2)",
        "why": "videos as MP4",
        "restricted": True,
        "debian": ["libavcodec-dev", "libavformat-dev", "libswscale-dev"],
        "fedora": ["ffmpeg-free-devel"],
        "header": "libavcodec/avcodec.h",
        "targets": {"ffmpeg": {"libs": ["avformat", "avcodec", "swscale", "avutil"]}},
    },
    "libtorch": {
        "license": "BSD-3-Clause",
        "why": "convolutional networks, networks of users; Gloo can add the gradients of several learners",
        "restricted": True,
        "debian": ["libgloo-dev", "libtorch-dev"],
        "fedora": ["python3-torch-devel"],
        "header": "torch/csrc/api/include/torch/torch.h",
        "targets": {
            "torch": {
                "libs": ["torch", "torch_cpu", "c10", "gloo"],
                "hdrs": "include/**/*.h",
                "includes": ["include"],
            },
        },
    },
    "pybind11": {
        "license": "BSD-3-Clause (Python: PSF-2.0)",
        "why": "the extension of the Python package",
        "restricted": True,
        "debian": ["pybind11-dev", "python3-dev"],
        "fedora": ["pybind11-devel", "python3-devel"],
        "header": "pybind11/pybind11.h",
        "targets": {
            "pybind11": {
                # The interpreter that loads an extension has libpython's symbols.
                "hdrs": "include/**/*.h",
                "includes": ["include"],
            },
        },
    },
}

# Modules of rules, which need no library of the system.
RULES = {
    "rules_cc": "0.2.9",
    "rules_shell": "0.6.1",
}
