// Shuffles values. Every order is equally likely (Fisher and Yates), and the same stream gives the same
// order on every platform.
//
// Threads: thread-compatible, like the stream.
#ifndef DING_WORKER_BASE_SHUFFLE_H_
#define DING_WORKER_BASE_SHUFFLE_H_

#include <cstddef>
#include <utility>

#include "absl/types/span.h"
#include "ding_worker/base/rng.h"

namespace ding {

// Puts `values` into a random order, drawn from `rng`.
template <typename T>
void Shuffle(absl::Span<T> values, Rng* rng) {
  for (size_t i = values.size(); i > 1; --i) std::swap(values[i - 1], values[rng->UniformInt(i)]);
}

}  // namespace ding

#endif  // DING_WORKER_BASE_SHUFFLE_H_
