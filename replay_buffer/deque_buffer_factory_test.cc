// Linked statically, as a program is: a missing alwayslink shows here.
#include <cmath>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/metrics/sink.h"
#include "ding_worker/replay_buffer/buffer.h"
#include "ding_worker/replay_buffer/buffer.pb.h"
#include "ding_worker/replay_buffer/buffer_registry.h"
#include "ding_worker/replay_buffer/deque_buffer.pb.h"
#include "ding_worker/replay_buffer/testing/test_streams.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::Each;

absl::StatusOr<std::unique_ptr<IBuffer>> Make(const DequeBufferConfig& params) {
  BufferConfig config;
  config.set_type("deque");
  config.set_replay_buffer_size(4);
  config.mutable_params()->PackFrom(params);
  return create_buffer(config, ComponentDeps());
}

TEST(DequeBufferFactory, TheDefaultsAreUniformDrawsOf10000Rows) {
  BufferConfig config;
  config.set_type("deque");
  DING_ASSERT_OK_AND_ASSIGN(const BufferDescriptor descriptor, get_buffer_cls(config));
  for (const BufferConfig& made_of : {config, descriptor.default_config}) {
    DING_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<IBuffer> buffer,
                              create_buffer(made_of, ComponentDeps()));
    TestStreams streams;
    EXPECT_THAT(buffer->Push(streams.Make({{0, 10001}}), 0), IsOk());
    EXPECT_EQ(buffer->count(), 10000);
    DING_ASSERT_OK_AND_ASSIGN(const Batch batch, buffer->Sample(4, 0));
    EXPECT_FALSE(batch.spec().Find("weight").has_value());
  }
}

TEST(DequeBufferFactory, MaxUseHoldsWithoutPriorities) {
  DequeBufferConfig params;
  params.set_max_use(1);
  DING_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<IBuffer> buffer, Make(params));
  TestStreams streams;
  EXPECT_THAT(buffer->Push(streams.Make({{0, 4}}), 0), IsOk());
  // Priorities are of no account.
  EXPECT_THAT(buffer->Update({{900, 1, 1, 1}, {0, 1, 2, 3}, {0, 1, 2, 3}}), IsOk());
  DING_ASSERT_OK_AND_ASSIGN(const Batch batch, buffer->Sample(1, 0));
  EXPECT_THAT(batch.column<float>("weight"), Each(1.0f));
  EXPECT_EQ(buffer->count(), 3);
}

TEST(DequeBufferFactory, PrioritiesAreLimitedAndWeightsOnlyOnRequest) {
  DequeBufferConfig params;
  params.set_priority(true);
  params.set_priority_power_factor(1);
  params.set_is_weight_power_factor(1);
  params.set_priority_max_limit(3);
  for (const bool weights : {false, true}) {
    params.set_priority_is_weight(weights);
    DING_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<IBuffer> buffer, Make(params));
    TestStreams streams;
    EXPECT_THAT(buffer->Push(streams.Make({{0, 4}}), 0), IsOk());
    EXPECT_THAT(buffer->Update({{900, 3, 1, 1}, {0, 1, 2, 3}, {0, 1, 2, 3}}), IsOk());
    DING_ASSERT_OK_AND_ASSIGN(const Batch batch, buffer->Sample(4, 0));
    for (int64_t i = 0; i < batch.rows(); ++i) {
      const bool limited = batch.column<int64_t>("replay_unique_id")[i] < 2;
      EXPECT_NEAR(batch.column<float>("priority")[i], limited ? 3 : 1, 1e-3);
      EXPECT_NEAR(batch.column<float>("weight")[i], limited && weights ? 1.0 / 3 : 1, 1e-3);
    }
    EXPECT_THAT(buffer->Update({{std::nanf("")}, {0}, {0}}), IsInvalid());
    EXPECT_THAT(buffer->Update({{INFINITY}, {0}, {0}}), IsInvalid());
  }
}

TEST(DequeBufferFactory, AllWrongSettingsAreListed) {
  DequeBufferConfig params;
  params.set_max_use(0);
  params.set_train_iter_per_log(0);
  params.set_priority_is_weight(true);
  params.set_is_weight_power_factor(2);
  params.set_is_weight_anneal_train_iter(0);
  params.set_priority_max_limit(0);
  EXPECT_THAT(Make(params),
              IsInvalid("max_use is 0", "train_iter_per_log is 0",
                        "priority_IS_weight is true, expected only with priority", "beta is 2",
                        "IS_weight_anneal_train_iter is 0", "priority_max_limit is 0"));
}

}  // namespace
}  // namespace ding
