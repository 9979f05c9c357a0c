// Stops a compilation for a language that is too old, with what to do: without this the compiler would complain about our headers.
#ifndef DING_WORKER_BASE_LANGUAGE_H_
#define DING_WORKER_BASE_LANGUAGE_H_

#if __cplusplus < 201703L
#error "ding_worker needs C++17 or newer: write build --cxxopt=-std=c++17 into .bazelrc"
#endif

#endif  // DING_WORKER_BASE_LANGUAGE_H_
