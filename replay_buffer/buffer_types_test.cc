// Tests that every type of buffer must pass, whatever it draws. Seeds are fixed, and a failure's
// trace names them.
#include "ding_worker/replay_buffer/testing/buffer_types.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/file_testing.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/sample_columns.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/tensor.h"
#include "ding_worker/data/transition.h"
#include "ding_worker/metrics/testing/recording_sink.h"
#include "ding_worker/replay_buffer/buffer.h"
#include "ding_worker/replay_buffer/buffer_file.h"
#include "ding_worker/replay_buffer/testing/reference_buffer.h"
#include "ding_worker/replay_buffer/testing/saved_state.h"
#include "ding_worker/replay_buffer/testing/test_streams.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

class BufferTypesTest : public testing::TestWithParam<BufferType> {
 protected:
  std::unique_ptr<IBuffer> Make(const BufferSettings& settings = {}) const {
    return GetParam().make(settings);
  }
};

INSTANTIATE_TEST_SUITE_P(Types, BufferTypesTest, testing::ValuesIn(BufferTypes()),
                         NameOfBufferType);

SampleOptions WithReplacement() {
  SampleOptions options;
  options.replace = true;
  return options;
}

// Rows from which every type can draw: whole episodes.
SegmentBatch TwoEpisodes(TestStreams* streams) {
  return streams->Make({{0, 10, SegmentEnd::kTerminated}, {1, 8, SegmentEnd::kTruncated}});
}

// New priorities for the rows of a draw.
PriorityInfo PrioritiesFor(const Batch& batch, Rng* rng) {
  PriorityInfo info;
  const auto ids = batch.column<int64_t>("replay_unique_id");
  const auto slots = batch.column<int64_t>("replay_buffer_idx");
  info.replay_unique_id.assign(ids.begin(), ids.end());
  info.replay_buffer_idx.assign(slots.begin(), slots.end());
  for (size_t i = 0; i < ids.size(); ++i) {
    info.priority.push_back(static_cast<float>(rng->Uniform(0, 5)));
  }
  return info;
}

// In a batch of sequences: each row is the one after the row before it, if it begins an episode
// with the next episode, or padding and the same.
absl::Status CheckSequences(const Batch& batch, int64_t sequences) {
  const auto place = batch.column<float>("obs/place");
  const auto mask = batch.column<uint8_t>("mask");
  const bool across = batch.spec().Find("is_first").has_value();
  const int64_t length = batch.rows() / sequences;
  for (int64_t i = 0; i < batch.rows(); ++i) {
    if (i % length == 0) {
      if (mask[i] != 1) return absl::InternalError(absl::StrCat("row ", i, " is padding"));
      continue;
    }
    const float* const before = &place[4 * (i - 1)];
    const float* const at = &place[4 * i];
    const float steps = mask[i];
    const bool begins = across && batch.column<uint8_t>("is_first")[i] != 0;
    if (at[0] == before[0] && at[1] == before[1] + steps && at[2] == before[2] + begins &&
        at[3] == (begins ? 0 : before[3] + steps) && mask[i] <= mask[i - 1]) {
      continue;
    }
    return absl::InternalError(absl::StrCat("row ", i, " of stream ", at[0], ", step ", at[1],
                                            " follows stream ", before[0], ", step ", before[1]));
  }
  return absl::OkStatus();
}

// ----------------------------------------------------------------------------- against the model

// Every row that is drawn, by whatever way, is one of those that the plain buffer has, with its
// windows.
TEST_P(BufferTypesTest, RandomOperationsDrawTheRowsOfTheReference) {
  int64_t checked = 0;
  for (uint64_t seed = 0; seed < 36; ++seed) {
    Rng rng(seed, "types");
    BufferSettings settings;
    settings.capacity_rows = std::vector<int64_t>{1, 2, 17, 64}[seed % 4];
    settings.nstep = seed % 3 == 0 ? 3 : 1;
    SCOPED_TRACE(absl::StrCat("seed ", seed, ", capacity ", settings.capacity_rows, ", nstep ",
                              settings.nstep));
    const int64_t max_length = seed % 5 == 0 ? settings.capacity_rows + 3 : 4;
    std::unique_ptr<IBuffer> buffer = Make(settings);
    ReferenceBuffer reference(settings.capacity_rows, settings.nstep, settings.gamma);
    TestStreams streams(static_cast<int64_t>(seed % 2));
    for (int step = 0; step < 150; ++step) {
      SCOPED_TRACE(absl::StrCat("operation ", step));
      const uint64_t what = rng.UniformInt(40);
      if (what < 18) {
        const SegmentBatch push = RandomPush(&streams, &rng, max_length);
        reference.Push(push);
        ASSERT_THAT(buffer->Push(push, step), IsOk());
      } else if (what < 36) {
        // Rows have collect_iter 0, 1, 2, ... in the order of pushing.
        const int64_t iter = reference.newest_id();
        SampleOptions options = WithReplacement();
        if (what % 3 == 0) {
          options.newest = static_cast<int64_t>(
              1 + rng.UniformInt(static_cast<uint64_t>(reference.count() + 2)));
        }
        const absl::StatusOr<Batch> batch = buffer->Sample(7, iter, options);
        if (!batch.ok()) {
          ASSERT_THAT(batch, IsFailedPrecondition("the buffer holds 0"));
          ASSERT_EQ(buffer->count(), 0);
          continue;
        }
        ASSERT_THAT(reference.Check(*batch), IsOk());
        checked += batch->rows();
        if (GetParam().prioritized) {
          ASSERT_THAT(buffer->Update(PrioritiesFor(*batch, &rng)), IsOk());
        }
        if (const int64_t count = buffer->count(); count > 0) {
          DING_ASSERT_OK_AND_ASSIGN(const Batch all, buffer->Sample(count, iter));
          ASSERT_THAT(reference.Check(all), IsOk());
          checked += all.rows();
        }
      } else if (what < 39) {
        const TensorMap saved = Saved(*buffer);
        buffer = Make(settings);
        ASSERT_THAT(LoadFrom(buffer.get(), saved), IsOk());
        ASSERT_TRUE(SameBytes(saved, Saved(*buffer)));
      } else if (rng.UniformInt(2) == 0) {
        reference.Clear();
        buffer->Clear();
        ASSERT_EQ(buffer->count(), 0);
      }
      if (GetParam().of_rows && GetParam().name != "Elastic") {
        ASSERT_EQ(buffer->count(), reference.count());
      } else {
        ASSERT_LE(buffer->count(), reference.count());
      }
    }
  }
  EXPECT_GT(checked, 2000);
}

// ------------------------------------------------------------------------------------- threads

TEST_P(BufferTypesTest, ThreadsDoNotDisturbEachOther) {
  for (const bool stacks : {false, true}) {
    if (stacks && !GetParam().of_rows) continue;
    SCOPED_TRACE(absl::StrCat("stacks ", stacks));
    BufferSettings settings;
    settings.metrics = std::make_shared<RecordingSink>();
    settings.capacity_rows = 40;  // Few, and large draws: rows are evicted while others copy them.
    const std::unique_ptr<IBuffer> buffer = Make(settings);
    constexpr int kPushes = 600;
    constexpr int kDrawSize = 200;
    std::atomic<int> pushing{2};
    std::atomic<int> drawn{0};
    std::vector<std::thread> threads;
    for (int64_t pusher = 0; pusher < 2; ++pusher) {
      threads.emplace_back([&buffer, &pushing, &drawn, stacks, pusher] {
        TestStreams streams(0, stacks);
        Rng rng(static_cast<uint64_t>(pusher), "pusher");
        // On a busy machine the drawers may come late.
        for (int i = 0; i < kPushes || (drawn == 0 && i < 1000 * kPushes); ++i) {
          std::vector<SegmentPlan> plans;
          for (int64_t stream = 2 * pusher; stream < 2 * pusher + 2; ++stream) {
            plans.push_back({stream, static_cast<int64_t>(1 + rng.UniformInt(6)),
                             static_cast<SegmentEnd>(rng.UniformInt(3))});
          }
          EXPECT_THAT(buffer->Push(streams.Make(plans), i), IsOk());
        }
        --pushing;
      });
    }
    const bool prioritized = GetParam().prioritized;
    const auto check = [](const Batch& batch) {
      EXPECT_THAT(CheckRows(batch), IsOk());
      if (batch.spec().Find("weight").has_value()) {
        EXPECT_THAT(batch.column<float>("weight"),
                    testing::Each(AllOf(testing::Gt(0.0f), testing::Le(1.00001f))));
      }
      if (batch.spec().Find("mask").has_value()) {
        EXPECT_THAT(CheckSequences(batch, kDrawSize), IsOk());
      }
    };
    for (uint64_t drawer = 0; drawer < 2; ++drawer) {
      threads.emplace_back([&, drawer] {
        Rng rng(drawer, "drawer");
        for (bool last = false; !last;) {
          last = pushing == 0;
          const absl::StatusOr<Batch> batch = buffer->Sample(kDrawSize, 0, WithReplacement());
          if (absl::IsFailedPrecondition(batch.status())) continue;  // Cleared, or all used up.
          ASSERT_THAT(batch, IsOk());
          check(*batch);
          ++drawn;
          if (!prioritized) continue;
          EXPECT_THAT(buffer->Update(PrioritiesFor(*batch, &rng)), IsOk());
        }
      });
    }
    threads.emplace_back([&, this] {  // Every saved state can be loaded.
      do {
        const std::unique_ptr<IBuffer> copy = Make(settings);
        ASSERT_THAT(LoadFrom(copy.get(), Saved(*buffer)), IsOk());
        EXPECT_LE(copy->count(), settings.capacity_rows);
        const absl::StatusOr<Batch> batch = copy->Sample(kDrawSize, 0, WithReplacement());
        if (batch.ok()) check(*batch);
      } while (pushing > 0);
    });
    threads.emplace_back([&] {  // Clears, and otherwise looks on.
      for (int i = 0; pushing > 0; ++i) {
        if (i % 200 == 199) buffer->Clear();
        const int64_t count = buffer->count();  // Rows are pushed between the two calls.
        EXPECT_LE(count, settings.capacity_rows);
        EXPECT_LE(count, buffer->push_count());
      }
    });
    for (std::thread& thread : threads) thread.join();
    EXPECT_GT(drawn, 0);
  }
}

// ----------------------------------------------------------------------------- refused, and why

TEST_P(BufferTypesTest, RowsOfAnotherSpecAreRefused) {
  const std::unique_ptr<IBuffer> buffer = Make();
  TestStreams streams;
  ASSERT_THAT(buffer->Push(TwoEpisodes(&streams), 0), IsOk());
  const TensorMap before = Saved(*buffer);
  const auto push_with = [&](const std::vector<FieldSpec>& fields) {
    SegmentBatch push = streams.Make({{0, 1}});
    BatchBuilder rows = BatchBuilder::Create(MakeSpec(fields).value(), 1).value();
    for (int i = 0; i < rows.view().spec().size(); ++i) {
      std::memset(rows.view().raw_column(i), 0,
                  static_cast<size_t>(rows.view().spec().row_bytes(i)));
    }
    push.rows = std::move(rows).Seal(1);
    return buffer->Push(push, 0);
  };
  const std::vector<FieldSpec> fields(TestStreams::RowSpec()->fields().begin(),
                                      TestStreams::RowSpec()->fields().end());
  std::vector<FieldSpec> other = fields;
  other[2] = Discrete("action", 7);
  EXPECT_THAT(push_with(other),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(StartsWith("replay_buffer"), HasSubstr("field 'action' is"),
                             HasSubstr("0..6"), HasSubstr("expected int64[] in 0..999"))));
  other = fields;
  other[3].dtype = DType::kFloat64;
  EXPECT_THAT(push_with(other), IsInvalid("field 'reward' is float64[], expected float32[]"));
  other = fields;
  other.pop_back();
  EXPECT_THAT(push_with(other), IsInvalid("collect_iter", "expected"));
  EXPECT_TRUE(SameBytes(before, Saved(*buffer)));
}

TEST_P(BufferTypesTest, OnlySequencesHaveALengthThatADrawSets) {
  const std::unique_ptr<IBuffer> buffer = Make();
  TestStreams streams;
  ASSERT_THAT(buffer->Push(TwoEpisodes(&streams), 0), IsOk());
  const bool of_sequences = absl::StartsWith(GetParam().name, "Sequence");
  EXPECT_EQ(buffer->draws_sequences(), of_sequences || GetParam().name == "Episode");
  DING_ASSERT_OK_AND_ASSIGN(const Batch batch, buffer->Sample(2, 0));
  EXPECT_EQ(batch.sequence_length(), batch.rows() / 2);
  const TensorMap before = Saved(*buffer);
  SampleOptions options;
  options.sequence = 1000;
  EXPECT_THAT(buffer->Sample(2, 0, options),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(StartsWith("replay_buffer: sequences of 1000 rows are asked for "
                                        "(SampleOptions::sequence), "),
                             HasSubstr(of_sequences ? "expected at most "
                                                    : "or use a buffer of type 'sequence'"))));
  EXPECT_TRUE(SameBytes(before, Saved(*buffer)));
}

TEST_P(BufferTypesTest, DrawsOfNothingAreRefused) {
  const std::unique_ptr<IBuffer> buffer = Make();
  TestStreams streams;
  ASSERT_THAT(buffer->Push(TwoEpisodes(&streams), 0), IsOk());
  const TensorMap before = Saved(*buffer);
  for (const int64_t size : {int64_t{0}, int64_t{-1}, std::numeric_limits<int64_t>::min()}) {
    for (const bool replace : {false, true}) {
      SampleOptions options;
      options.replace = replace;
      EXPECT_THAT(
          buffer->Sample(size, 0, options),
          StatusIs(
              absl::StatusCode::kInvalidArgument,
              AllOf(StartsWith("replay_buffer: "),
                    HasSubstr(absl::StrCat("sample size is ", size, ", expected at least 1")))));
    }
  }
  for (const int64_t newest : {0, -3}) {
    SampleOptions options = WithReplacement();
    options.newest = newest;
    EXPECT_THAT(buffer->Sample(1, 0, options),
                IsInvalid(absl::StrCat("newest ", newest, " rows, expected at least 1")));
  }
  const int64_t too_many = buffer->count() + 1;
  EXPECT_THAT(buffer->Sample(too_many, 0),
              IsFailedPrecondition(absl::StrCat("cannot draw ", too_many, " "),
                                   absl::StrCat("the buffer holds ", too_many - 1)));
  EXPECT_TRUE(SameBytes(before, Saved(*buffer)));
}

// A buffer without priorities ignores all updates.
TEST_P(BufferTypesTest, PrioritiesOfWrongLengthAreRefusedAndOfUnknownRowsIgnored) {
  const std::unique_ptr<IBuffer> buffer = Make();
  TestStreams streams;
  ASSERT_THAT(buffer->Push(TwoEpisodes(&streams), 0), IsOk());
  const TensorMap before = Saved(*buffer);
  const std::vector<PriorityInfo> wrong_lengths = {
      {{1, 2}, {0}, {0, 1}}, {{1}, {0, 1}, {0, 1}}, {{1, 2}, {0, 1}, {}}, {{}, {0}, {0}}};
  for (const PriorityInfo& info : wrong_lengths) {
    const absl::Status status = buffer->Update(info);
    if (!GetParam().prioritized) {
      EXPECT_THAT(status, IsOk());
      continue;
    }
    EXPECT_THAT(status,
                StatusIs(absl::StatusCode::kInvalidArgument,
                         absl::StrCat("replay_buffer: ", info.priority.size(), " priorities for ",
                                      info.replay_unique_id.size(), " replay_unique_id and ",
                                      info.replay_buffer_idx.size(),
                                      " replay_buffer_idx, expected as many of each")));
  }
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  EXPECT_THAT(buffer->Update({{3, 3, 3, 3, 3}, {18, -1, kMax, -kMax - 1, 0}, {18, -1, 0, 0, kMax}}),
              IsOk());
  EXPECT_TRUE(SameBytes(before, Saved(*buffer)));
}

TEST_P(BufferTypesTest, StateOfAnotherVersionCapacityOrSpecIsRefused) {
  const std::unique_ptr<IBuffer> buffer = Make();
  TestStreams streams;
  ASSERT_THAT(buffer->Push(TwoEpisodes(&streams), 0), IsOk());
  const TensorMap before = Saved(*buffer);

  BufferSettings larger;
  larger.capacity_rows = 65;
  EXPECT_THAT(LoadFrom(Make(larger).get(), before),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(StartsWith("replay_buffer: "),
                             HasSubstr("saved capacity_rows is 64, expected 65"))));

  TensorMap later;
  const std::string version = GetParam().name == "Elastic" ? "ring/version" : "version";
  for (const auto& [name, tensor] : before) {
    later.Set(name, name == version ? Tensor::FromSpan<int64_t>({}, {99}) : tensor);
  }
  EXPECT_THAT(LoadFrom(buffer.get(), later),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(StartsWith("replay_buffer: "),
                             HasSubstr("its state has version 99, this program reads version "))));

  std::vector<FieldSpec> fields(TestStreams::RowSpec()->fields().begin(),
                                TestStreams::RowSpec()->fields().end());
  fields[2] = Discrete("action", 7);
  SegmentBatch push = streams.Make({{0, 1, SegmentEnd::kTerminated}});
  BatchBuilder rows = BatchBuilder::Create(MakeSpec(fields).value(), 1).value();
  for (int i = 0; i < static_cast<int>(fields.size()); ++i) {
    std::memset(rows.view().raw_column(i), 0, static_cast<size_t>(rows.view().spec().row_bytes(i)));
  }
  push.rows = std::move(rows).Seal(1);
  const std::unique_ptr<IBuffer> other = Make();
  ASSERT_THAT(other->Push(push, 0), IsOk());
  EXPECT_THAT(LoadFrom(buffer.get(), Saved(*other)),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(StartsWith("replay_buffer: "), HasSubstr("field 'action' is"),
                             HasSubstr("expected int64[] in 0..999"))));
  EXPECT_TRUE(SameBytes(before, Saved(*buffer)));
}

TEST_P(BufferTypesTest, TheStateOfAnotherTypeIsRefused) {
  TestStreams streams;
  const SegmentBatch push = TwoEpisodes(&streams);
  const std::unique_ptr<IBuffer> buffer = Make();
  ASSERT_THAT(buffer->Push(push, 0), IsOk());
  const TensorMap before = Saved(*buffer);
  for (const BufferType& type : BufferTypes()) {
    const std::unique_ptr<IBuffer> other = type.make({});
    ASSERT_THAT(other->Push(push, 0), IsOk());
    const TensorMap others = Saved(*other);
    // Sequences without priorities can be loaded where there are priorities.
    const bool same_kind =
        std::includes(before.begin(), before.end(), others.begin(), others.end(),
                      [](const auto& a, const auto& b) { return a.first < b.first; });
    const absl::Status status = LoadFrom(buffer.get(), others);
    if (type.name == GetParam().name) {
      EXPECT_THAT(status, IsOk());
    } else if (!status.ok()) {
      EXPECT_THAT(std::string(status.message()), StartsWith("replay_buffer: ")) << type.name;
      EXPECT_TRUE(SameBytes(before, Saved(*buffer))) << type.name;
    } else {
      // One of the settings of the same class.
      EXPECT_TRUE(same_kind) << type.name;
      ASSERT_THAT(LoadFrom(buffer.get(), before), IsOk());
    }
  }
}

TEST_P(BufferTypesTest, ACapacityThatNoMachineHasIsRefusedWithTheSum) {
  BufferSettings settings;
  settings.capacity_rows = int64_t{1} << 29;
  const std::unique_ptr<IBuffer> buffer = Make(settings);
  constexpr int64_t kWidth = int64_t{1} << 20;
  const SpecPtr spec = MakeSpec({Box("obs", {kWidth}), Scalar("reward", DType::kFloat32)}).value();
  BatchBuilder rows = BatchBuilder::Create(spec, 1).value();
  BatchBuilder final_obs =
      BatchBuilder::Create(MakeSpec({Box("obs", {kWidth})}).value(), 1).value();
  for (const BatchBuilder* block : {&rows, &final_obs}) {
    std::memset(block->view().raw_column(0), 0, 4 * kWidth);
  }
  std::memset(rows.view().raw_column(1), 0, 4);
  SegmentBatch push;
  push.rows = std::move(rows).Seal(1);
  push.final_obs = std::move(final_obs).Seal(1);
  push.segments = {{0, 0, 0, 1, SegmentEnd::kTerminated}};
  EXPECT_THAT(buffer->Push(push, 0),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       AllOf(StartsWith("replay_buffer: capacity of 536870912 rows x 4194312 bytes "
                                        "= 2251804.1 GB is more than the memory of "),
                             HasSubstr(" GB"))));
  EXPECT_EQ(buffer->count(), 0);
  EXPECT_EQ(buffer->push_count(), 0);
}

// ---------------------------------------------------------------------------------------- files

TEST_P(BufferTypesTest, AFullDiskLeavesTheOldFile) {
  const std::string path = JoinPath(testing::TempDir(), GetParam().name);
  const std::unique_ptr<IBuffer> buffer = Make();
  TestStreams streams;
  ASSERT_THAT(buffer->Push(TwoEpisodes(&streams), 0), IsOk());
  ASSERT_THAT(SaveData(*buffer, path), IsOk());
  const int64_t count = buffer->count();
  DING_ASSERT_OK_AND_ASSIGN(const std::string old, ReadFile(path));
  for (int i = 0; i < 4; ++i) ASSERT_THAT(buffer->Push(TwoEpisodes(&streams), 0), IsOk());
  {
    const FileSizeLimit limit(old.size());
    EXPECT_THAT(SaveData(*buffer, path), IsResourceExhausted(path));
  }
  EXPECT_EQ(ReadFile(path).value(), old);
  const std::unique_ptr<IBuffer> loaded = Make();
  ASSERT_THAT(LoadData(loaded.get(), path), IsOk());
  EXPECT_EQ(loaded->count(), count);
  ASSERT_THAT(SaveData(*loaded, path), IsOk());
  EXPECT_EQ(ReadFile(path).value(), old);
}

// Step `t` of an episode of three steps.
Transition StepOfEpisode(int t) {
  Transition step;
  step.Set("obs", {1.0 * t}).Set("action", t % 2).Set("reward", 1.0).Set("next_obs", {t + 1.0});
  step.end = t == 2 ? SegmentEnd::kTerminated : SegmentEnd::kCut;
  return step;
}

TEST_P(BufferTypesTest, Push_Transitions_AreRowsThatFollowEachOther) {
  const std::unique_ptr<IBuffer> buffer = Make();
  for (int episode = 0; episode < 6; ++episode) {
    const std::vector<Transition> steps = {StepOfEpisode(0), StepOfEpisode(1), StepOfEpisode(2)};
    ASSERT_THAT(buffer->Push(steps, 3 * episode), IsOk());
  }
  EXPECT_EQ(buffer->push_count(), 18);
  DING_ASSERT_OK_AND_ASSIGN(const Batch batch, buffer->Sample(4, 0, WithReplacement()));
  const auto obs = batch.column<float>("obs");
  const auto next_obs = batch.column<float>("next_obs");
  const auto n_step = batch.column<int32_t>("n_step");
  for (int64_t i = 0; i < batch.rows(); ++i) {
    EXPECT_EQ(next_obs[i], obs[i] + static_cast<float>(n_step[i]));
  }
}

TEST_P(BufferTypesTest, Push_OneTransitionAtATime_LinksNothing) {
  if (!GetParam().of_rows) GTEST_SKIP() << "draws more than single rows";
  const std::unique_ptr<IBuffer> buffer = Make();
  for (int i = 0; i < 30; ++i) ASSERT_THAT(buffer->Push(StepOfEpisode(i % 3), i), IsOk());
  DING_ASSERT_OK_AND_ASSIGN(const Batch batch, buffer->Sample(8, 0));
  for (const int32_t n_step : batch.column<int32_t>("n_step")) EXPECT_EQ(n_step, 1);
}

TEST_P(BufferTypesTest, Close_Twice_WritesOnceAndRefusesFurtherRows) {
  const auto sink = std::make_shared<RecordingSink>();
  BufferSettings settings;
  settings.metrics = sink;
  const std::unique_ptr<IBuffer> buffer = Make(settings);
  TestStreams streams;
  ASSERT_THAT(buffer->Push(TwoEpisodes(&streams), 0), IsOk());
  const TensorMap before = Saved(*buffer);
  ASSERT_THAT(buffer->Close(), IsOk());
  const size_t written = sink->texts().size();
  EXPECT_GT(written, 0);
  ASSERT_THAT(buffer->Close(), IsOk());
  EXPECT_EQ(sink->texts().size(), written);
  EXPECT_THAT(buffer->Push(TwoEpisodes(&streams), 0),
              StatusIs(absl::StatusCode::kFailedPrecondition, "replay_buffer: is closed"));
  EXPECT_THAT(buffer->Sample(1, 0),
              StatusIs(absl::StatusCode::kFailedPrecondition, "replay_buffer: is closed"));
  EXPECT_TRUE(SameBytes(before, Saved(*buffer)));
}

}  // namespace
}  // namespace ding
