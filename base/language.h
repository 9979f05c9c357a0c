// Stops a compilation for a C++ standard that is too old with a message that says what to do. Without it the compiler would
// complain about our headers. All our files include this header, directly or not, and so refer to the version
// (base/version.h).
#ifndef DING_WORKER_BASE_LANGUAGE_H_
#define DING_WORKER_BASE_LANGUAGE_H_

#if __cplusplus < 201703L
#error \
    "ding_worker needs C++17 or newer: compile with -std=c++17 (Bazel: build --cxxopt=-std=c++17 in .bazelrc)"
#endif

#include "ding_worker/base/version.h"

#endif  // DING_WORKER_BASE_LANGUAGE_H_
