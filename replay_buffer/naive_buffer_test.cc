#include "ding_worker/replay_buffer/naive_buffer.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/state.h"
#include "ding_worker/metrics/testing/recording_sink.h"
#include "ding_worker/replay_buffer/buffer.h"
#include "ding_worker/replay_buffer/testing/buffer_conformance.h"
#include "ding_worker/replay_buffer/testing/test_streams.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;
using testing::UnorderedElementsAre;

std::unique_ptr<IBuffer> MakeNaive(const BufferSettings& settings) {
  NaiveReplayBuffer::Options options;
  options.capacity_rows = settings.capacity_rows;
  options.nstep = settings.nstep;
  options.gamma = settings.gamma;
  options.seed = settings.seed;
  return NaiveReplayBuffer::Create(options).value();
}

INSTANTIATE_TEST_SUITE_P(Naive, BufferConformance, testing::Values(BufferMaker(MakeNaive)));

TEST(NaiveReplayBuffer, CountingChangesNeitherDrawsNorState) {
  const auto run = [](std::shared_ptr<MetricSink> metrics) {
    NaiveReplayBuffer::Options options;
    options.capacity_rows = 50;
    options.metrics = std::move(metrics);
    options.periodic_thruput_seconds = 1e-9;  // A report at every draw.
    const auto buffer = NaiveReplayBuffer::Create(options).value();
    TestStreams streams;
    std::vector<int64_t> drawn;
    for (int i = 0; i < 20; ++i) {
      EXPECT_THAT(buffer->Push(streams.Make({{0, 20}, {1, 10}}), i), IsOk());
      const Batch batch = buffer->Sample(16, i).value();
      const auto ids = batch.column<int64_t>("replay_unique_id");
      drawn.insert(drawn.end(), ids.begin(), ids.end());
    }
    StateDict state;
    EXPECT_THAT(buffer->SaveState(&state), IsOk());
    std::string bytes;
    for (const auto& [name, tensor] : state.tensors()) {
      absl::StrAppend(&bytes, name, "=", tensor.bytes(), ";");
    }
    return std::make_pair(drawn, bytes);
  };
  const auto sink = std::make_shared<RecordingSink>();
  EXPECT_EQ(run(sink), run(nullptr));
  EXPECT_GE(sink->texts().size(), 20u);
}

TEST(NaiveReplayBuffer, AllWrongOptionsAreListed) {
  NaiveReplayBuffer::Options options;
  options.capacity_rows = 0;
  options.nstep = -1;
  options.gamma = 1.5;
  options.periodic_thruput_seconds = std::nan("");
  options.name = "main";
  EXPECT_THAT(
      NaiveReplayBuffer::Create(options),
      StatusIs(absl::StatusCode::kInvalidArgument,
               AllOf(StartsWith("main: "), HasSubstr("replay_buffer_size is 0, expected 1 to"),
                     HasSubstr("nstep is -1, expected at least 1"),
                     HasSubstr("discount_factor is 1.5, expected 0 to 1"),
                     HasSubstr("periodic_thruput_seconds is nan, expected above 0"))));
}

TEST(NaiveReplayBuffer, RowsWithoutReplacementAreAllDifferent) {
  const std::unique_ptr<IBuffer> buffer = MakeNaive({});
  TestStreams streams;
  ASSERT_THAT(buffer->Push(streams.Make({{0, 100}}), 0), IsOk());
  for (int64_t size = 1; size <= 64; ++size) {
    DING_ASSERT_OK_AND_ASSIGN(const Batch batch, buffer->Sample(size, 0));
    const auto ids = batch.column<int64_t>("replay_unique_id");
    EXPECT_EQ(std::set<int64_t>(ids.begin(), ids.end()).size(), size);
  }
}

// The columns are written out here and in advanced_buffer_test.cc, so that each test shows all that
// its buffer returns.
TEST(NaiveReplayBuffer, TheColumnsOfABatch) {
  const std::unique_ptr<IBuffer> buffer = MakeNaive({});
  TestStreams streams;
  ASSERT_THAT(buffer->Push(streams.Make({{0, 1}}), 0), IsOk());
  DING_ASSERT_OK_AND_ASSIGN(const Batch batch, buffer->Sample(1, 0));
  EXPECT_EQ(batch.spec().DebugString(),
            "obs/place: float32[4]\n"
            "obs/picture: uint8[3]\n"
            "action: int64[] in 0..999\n"
            "reward: float32[]\n"
            "done_once: bool[]\n"
            "collect_iter: int64[]\n"
            "next_obs/place: float32[4]\n"
            "next_obs/picture: uint8[3]\n"
            "discount: float32[]\n"
            "n_step: int32[]\n"
            "replay_unique_id: int64[]");
}

// D7: the discount of a window of k rows is gamma^k, however it ends; 0 after a terminal row.
TEST(NaiveReplayBuffer, DiscountsOfEveryKindOfEnd) {
  BufferSettings settings;
  settings.nstep = 3;
  settings.gamma = 0.5;
  const std::unique_ptr<IBuffer> buffer = MakeNaive(settings);
  TestStreams streams;
  ASSERT_THAT(buffer->Push(streams.Make({{0, 4, SegmentEnd::kTruncated},
                                         {1, 4, SegmentEnd::kTerminated},
                                         {2, 4, SegmentEnd::kCut}}),
                           0),
              IsOk());
  DING_ASSERT_OK_AND_ASSIGN(const Batch batch, buffer->Sample(12, 0));
  std::vector<float> discount(12);
  std::vector<int32_t> n_step(12);
  for (int64_t i = 0; i < 12; ++i) {
    const int64_t id = batch.column<int64_t>("replay_unique_id")[i];
    discount[id] = batch.column<float>("discount")[i];
    n_step[id] = batch.column<int32_t>("n_step")[i];
  }
  EXPECT_THAT(discount, ElementsAre(0.125f, 0.125f, 0.25f, 0.5f,  //
                                    0.125f, 0.f, 0.f, 0.f,        //
                                    0.125f, 0.125f, 0.25f, 0.5f));
  EXPECT_THAT(n_step, ElementsAre(3, 3, 2, 1, 3, 3, 2, 1, 3, 3, 2, 1));
}

TEST(NaiveReplayBuffer, RowsThatDoNotFormTransitionsAreRefused) {
  const auto push = [](std::vector<FieldSpec> fields, int obs_fields) {
    const SpecPtr spec = MakeSpec(fields).value();
    fields.resize(static_cast<size_t>(obs_fields));
    const SpecPtr obs_spec = MakeSpec(fields).value();
    SegmentBatch data;
    data.rows = BatchBuilder::Create(spec, 1).value().Seal(1);
    data.final_obs = BatchBuilder::Create(obs_spec, 1).value().Seal(1);
    data.segments = {{0, 0, 0, 1, SegmentEnd::kCut}};
    const std::unique_ptr<IBuffer> buffer = MakeNaive({});
    const absl::Status status = buffer->Push(data, 0);
    EXPECT_EQ(buffer->count(), 0);
    return status;
  };
  const FieldSpec obs = Box("obs", {2});
  const FieldSpec reward = Scalar("reward", DType::kFloat32);
  EXPECT_THAT(push({obs}, 1), IsInvalid("rows has no field 'reward'; it has: obs"));
  EXPECT_THAT(push({obs, Box("reward", {2, 2})}, 1),
              IsInvalid("'reward' is float32[2, 2], expected float32[]"));
  EXPECT_THAT(push({obs, Box("obs/camera", {2}), reward}, 1),
              IsInvalid("field 1 'obs/camera' does not stand among the final"));
  EXPECT_THAT(push({Box("camera", {2}), reward}, 1),
              IsInvalid("field 0 'camera' stands among the final"));
  EXPECT_THAT(push({obs, reward, Scalar("discount", DType::kFloat32)}, 1),
              IsInvalid("field 'discount' appears twice"));
  EXPECT_THAT(push({obs, reward}, 0), IsInvalid("'obs' does not stand"));
}

std::unique_ptr<ElasticReplayBuffer> MakeElastic(const BufferSettings& settings,
                                                 std::function<int64_t(int64_t)> window_rows) {
  ElasticReplayBuffer::Options options;
  options.ring.capacity_rows = settings.capacity_rows;
  options.ring.nstep = settings.nstep;
  options.ring.gamma = settings.gamma;
  options.ring.seed = settings.seed;
  options.window_rows = std::move(window_rows);
  return ElasticReplayBuffer::Create(std::move(options)).value();
}

std::unique_ptr<ElasticReplayBuffer> RingOf10(std::function<int64_t(int64_t)> window_rows) {
  BufferSettings settings;
  settings.capacity_rows = 10;
  return MakeElastic(settings, std::move(window_rows));
}

INSTANTIATE_TEST_SUITE_P(Elastic, BufferConformance,
                         testing::Values(BufferMaker([](const BufferSettings& settings) {
                           return MakeElastic(settings, [](int64_t) { return 1000; });
                         })));

TEST(ElasticReplayBuffer, DrawsFromTheWindowOnly) {
  const auto buffer = RingOf10([](int64_t) { return 3; });
  TestStreams streams;
  for (int i = 0; i < 15; ++i) {
    ASSERT_THAT(buffer->Push(streams.Make({{0, 1}}), i), IsOk());
    EXPECT_EQ(buffer->count(), std::min(i + 1, 3));
  }
  for (int i = 0; i < 20; ++i) {
    DING_ASSERT_OK_AND_ASSIGN(const Batch batch, buffer->Sample(3, 0));
    EXPECT_THAT(batch.column<int64_t>("replay_unique_id"), UnorderedElementsAre(12, 13, 14));
  }
  EXPECT_THAT(buffer->Sample(4, 0), IsFailedPrecondition("from the newest 3"));
  EXPECT_EQ(buffer->push_count(), 15);
}

TEST(ElasticReplayBuffer, NewestOnlyMakesTheDrawnPartSmaller) {
  const auto buffer = RingOf10([](int64_t) { return 3; });
  TestStreams streams;
  ASSERT_THAT(buffer->Push(streams.Make({{0, 10}}), 0), IsOk());
  SampleOptions options;
  options.newest = 1;
  DING_ASSERT_OK_AND_ASSIGN(const Batch batch, buffer->Sample(1, 0, options));
  EXPECT_EQ(batch.column<int64_t>("replay_unique_id")[0], 9);
  options.newest = 8;
  EXPECT_THAT(buffer->Sample(4, 0, options), IsFailedPrecondition());
}

TEST(ElasticReplayBuffer, TheWindowFollowsTheEnvStepsOfThePushes) {
  const auto buffer = RingOf10([](int64_t envstep) { return 2 + envstep / 10; });
  TestStreams streams;
  EXPECT_EQ(buffer->window_rows(), 2);
  ASSERT_THAT(buffer->Push(streams.Make({{0, 10}}), 0), IsOk());
  EXPECT_EQ(buffer->count(), 2);
  ASSERT_THAT(buffer->Push(streams.Make({{0, 1}}), 50), IsOk());
  EXPECT_EQ(buffer->count(), 7);  // Older rows are in the window again.
  EXPECT_THAT(buffer->Sample(7, 0), IsOk());
  ASSERT_THAT(buffer->Push(streams.Make({{0, 1}}), -1), IsOk());
  EXPECT_EQ(buffer->window_rows(), 7);
  ASSERT_THAT(buffer->Push(streams.Make({{0, 1}}), 1000), IsOk());
  EXPECT_EQ(buffer->count(), 10);
  buffer->Clear();
  EXPECT_EQ(buffer->count(), 0);
  EXPECT_EQ(buffer->window_rows(), 102);
}

TEST(ElasticReplayBuffer, RefusesAnEmptyWindowAndStaysUnchanged) {
  const auto buffer = RingOf10([](int64_t envstep) { return 5 - envstep; });
  TestStreams streams;
  ASSERT_THAT(buffer->Push(streams.Make({{0, 4}}), 1), IsOk());
  EXPECT_THAT(buffer->Push(streams.Make({{0, 4}}), 5),
              IsInvalid("replay_buffer: the window of env step 5 is 0 rows"));
  EXPECT_EQ(buffer->push_count(), 4);
  EXPECT_EQ(buffer->window_rows(), 4);
  // A push that the ring refuses leaves the window unchanged, too.
  SegmentBatch gap = streams.Make({{0, 4}});
  gap.segments[0].begin = 1;
  EXPECT_FALSE(buffer->Push(gap, 2).ok());
  EXPECT_EQ(buffer->window_rows(), 4);

  ElasticReplayBuffer::Options options;
  options.window_rows = [](int64_t) { return 0; };
  EXPECT_THAT(ElasticReplayBuffer::Create(std::move(options)), IsInvalid("env step 0 is 0 rows"));
}

TEST(ElasticReplayBuffer, SavesAndLoadsTheWindow) {
  const auto window = [](int64_t envstep) { return 1 + envstep; };
  const auto buffer = RingOf10(window);
  TestStreams streams;
  ASSERT_THAT(buffer->Push(streams.Make({{0, 10}}), 6), IsOk());
  StateDict state;
  ASSERT_THAT(buffer->SaveState(&state), IsOk());
  const auto restored = RingOf10(window);
  ASSERT_THAT(restored->LoadState(&state), IsOk());
  EXPECT_EQ(restored->window_rows(), 7);
  EXPECT_EQ(restored->count(), 7);
}

}  // namespace
}  // namespace ding
