// Tests replay_buffer_bytes with every type of buffer. The test is linked statically, like a
// program.
#include "ding_worker/replay_buffer/buffer.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/sample_columns.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/state.h"
#include "ding_worker/metrics/sink.h"
#include "ding_worker/replay_buffer/buffer.pb.h"
#include "ding_worker/replay_buffer/buffer_registry.h"
#include "ding_worker/replay_buffer/elastic_buffer.pb.h"
#include "ding_worker/replay_buffer/sequence_buffer.pb.h"
#include "ding_worker/replay_buffer/testing/buffer_conformance.h"
#include "ding_worker/replay_buffer/testing/buffer_types.h"
#include "ding_worker/replay_buffer/testing/saved_state.h"
#include "ding_worker/replay_buffer/testing/test_streams.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

BufferConfig ConfigOf(const std::string& type) {
  BufferConfig config;
  config.set_type(type);
  if (type == "elastic") {
    ElasticBufferConfig params;
    params.set_window_start(1000000);
    params.set_window_end(1000000);
    config.mutable_params()->PackFrom(params);
  }
  if (type == "sequence") {
    SequenceBufferConfig params;
    params.set_unroll_len(4);
    params.set_overlap(0);
    config.mutable_params()->PackFrom(params);
  }
  return config;
}

class CapacityBytes : public testing::TestWithParam<std::string> {
 protected:
  absl::StatusOr<std::unique_ptr<IBuffer>> Make(int64_t bytes) {
    BufferConfig config = ConfigOf(GetParam());
    config.set_replay_buffer_bytes(bytes);
    return create_buffer(config, ComponentDeps());
  }
};

INSTANTIATE_TEST_SUITE_P(AllTypes, CapacityBytes,
                         testing::Values("naive", "advanced", "elastic", "sequence", "episode",
                                         "deque"));

// Fills the buffer with episodes of 16 rows. Returns its count().
int64_t FullCount(IBuffer* buffer) {
  TestStreams streams(0, true);
  for (int i = 0; i < 500; ++i) {
    EXPECT_THAT(buffer->Push(streams.Make({{0, 16, SegmentEnd::kTerminated}}), i), IsOk());
  }
  EXPECT_THAT(buffer->Sample(4, 0), IsOk());
  return buffer->count();
}

TEST_P(CapacityBytes, MoreBytesHoldMoreRows) {
  DING_ASSERT_OK_AND_ASSIGN(const auto small, Make(100'000));
  DING_ASSERT_OK_AND_ASSIGN(const auto large, Make(200'000));
  const int64_t count = FullCount(small.get());
  EXPECT_GT(count, 0);
  EXPECT_NEAR(FullCount(large.get()), 2 * count, count / 4.0);
  DING_ASSERT_OK_AND_ASSIGN(const auto again, Make(100'000));
  EXPECT_EQ(FullCount(again.get()), count);
}

TEST_P(CapacityBytes, LoadsOnlyTheStateOfTheSameCapacity) {
  DING_ASSERT_OK_AND_ASSIGN(const auto saved, Make(100'000));
  const int64_t count = FullCount(saved.get());
  StateDict state;
  ASSERT_THAT(saved->SaveState(&state), IsOk());
  DING_ASSERT_OK_AND_ASSIGN(const auto same, Make(100'000));
  EXPECT_THAT(same->LoadState(&state), IsOk());
  EXPECT_EQ(same->count(), count);
  DING_ASSERT_OK_AND_ASSIGN(const auto other, Make(100'001));
  EXPECT_THAT(other->LoadState(&state),
              IsInvalid("saved capacity_bytes is 100000, expected 100001"));
  DING_ASSERT_OK_AND_ASSIGN(const auto rows, create_buffer(ConfigOf(GetParam()), ComponentDeps()));
  EXPECT_THAT(rows->LoadState(&state), IsInvalid("saved capacity is in bytes, expected in rows"));
  StateDict of_rows;
  ASSERT_THAT(rows->SaveState(&of_rows), IsOk());
  EXPECT_THAT(same->LoadState(&of_rows), IsInvalid("saved capacity is in rows, expected in bytes"));
  EXPECT_EQ(same->count(), count);
}

TEST_P(CapacityBytes, RefusesTooFewOrTooManyBytes) {
  EXPECT_THAT(Make(0), IsInvalid("replay_buffer_bytes is 0, expected at least 1"));
  TestStreams streams(0, true);
  const SegmentBatch push = streams.Make({{0, 1}});
  DING_ASSERT_OK_AND_ASSIGN(const auto small, Make(100));
  EXPECT_THAT(small->Push(push, 0), IsInvalid("capacity of 100 bytes holds no row"));
  DING_ASSERT_OK_AND_ASSIGN(const auto large, Make(int64_t{1} << 60));
  EXPECT_THAT(large->Push(push, 0), IsResourceExhausted("is more than the memory of"));
  EXPECT_EQ(small->push_count(), 0);
}

TEST(SequenceCapacityBytes, RefusesACapacityBelowOneSequence) {
  SequenceBufferConfig params;
  params.set_unroll_len(80);
  BufferConfig config = ConfigOf("sequence");
  config.mutable_params()->PackFrom(params);
  config.set_replay_buffer_bytes(8000);
  DING_ASSERT_OK_AND_ASSIGN(const auto buffer, create_buffer(config, ComponentDeps()));
  TestStreams streams(0, true);
  EXPECT_THAT(buffer->Push(streams.Make({{0, 1}}), 0),
              IsInvalid("unroll_len is 80, but replay_buffer_bytes holds "));
}

// Links between episodes take 8 bytes per row, so fewer rows fit.
TEST(SequenceCapacityBytes, LinksBetweenEpisodesCount) {
  BufferConfig config = ConfigOf("sequence");
  config.set_replay_buffer_bytes(200'000);
  DING_ASSERT_OK_AND_ASSIGN(const auto within, create_buffer(config, ComponentDeps()));
  SequenceBufferConfig params;
  params.set_unroll_len(4);
  params.set_overlap(0);
  params.set_cross_episodes(true);
  config.mutable_params()->PackFrom(params);
  DING_ASSERT_OK_AND_ASSIGN(const auto across, create_buffer(config, ComponentDeps()));
  const int64_t count = FullCount(within.get());
  EXPECT_LT(FullCount(across.get()), count);
}

TEST(ElasticCapacityBytes, WindowEndMustBeSet) {
  BufferConfig config;
  config.set_type("elastic");
  config.set_replay_buffer_bytes(8000);
  EXPECT_THAT(create_buffer(config, ComponentDeps()),
              IsInvalid("window_end is not set, expected with replay_buffer_bytes"));
}

// Tests of rewards of several components, for all types of buffer: each component is what a buffer
// of that component alone draws with the same seed, which the other tests compare with brute force;
// and the n-step returns are those of a brute-force recorder.

constexpr int64_t kComponents = 3;

float ComponentOf(float reward, int64_t c) {
  return static_cast<float>(c + 1) * reward - static_cast<float>(c * c);
}

// Returns the rows with rewards of `shape`: {R} for the components 0 to R - 1 (first 0), {} for the
// number that is component `first`.
SegmentBatch WithRewards(const SegmentBatch& data, int64_t first, const Shape& shape) {
  const Spec& spec = data.rows.spec();
  const int reward = *spec.Find(kColumnReward);
  std::vector<FieldSpec> fields(spec.fields().begin(), spec.fields().end());
  fields[static_cast<size_t>(reward)] = Box(kColumnReward, shape);
  BatchBuilder made = *BatchBuilder::Create(*MakeSpec(fields), data.size());
  for (int field = 0; field < spec.size(); ++field) {
    if (field == reward) continue;
    std::copy_n(data.rows.view().raw_column(field), data.size() * spec.row_bytes(field),
                made.view().raw_column(field));
  }
  const int64_t width = NumElements(shape);
  for (int64_t row = 0; row < data.size(); ++row) {
    for (int64_t c = 0; c < width; ++c) {
      made.column<float>(reward)[row * width + c] =
          ComponentOf(data.rows.column<float>(reward)[row], first + c);
    }
  }
  SegmentBatch with = data;
  with.rows = std::move(made).Seal(data.size());
  return with;
}

class RewardComponentsTest : public testing::TestWithParam<BufferType> {};

void ExpectSameButReward(const Batch& all, const Batch& one, int64_t component) {
  ASSERT_EQ(all.rows(), one.rows());
  for (int field = 0; field < one.spec().size(); ++field) {
    const FieldSpec& spec = one.spec().field(field);
    if (spec.name != kColumnReward) {
      const int64_t bytes = one.rows() * one.spec().row_bytes(field);
      EXPECT_TRUE(std::equal(one.view().raw_column(field), one.view().raw_column(field) + bytes,
                             all.view().raw_column(field)))
          << spec.name;
      continue;
    }
    EXPECT_EQ(all.spec().field(field), Box(kColumnReward, {kComponents}));
    for (int64_t row = 0; row < one.rows(); ++row) {
      EXPECT_EQ(all.column<float>(field)[row * kComponents + component],
                one.column<float>(field)[row])
          << "row " << row;
    }
  }
}

TEST_P(RewardComponentsTest, EachComponentIsThatOfABufferOfItAlone) {
  for (const int64_t nstep : {1, 4}) {
    SCOPED_TRACE(absl::StrCat("nstep ", nstep));
    BufferSettings settings;
    settings.nstep = nstep;
    const std::unique_ptr<IBuffer> all = GetParam().make(settings);
    std::vector<std::unique_ptr<IBuffer>> one;
    for (int64_t c = 0; c < kComponents; ++c) one.push_back(GetParam().make(settings));
    TestStreams streams;
    Rng rng(3, "pushes");
    int64_t draws = 0;
    for (int i = 0; i < 40; ++i) {
      const SegmentBatch data = RandomPush(&streams, &rng, 6);
      ASSERT_THAT(all->Push(WithRewards(data, 0, {kComponents}), i), IsOk());
      for (int64_t c = 0; c < kComponents; ++c) {
        ASSERT_THAT(one[c]->Push(WithRewards(data, c, {}), i), IsOk());
      }
      SampleOptions replace;
      replace.replace = true;
      const absl::StatusOr<Batch> batch = all->Sample(5, i, replace);
      for (int64_t c = 0; c < kComponents; ++c) {
        const absl::StatusOr<Batch> of_one = one[c]->Sample(5, i, replace);
        ASSERT_EQ(batch.status(), of_one.status());
        if (!batch.ok()) continue;
        ExpectSameButReward(*batch, *of_one, c);
        ++draws;
      }
      if (HasFailure()) return;
    }
    EXPECT_GT(draws, 60);
  }
}

TEST_P(RewardComponentsTest, ALoadedBufferDrawsTheSame) {
  BufferSettings settings;
  settings.nstep = 2;
  const std::unique_ptr<IBuffer> saved = GetParam().make(settings);
  TestStreams streams;
  Rng rng(4, "pushes");
  for (int i = 0; i < 30; ++i) {
    const SegmentBatch data = RandomPush(&streams, &rng, 6);
    ASSERT_THAT(saved->Push(WithRewards(data, 0, {kComponents}), i), IsOk());
  }
  const std::unique_ptr<IBuffer> loaded = GetParam().make(settings);
  ASSERT_THAT(LoadFrom(loaded.get(), Saved(*saved)), IsOk());
  SampleOptions replace;
  replace.replace = true;
  DING_ASSERT_OK_AND_ASSIGN(const Batch expected, saved->Sample(4, 0, replace));
  DING_ASSERT_OK_AND_ASSIGN(const Batch batch, loaded->Sample(4, 0, replace));
  EXPECT_TRUE(SameBytes(batch, expected));
  EXPECT_EQ(batch.spec().field(*batch.spec().Find(kColumnReward)).shape, Shape{kComponents});
}

TEST_P(RewardComponentsTest, RowsOfAnotherShapeAreRefused) {
  const std::unique_ptr<IBuffer> buffer = GetParam().make({});
  TestStreams streams;
  const SegmentBatch data = streams.Make({{0, 12, SegmentEnd::kTerminated}});
  ASSERT_THAT(buffer->Push(WithRewards(data, 0, {2}), 0), IsOk());
  const SegmentBatch more = streams.Make({{0, 12, SegmentEnd::kTerminated}});
  EXPECT_THAT(buffer->Push(WithRewards(more, 0, {3}), 0), IsInvalid("float32[3]"));
  EXPECT_THAT(buffer->Push(more, 0), IsInvalid("float32[]"));
}

// The windows of two episodes and of a stream that goes on, from a list of all rewards.
TEST_P(RewardComponentsTest, NStepReturnsEqualBruteForce) {
  if (!GetParam().of_rows) GTEST_SKIP() << "it draws whole sequences";
  BufferSettings settings;
  settings.nstep = 3;
  settings.gamma = 0.7;
  const std::unique_ptr<IBuffer> buffer = GetParam().make(settings);
  TestStreams streams;
  const SegmentBatch data = WithRewards(
      streams.Make({{0, 7, SegmentEnd::kTerminated}, {1, 5, SegmentEnd::kTruncated}, {2, 6}}), 0,
      {kComponents});
  ASSERT_THAT(buffer->Push(data, 0), IsOk());
  const int reward = *data.rows.spec().Find(kColumnReward);
  DING_ASSERT_OK_AND_ASSIGN(const Batch batch, buffer->Sample(18, 0));
  for (int64_t i = 0; i < 18; ++i) {
    const int64_t id = batch.column<int64_t>(kColumnReplayUniqueId)[i];
    const int64_t end = id < 7 ? 7 : id < 12 ? 12 : 18;
    for (int64_t c = 0; c < kComponents; ++c) {
      double sum = 0;
      for (int64_t k = 0; k < 3 && id + k < end; ++k) {
        sum += std::pow(0.7, static_cast<double>(k)) *
               data.rows.column<float>(reward)[(id + k) * kComponents + c];
      }
      EXPECT_NEAR(batch.column<float>(kColumnReward)[i * kComponents + c], sum,
                  1e-5 * (1 + std::abs(sum)))
          << "row " << id << " component " << c;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, RewardComponentsTest, testing::ValuesIn(BufferTypes()),
                         NameOfBufferType);

// The conformance suite for settings of which no class has a test of its own.

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
