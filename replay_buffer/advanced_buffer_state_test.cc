// Tests which saved states the buffer accepts, and which options then apply to draws.
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/state.h"
#include "ding_worker/data/tensor.h"
#include "ding_worker/replay_buffer/advanced_buffer.h"
#include "ding_worker/replay_buffer/testing/advanced_buffer_testing.h"
#include "ding_worker/replay_buffer/testing/saved_state.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::HasSubstr;

using Options = AdvancedReplayBuffer::Options;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

TEST(AdvancedReplayBuffer, InvalidSavedStateIsRefused) {
  Options options;
  options.capacity_rows = 8;
  const auto buffer = MakeAdvancedBuffer(options);
  ASSERT_THAT(buffer->Push(TestRows(0, 5), 0), IsOk());
  const TensorMap good = Saved(*buffer);
  const auto load = [&](const std::string& name, const auto& write) {
    TensorMap damaged;
    for (const auto& [key, tensor] : good) {
      if (key != name) damaged.Set(key, tensor);
    }
    StateDict state(damaged, "test");
    EXPECT_THAT(write(&state), IsOk());
    const absl::Status status = buffer->LoadState(&state);
    EXPECT_TRUE(SameBytes(good, Saved(*buffer)));
    return status;
  };
  const auto priority = [&](std::vector<float> values) {
    return load("priority", [&](StateDict* s) { return s->WriteSpan<float>("priority", values); });
  };
  const auto use = [&](std::vector<int32_t> values) {
    return load("use", [&](StateDict* s) { return s->WriteSpan<int32_t>("use", values); });
  };
  const auto number = [&](const std::string& name, double value) {
    return load(name, [&](StateDict* s) { return s->WriteDouble(name, value); });
  };
  for (const float bad : {kNan, kInfinity, -1.0f, 1e-9f}) {
    EXPECT_THAT(priority({1, 1, bad, 1, 1}),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("priority of row 2 is")));
  }
  EXPECT_THAT(priority({1, 1, 1, 1}), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(use({0, -1, 0, 0, 0}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("use of row 1 is -1")));
  EXPECT_THAT(number("beta", 1.25),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("saved beta is 1.25")));
  EXPECT_THAT(number("max_priority", 0.5),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("max_priority is 0.5")));
}

TEST(AdvancedReplayBuffer, StateWithAnotherMaxUseOrBetaIsRefused) {
  Options options;
  options.capacity_rows = 8;
  options.beta = 0.5;
  options.anneal_step = 10;
  options.max_use = 3;
  const auto buffer = MakeAdvancedBuffer(options);
  ASSERT_THAT(buffer->Push(TestRows(0, 8), 0), IsOk());
  ASSERT_THAT(buffer->Sample(4, 0), IsOk());
  const TensorMap saved = Saved(*buffer);
  const auto load = [&saved](const Options& other) {
    const auto loaded = MakeAdvancedBuffer(other);
    const TensorMap before = Saved(*loaded);
    const absl::Status status = LoadFrom(loaded.get(), saved);
    EXPECT_NE(status.ok(), SameBytes(before, Saved(*loaded)));
    return status;
  };
  const auto refuses = [](const char* sentence) {
    return StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(sentence));
  };
  EXPECT_THAT(load(options), IsOk());
  Options other = options;
  other.max_use = 2;
  EXPECT_THAT(load(other), refuses("saved max_use is 3, expected 2"));
  other.max_use.reset();
  EXPECT_THAT(load(other), refuses("saved max_use is 3, expected no limit"));
  other = options;
  other.beta = 1;
  EXPECT_THAT(load(other), refuses("saved first beta is 0.5, expected 1"));
  other = options;
  other.anneal_step = 20;
  EXPECT_THAT(load(other), refuses("saved anneal_step is 10, expected 20"));
  other = options;
  other.alpha = 1;
  other.nstep = 3;
  other.gamma = 0.5;
  other.max_staleness = 100;
  EXPECT_THAT(load(other), IsOk());
}

// A state holds priorities without their exponent, so loaded rows are drawn with the alpha and
// nstep of the buffer that loads them.
TEST(AdvancedReplayBuffer, LoadedRowsAreDrawnByTheOptionsOfTheirNewBuffer) {
  Options options;
  options.capacity_rows = 4;
  options.alpha = 0;
  options.beta = 1;
  const auto saved = MakeAdvancedBuffer(options);
  ASSERT_THAT(saved->Push(RowsWithPriorities({3, 3, 3, 1}), 0), IsOk());
  options.alpha = 1;
  options.nstep = 2;
  const auto loaded = MakeAdvancedBuffer(options);
  ASSERT_THAT(LoadFrom(loaded.get(), Saved(*saved)), IsOk());
  DING_ASSERT_OK_AND_ASSIGN(const Batch batch, loaded->Sample(10, 0, WithReplacement()));
  const std::vector<int64_t> ids = IdsOf(batch);
  for (size_t i = 0; i < ids.size(); ++i) {
    EXPECT_NEAR(FloatsOf(batch, "weight")[i], ids[i] == 3 ? 1 : 1.0 / 3, 1e-4);
    EXPECT_EQ(batch.column<int32_t>("n_step")[i], ids[i] == 3 ? 1 : 2);
  }
}

}  // namespace
}  // namespace ding
