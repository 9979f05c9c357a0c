// For tests: saved states with numbers near the ends of their type, as a damaged file may have
// them. Run such a test with UndefinedBehaviorSanitizer: the component must refuse them, or work
// with them without an overflow.
//
// Threads: thread-compatible.
//
// Example:
//   ForEachExtremeNumber(saved, [&](StateDict* damaged) {
//     if (component.LoadState(damaged).ok()) component.Step();
//   });
#ifndef DING_WORKER_DATA_EXTREME_NUMBERS_H_
#define DING_WORKER_DATA_EXTREME_NUMBERS_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/state.h"
#include "ding_worker/data/tensor.h"
#include "gtest/gtest.h"

namespace ding {

// Calls `use` with copies of `saved`. In each copy the first or the last element of one tensor of
// int64 is extreme.
template <typename Use>
void ForEachExtremeNumber(const StateDict& saved, const Use& use) {
  constexpr int64_t kExtreme[] = {
      std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::min() + 1, -2,
      std::numeric_limits<int64_t>::max() - 1, std::numeric_limits<int64_t>::max()};
  for (const auto& [name, tensor] : saved.tensors()) {
    if (tensor.dtype() != DType::kInt64 || tensor.num_elements() == 0) continue;
    for (const int64_t value : kExtreme) {
      for (const int64_t index : {int64_t{0}, tensor.num_elements() - 1}) {
        SCOPED_TRACE(absl::StrCat(name, "[", index, "] = ", value));
        TensorMap tensors = saved.tensors();
        Tensor changed = tensor.Clone();
        changed.mutable_data<int64_t>()[static_cast<size_t>(index)] = value;
        tensors.Set(name, std::move(changed));
        StateDict damaged(std::move(tensors), "damaged");
        use(&damaged);
      }
    }
  }
}

}  // namespace ding

#endif  // DING_WORKER_DATA_EXTREME_NUMBERS_H_
