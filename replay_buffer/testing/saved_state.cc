#include "ding_worker/replay_buffer/testing/saved_state.h"

#include <algorithm>

#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/state.h"
#include "gtest/gtest.h"

namespace ding {

TensorMap Saved(const IBuffer& buffer) {
  StateDict state;
  EXPECT_THAT(buffer.SaveState(&state), IsOk());
  return state.tensors();
}

absl::Status LoadFrom(IBuffer* buffer, const TensorMap& tensors) {
  StateDict state(tensors, "test");
  return buffer->LoadState(&state);
}

bool SameBytes(const TensorMap& a, const TensorMap& b) {
  return a.size() == b.size() &&
         std::equal(a.begin(), a.end(), b.begin(), [](const auto& x, const auto& y) {
           return x.first == y.first && BitwiseEqual(x.second, y.second);
         });
}

bool SameBytes(const Batch& a, const Batch& b) {
  if (a.spec() != b.spec() || a.rows() != b.rows()) return false;
  for (int field = 0; field < a.spec().size(); ++field) {
    if (!BitwiseEqual(a.tensor(field), b.tensor(field))) return false;
  }
  return true;
}

TensorMap CloneAll(const TensorMap& from) {
  TensorMap copy;
  for (const auto& [name, tensor] : from) copy.Set(name, tensor.Clone());
  return copy;
}

}  // namespace ding
