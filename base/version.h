// The version of ding_worker, a mark for deprecated declarations, and two checks. A compiler that
// compiles for a C++ standard that is too old is told so. A program has only one version of
// ding_worker: each file that is compiled refers to a name with the version of its headers, and
// only the library of that version defines the name. Otherwise the linker says
//   undefined reference to `ding_worker_version_0_2_0'
//       the headers are of version 0.2.0, and the library is of another one
//   multiple definition of `ding_worker_has_two_versions_in_one_program'
//       there are two libraries
// tools/presubmit version compares with MODULE.bazel.
#ifndef DING_WORKER_BASE_VERSION_H_
#define DING_WORKER_BASE_VERSION_H_

// Stops a compilation for a C++ standard that is too old with a message that says what to do.
// Without it the compiler would complain about our headers. All our files include this header,
// directly or not, and so refer to the version.
#if __cplusplus < 201703L
#error \
    "ding_worker needs C++17 or newer: compile with -std=c++17 (Bazel: build --cxxopt=-std=c++17 in .bazelrc)"
#endif

#define DING_WORKER_VERSION "0.2.0"
// For #if: 1000000 * major + 1000 * minor + patch.
#define DING_WORKER_VERSION_NUMBER 2000
#define DING_WORKER_VERSION_SYMBOL ding_worker_version_0_2_0

// Marks a declaration that will be removed, as in DING_DEPRECATED("0.2", "write NewName"). The
// compiler warns code that uses it, unless that is compiled with -DDING_WORKER_NO_DEPRECATION.
#ifdef DING_WORKER_NO_DEPRECATION
#define DING_DEPRECATED(since, instead)
#else
#define DING_DEPRECATED(since, instead) [[deprecated("since ding_worker " since ": " instead)]]
#endif

extern "C" const char DING_WORKER_VERSION_SYMBOL[];

namespace ding {

namespace internal_version {

// Without "retain" the linker may drop the name together with the variable, which no code reads.
#if defined(__has_attribute)
#if __has_attribute(retain)
__attribute__((retain))
#endif
#endif
__attribute__((used)) static const char* const kHeadersVersion = DING_WORKER_VERSION_SYMBOL;

}  // namespace internal_version

}  // namespace ding

#endif  // DING_WORKER_BASE_VERSION_H_
