// Tests what the factories of all types of buffers pass on: the sink of statistics and the callback
// for removed items. The test is linked statically, like a program.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/state.h"
#include "ding_worker/metrics/sink.h"
#include "ding_worker/metrics/testing/recording_sink.h"
#include "ding_worker/replay_buffer/buffer.h"
#include "ding_worker/replay_buffer/buffer.pb.h"
#include "ding_worker/replay_buffer/buffer_registry.h"
#include "ding_worker/replay_buffer/deque_buffer.pb.h"
#include "ding_worker/replay_buffer/sequence_buffer.pb.h"
#include "ding_worker/replay_buffer/testing/test_streams.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

BufferConfig ConfigOf(const std::string& type) {
  BufferConfig config;
  config.set_type(type);
  config.set_replay_buffer_size(8);
  config.set_periodic_thruput_seconds(3);
  if (type == "sequence") {
    SequenceBufferConfig params;
    params.set_unroll_len(3);
    config.mutable_params()->PackFrom(params);
  }
  return config;
}

// With these parameters the deque uses another buffer than without parameters.
BufferConfig PrioritizedDeque() {
  DequeBufferConfig params;
  params.set_priority(true);
  params.set_train_iter_per_log(3);
  BufferConfig config = ConfigOf("deque");
  config.mutable_params()->PackFrom(params);
  return config;
}

std::vector<BufferConfig> AllConfigs() {
  std::vector<BufferConfig> configs = {PrioritizedDeque()};
  for (const std::string& type : BufferRegistry().Names()) configs.push_back(ConfigOf(type));
  return configs;
}

class BufferOfAnyType : public testing::TestWithParam<BufferConfig> {
 protected:
  BufferDeps Deps() const {
    ComponentDeps deps;
    deps.name = "replay";
    deps.clock = &clock_;
    deps.metrics = sink_;
    return deps;
  }
  bool HoldsItems() const { return GetParam().type() != "sequence"; }
  std::vector<double> Values(const std::string& tag) const {
    return sink_->ValuesOf("replay_sec/" + tag);
  }

  SimulatedClock clock_;
  const std::shared_ptr<RecordingSink> sink_ = std::make_shared<RecordingSink>();
};
INSTANTIATE_TEST_SUITE_P(AllTypes, BufferOfAnyType, testing::ValuesIn(AllConfigs()),
                         [](const testing::TestParamInfo<BufferConfig>& info) {
                           return info.param.type() + std::to_string(info.index);
                         });

TEST_P(BufferOfAnyType, CountsRowsInTheSinkOfTheRun) {
  TestStreams streams;
  {
    DING_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<IBuffer> buffer,
                              create_buffer(GetParam(), Deps()));
    ASSERT_THAT(buffer->Push(streams.Make({{0, 6, SegmentEnd::kTerminated}}), 1), IsOk());
    ASSERT_THAT(buffer->Push(streams.Make({{1, 4, SegmentEnd::kTerminated}}), 2), IsOk());
    clock_.Advance(absl::Milliseconds(2999));
    DING_ASSERT_OK_AND_ASSIGN(const Batch first, buffer->Sample(1, 0));
    EXPECT_THAT(Values("pushed_in"), IsEmpty());
    clock_.Advance(absl::Milliseconds(1));
    DING_ASSERT_OK_AND_ASSIGN(const Batch second, buffer->Sample(1, 0));
    EXPECT_THAT(Values("pushed_in"), ElementsAre(10));
    EXPECT_THAT(Values("sampled_out"), ElementsAre(first.rows() + second.rows()));
    EXPECT_THAT(Values("removed"), ElementsAre(2));
    EXPECT_THAT(Values("current_have"), ElementsAre(8));

    // Rows that are loaded count neither as pushed nor as removed.
    StateDict saved;
    ASSERT_THAT(buffer->SaveState(&saved), IsOk());
    buffer->Clear();
    ASSERT_THAT(buffer->LoadState(&saved), IsOk());
  }
  EXPECT_THAT(Values("pushed_in"), ElementsAre(10, 0));
  EXPECT_THAT(Values("removed"), ElementsAre(2, 8));
  EXPECT_THAT(Values("current_have"), ElementsAre(8, 8));
}

TEST_P(BufferOfAnyType, PushesAloneEndAPeriod) {
  DING_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<IBuffer> buffer,
                            create_buffer(GetParam(), Deps()));
  TestStreams streams;
  clock_.Advance(absl::Seconds(3));
  for (int i = 0; i < 16; ++i) ASSERT_THAT(buffer->Push(streams.Make({{0, 1}}), i), IsOk());
  EXPECT_THAT(Values("pushed_in"), ElementsAre(16));
}

TEST_P(BufferOfAnyType, RefusesAPeriodOfZeroWithOneMessage) {
  BufferConfig config = GetParam();
  config.set_periodic_thruput_seconds(0);
  const absl::Status status = create_buffer(config, Deps()).status();
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kInvalidArgument,
                               "replay: periodic_thruput_seconds is 0, expected above 0"));
}

TEST_P(BufferOfAnyType, ReportsRemovedItemsOrRefusesItems) {
  std::vector<int64_t> chunks;
  BufferDeps deps = Deps();
  deps.on_removed = [&chunks](const RemovedItems& removed) {
    chunks.insert(chunks.end(), removed.chunks.begin(), removed.chunks.end());
  };
  if (!HoldsItems()) {
    EXPECT_THAT(create_buffer(GetParam(), deps), IsInvalid("do not tell which items left them"));
    DING_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<IBuffer> buffer,
                              create_buffer(GetParam(), Deps()));
    EXPECT_THAT(buffer->Push(TestItemsOfChunk(1, 3), 0), IsInvalid("the rows are items"));
    EXPECT_EQ(buffer->push_count(), 0);
    return;
  }
  DING_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<IBuffer> buffer, create_buffer(GetParam(), deps));
  ASSERT_THAT(buffer->Push(TestItemsOfChunk(1, 3), 0), IsOk());
  ASSERT_THAT(buffer->Push(TestItemsOfChunk(2, 8), 0), IsOk());
  EXPECT_THAT(chunks, ElementsAre(1));
  DING_ASSERT_OK_AND_ASSIGN(const Batch batch, buffer->Sample(1, 0));
  EXPECT_EQ(batch.column<int64_t>("chunk")[0], 2);
}

TEST(DequeBuffer, WritesStatisticsEveryTrainIterPerLogDraws) {
  const auto sink = std::make_shared<RecordingSink>();
  ComponentDeps deps;
  deps.name = "replay";
  deps.metrics = sink;
  DING_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<IBuffer> buffer,
                            create_buffer(PrioritizedDeque(), deps));
  TestStreams streams;
  ASSERT_THAT(buffer->Push(streams.Make({{0, 1}}), 1), IsOk());
  for (int64_t iter = 0; iter < 7; ++iter) ASSERT_THAT(buffer->Sample(1, iter), IsOk());
  // These are the values of the first, fourth and seventh draw, not averages over the draws
  // between.
  EXPECT_THAT(sink->ValuesOf("replay_iter/use_avg"), ElementsAre(1, 4, 7));
}

}  // namespace
}  // namespace ding
