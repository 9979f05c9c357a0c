// A random order, each as likely as any other (Fisher and Yates), and the same for the same stream on
// every platform.
//
// Threads: thread-compatible, as the stream.
#ifndef DING_WORKER_BASE_SHUFFLE_H_
#define DING_WORKER_BASE_SHUFFLE_H_

#include <cstddef>
#include <utility>

#include "absl/types/span.h"
#include "ding_worker/base/rng.h"

namespace ding {

template <typename T>
void Shuffle(absl::Span<T> values, Rng* rng) {
  for (size_t i = values.size(); i > 1; --i) std::swap(values[i - 1], values[rng->UniformInt(i)]);
}

}  // namespace ding

#endif  // DING_WORKER_BASE_SHUFFLE_H_
