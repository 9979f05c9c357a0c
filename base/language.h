// Stops a compilation for a language that is too old, with what to do: without this the compiler would complain about our headers.
// Every file of ours reaches this header, and by it names its version (base/version.h).
#ifndef DING_WORKER_BASE_LANGUAGE_H_
#define DING_WORKER_BASE_LANGUAGE_H_

#if __cplusplus < 201703L
#error \
    "ding_worker needs C++17 or newer: compile with -std=c++17 (Bazel: build --cxxopt=-std=c++17 in .bazelrc)"
#endif

#include "ding_worker/base/version.h"

#endif  // DING_WORKER_BASE_LANGUAGE_H_
