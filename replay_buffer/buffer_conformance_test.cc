// The conformance suite for settings of which no class has a test of its own.
#include "ding_worker/replay_buffer/testing/buffer_conformance.h"

#include <algorithm>
#include <string>

#include "ding_worker/replay_buffer/testing/buffer_types.h"
#include "ding_worker/replay_buffer/testing/saved_state.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

BufferMaker MakerOf(const std::string& name) {
  return std::find_if(BufferTypes().begin(), BufferTypes().end(),
                      [&name](const BufferType& type) { return type.name == name; })
      ->make;
}

// Whether it is made of the one buffer or of the other.
INSTANTIATE_TEST_SUITE_P(Deque, BufferConformance,
                         testing::Values(MakerOf("Deque"), MakerOf("DequePrioritized")));
INSTANTIATE_TEST_SUITE_P(AdvancedUniform, BufferConformance,
                         testing::Values(MakerOf("AdvancedUniform")));

}  // namespace
}  // namespace ding
