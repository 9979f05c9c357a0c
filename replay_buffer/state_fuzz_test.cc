// Loads damaged state into every type of buffer. Loading must return an error and leave the buffer
// as it was, or make a buffer that can be used and saved again. It must not take more memory than
// the state accounts for. Run this under a sanitizer; base/fuzz_testing.h says how to try more
// rounds.
#include <malloc.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/file_testing.h"
#include "ding_worker/base/fuzz_testing.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/goal_fields.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/state.h"
#include "ding_worker/data/tensor.h"
#include "ding_worker/metrics/sink.h"
#include "ding_worker/replay_buffer/buffer.h"
#include "ding_worker/replay_buffer/buffer.pb.h"
#include "ding_worker/replay_buffer/buffer_file.h"
#include "ding_worker/replay_buffer/buffer_registry.h"
#include "ding_worker/replay_buffer/hindsight_buffer.pb.h"
#include "ding_worker/replay_buffer/testing/buffer_types.h"
#include "ding_worker/replay_buffer/testing/saved_state.h"
#include "ding_worker/replay_buffer/testing/test_streams.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

constexpr uint64_t kRounds = 600;
constexpr int64_t kCapacityRows = 64;
// More than a buffer of 64 rows takes, however long the damaged state says that its rows are.
constexpr int64_t kMostBytes = int64_t{4} << 20;

// What the rows of a buffer have besides.
enum class Rows { kPlain, kStacks, kGoals };

struct FuzzCase {
  BufferType type;
  Rows rows = Rows::kPlain;
};

// Goals can be relabelled in these buffers.
BufferType Hindsight(const std::string& name, HindsightBufferConfig::Goal goal) {
  const auto make = [goal](const BufferSettings& settings) {
    HindsightBufferConfig params;
    params.set_goal(goal);
    params.set_radius(0.5);
    BufferConfig config;
    config.set_type("hindsight");
    config.set_replay_buffer_size(settings.capacity_rows);
    config.mutable_params()->PackFrom(params);
    return create_buffer(config, ComponentDeps()).value();
  };
  return {name, make, /*of_rows=*/true, /*prioritized=*/false};
}

std::vector<FuzzCase> FuzzCases() {
  std::vector<FuzzCase> cases;
  for (const BufferType& type : BufferTypes()) cases.push_back({type});
  for (const BufferType& type : BufferTypes()) {
    if (type.name != "Naive" && type.name != "Advanced" && type.name != "SequenceAcross") continue;
    cases.push_back({type, Rows::kStacks});
    cases.back().type.name += "OfStacks";
  }
  cases.push_back({Hindsight("HindsightFuture", HindsightBufferConfig::FUTURE), Rows::kGoals});
  cases.push_back({Hindsight("HindsightEpisode", HindsightBufferConfig::EPISODE), Rows::kGoals});
  return cases;
}

class StateFuzz : public testing::TestWithParam<FuzzCase> {};

INSTANTIATE_TEST_SUITE_P(Types, StateFuzz, testing::ValuesIn(FuzzCases()),
                         [](const auto& info) { return info.param.type.name; });

// Returns the rows with the field "obs/place" as a goal that was achieved, and as one that is
// desired. The place after a row is another one, so each reward is that of a goal which was not
// reached.
Batch WithGoals(const Batch& rows) {
  std::vector<FieldSpec> fields = {Box(kAchievedGoalField, {4}), Box(kDesiredGoalField, {4})};
  fields.insert(fields.end(), rows.spec().fields().begin(), rows.spec().fields().end());
  BatchBuilder with =
      BatchBuilder::Create(MakeSpec(std::move(fields)).value(), rows.rows()).value();
  for (int field = 0; field < with.spec().size(); ++field) {
    const std::byte* const from = rows.view().raw_column(std::max(0, field - 2));
    std::memcpy(with.view().raw_column(field), from,
                static_cast<size_t>(rows.rows() * with.spec().row_bytes(field)));
  }
  const std::optional<int> reward = with.spec().Find("reward");
  if (reward.has_value()) {
    for (float& value : with.column<float>(*reward)) value = -1;
  }
  return std::move(with).Seal(rows.rows());
}

SegmentBatch RowsOf(const FuzzCase& of, SegmentBatch data) {
  if (of.rows != Rows::kGoals) return data;
  data.rows = WithGoals(data.rows);
  data.final_obs = WithGoals(data.final_obs);
  return data;
}

TestStreams StreamsOf(const FuzzCase& of) {
  return TestStreams(/*first_step=*/0, of.rows == Rows::kStacks);
}

std::unique_ptr<IBuffer> Make(const BufferType& type) {
  BufferSettings settings;
  settings.capacity_rows = kCapacityRows;
  settings.nstep = 2;
  return type.make(settings);
}

// The states of an empty buffer, of one that is half full, and of one that has wrapped.
std::vector<TensorMap> GoodStates(const FuzzCase& of) {
  std::vector<TensorMap> states;
  const std::unique_ptr<IBuffer> buffer = Make(of.type);
  TestStreams streams = StreamsOf(of);
  Rng rng(7, "states");
  for (const int pushes : {0, 4, 30}) {
    for (int i = 0; i < pushes; ++i) {
      EXPECT_THAT(buffer->Push(RowsOf(of, RandomPush(&streams, &rng, 6)), i), IsOk());
    }
    states.push_back(Saved(*buffer));
  }
  return states;
}

int64_t AllocatedBytes() {
  const struct mallinfo2 info = mallinfo2();
  return static_cast<int64_t>(info.uordblks + info.hblkhd);
}

// Remembers the most memory that was in use when one of its functions was called.
class WatchingReader : public StateReader {
 public:
  explicit WatchingReader(StateReader* inner) : inner_(*inner), before_(AllocatedBytes()) {}

  absl::StatusOr<TensorInfo> Info(absl::string_view name) const override {
    Watch();
    return inner_.Info(name);
  }
  absl::Status Read(absl::string_view name, absl::Span<const absl::Span<char>> parts) override {
    Watch();
    return inner_.Read(name, parts);
  }
  std::vector<std::string> Names() const override { return inner_.Names(); }

  int64_t most_bytes() const { return most_bytes_; }

 private:
  void Watch() const { most_bytes_ = std::max(most_bytes_, AllocatedBytes() - before_); }

  StateReader& inner_;
  const int64_t before_;
  mutable int64_t most_bytes_ = 0;
};

Tensor MakeTensor(DType dtype, Shape shape, absl::string_view bytes) {
  std::shared_ptr<std::byte> storage = AllocateAligned(static_cast<int64_t>(bytes.size()));
  std::byte* const data = storage.get();
  if (!bytes.empty()) std::memcpy(data, bytes.data(), bytes.size());
  return Tensor(dtype, std::move(shape), std::move(storage), data);
}

// Writes a number that is likely to break a reader.
void OverwriteElement(Rng* rng, size_t width, std::string* bytes) {
  const int64_t interesting[] = {0,
                                 1,
                                 -1,
                                 63,
                                 64,
                                 65,
                                 int64_t{1} << 30,
                                 int64_t{1} << 60,
                                 INT32_MAX,
                                 INT32_MIN,
                                 INT64_MAX,
                                 INT64_MIN,
                                 static_cast<int64_t>(rng->UniformInt(64)),
                                 -static_cast<int64_t>(rng->UniformInt(64)),
                                 static_cast<int64_t>(rng->Next64())};
  const size_t elements = bytes->size() / width;
  if (elements == 0) return;
  const int64_t value = interesting[rng->UniformInt(std::size(interesting))];
  std::memcpy(&(*bytes)[rng->UniformInt(elements) * width], &value, width);
}

Tensor Mutated(const Tensor& good, bool is_spec, Mutator* mutator) {
  Rng* const rng = mutator->rng();
  std::string bytes(good.bytes());
  DType dtype = good.dtype();
  Shape shape = good.shape();
  const auto width = static_cast<size_t>(SizeOf(dtype));
  if (is_spec) {
    bytes = mutator->Mutate(bytes);
    if (mutator->Coin()) bytes = WithChecksum(bytes);
    return MakeTensor(dtype, {static_cast<int64_t>(bytes.size())}, bytes);
  }
  switch (rng->UniformInt(6)) {
    case 0:
      for (uint64_t left = 1 + rng->UniformInt(4); left > 0 && !bytes.empty(); --left) {
        bytes[rng->UniformInt(bytes.size())] ^= static_cast<char>(1 << rng->UniformInt(8));
      }
      break;
    case 1:
    case 2:
      OverwriteElement(rng, width, &bytes);
      break;
    case 3: {  // Copy one element over another.
      const size_t elements = bytes.size() / width;
      if (elements == 0) break;
      const std::string element = bytes.substr(rng->UniformInt(elements) * width, width);
      bytes.replace(rng->UniformInt(elements) * width, width, element);
      break;
    }
    case 4: {  // Change the number of rows, or set it to none.
      if (shape.empty()) shape = {1};
      const size_t row = shape[0] == 0 ? 0 : bytes.size() / static_cast<size_t>(shape[0]);
      shape[0] = static_cast<int64_t>(rng->UniformInt(static_cast<uint64_t>(shape[0]) + 3));
      bytes.resize(static_cast<size_t>(shape[0]) * row, '\1');
      if (row == 0) shape = {0};
      break;
    }
    default: {  // Declare the same bytes as another type.
      const DType others[] = {DType::kBool,  DType::kUint8,   DType::kInt32,
                              DType::kInt64, DType::kFloat32, DType::kFloat64};
      dtype = others[rng->UniformInt(std::size(others))];
      const auto element = static_cast<size_t>(SizeOf(dtype));
      bytes.resize(bytes.size() / element * element);
      shape = {static_cast<int64_t>(bytes.size() / element)};
    }
  }
  return MakeTensor(dtype, std::move(shape), bytes);
}

// Damages one or several tensors, removes one, exchanges two, or takes one from another state.
TensorMap Damaged(const TensorMap& good, const TensorMap& other, Mutator* mutator) {
  Rng* const rng = mutator->rng();
  const auto any = [rng](const TensorMap& map) {
    return map.begin() + static_cast<int64_t>(rng->UniformInt(map.size()));
  };
  const auto victim = any(good);
  const auto second = any(good);
  const auto stranger = any(other);
  const uint64_t how = rng->UniformInt(10);
  TensorMap damaged;
  for (const auto& [name, tensor] : good) {
    if (name != victim->first && !(how == 0 && mutator->Coin())) {
      damaged.Set(name, how == 1 && name == second->first ? victim->second : tensor);
    } else if (how == 1) {
      damaged.Set(name, second->second);
    } else if (how == 2) {
      damaged.Set(name, stranger->second);
    } else if (how != 3) {
      damaged.Set(name, Mutated(tensor, absl::EndsWith(name, "store/spec"), mutator));
    }
  }
  return damaged;
}

// Checks that the buffer can draw, can take rows, and saves a state that it can load.
void ExpectUsable(const FuzzCase& of, IBuffer* buffer) {
  const BufferType& type = of.type;
  SampleOptions options;
  options.replace = true;
  TestStreams streams = StreamsOf(of);
  for (int i = 0; i < 4; ++i) {
    const int64_t count = buffer->count();
    ASSERT_GE(count, 0);
    ASSERT_LE(count, kCapacityRows);
    ASSERT_GE(buffer->push_count(), 0);
    const absl::StatusOr<Batch> batch = buffer->Sample(5, i, options);
    // Rows that were counted may be stale by now.
    ASSERT_TRUE(batch.ok() || absl::IsFailedPrecondition(batch.status())) << batch.status();
    ASSERT_TRUE(batch.ok() || count == 0 || type.prioritized) << batch.status();
    const TensorMap saved = Saved(*buffer);
    const std::unique_ptr<IBuffer> copy = Make(type);
    ASSERT_THAT(LoadFrom(copy.get(), saved), IsOk());
    ASSERT_TRUE(SameBytes(saved, Saved(*copy)));
    if (i == 2) buffer->Clear();
    // A push may be refused only because the damaged state has other fields.
    const absl::Status pushed = buffer->Push(
        RowsOf(of, streams.Make({{i % 3, 9}, {3, 5 * i + 1, static_cast<SegmentEnd>(i % 3)}})), i);
    ASSERT_TRUE(pushed.ok() || absl::IsInvalidArgument(pushed)) << pushed;
  }
}

using Outcomes = std::map<absl::StatusCode, int>;

// Checks that the outcomes vary: a fuzzer tests nothing if all mutants are alike, or if all are
// refused at the first check.
void ExpectVaried(const Outcomes& outcomes) {
  for (const auto& [code, count] : outcomes) {
    EXPECT_TRUE(code == absl::StatusCode::kOk || code == absl::StatusCode::kDataLoss ||
                code == absl::StatusCode::kInvalidArgument || code == absl::StatusCode::kNotFound ||
                code == absl::StatusCode::kFailedPrecondition ||
                code == absl::StatusCode::kUnimplemented ||
                code == absl::StatusCode::kResourceExhausted)
        << count << " times " << absl::StatusCodeToString(code);
  }
  if (FuzzRounds(kRounds) < kRounds) return;
  EXPECT_GT(outcomes.count(absl::StatusCode::kOk), 0u);
  EXPECT_GE(outcomes.size(), 3u);
}

// Loads by `load` into an empty buffer or into one that holds rows, and checks the result.
class Victim {
 public:
  explicit Victim(FuzzCase of) : case_(std::move(of)) {
    const std::unique_ptr<IBuffer> used = Make(case_.type);
    const SegmentBatch rows = StreamsOf(case_).Make({{0, 6, SegmentEnd::kTerminated}, {1, 3}});
    EXPECT_THAT(used->Push(RowsOf(case_, rows), 0), IsOk());
    used_ = Saved(*used);
    empty_ = Saved(*Make(case_.type));
  }

  template <typename Load>
  void Try(Mutator* mutator, Load load) {
    const bool holds_rows = mutator->Coin();
    const std::unique_ptr<IBuffer> buffer = Make(case_.type);
    ASSERT_THAT(LoadFrom(buffer.get(), holds_rows ? used_ : empty_), IsOk());
    const absl::Status status = load(buffer.get());
    ++outcomes_[status.code()];
    if (status.ok()) {
      ExpectUsable(case_, buffer.get());
    } else {
      EXPECT_TRUE(SameBytes(holds_rows ? used_ : empty_, Saved(*buffer))) << status;
    }
  }
  const Outcomes& outcomes() const { return outcomes_; }

 private:
  const FuzzCase case_;
  TensorMap used_;
  TensorMap empty_;
  Outcomes outcomes_;
};

TEST_P(StateFuzz, DamagedTensorsAreRefusedOrHarmless) {
  const std::vector<TensorMap> states = GoodStates(GetParam());
  Victim victim(GetParam());
  Fuzz(kRounds, [&](Mutator* mutator) {
    const TensorMap& good = states[mutator->rng()->UniformInt(states.size())];
    const TensorMap& other = states[mutator->rng()->UniformInt(states.size())];
    StateDict state(Damaged(good, other, mutator), "damaged state");
    WatchingReader reader(&state);
    victim.Try(mutator, [&](IBuffer* buffer) { return buffer->LoadState(&reader); });
    EXPECT_LE(reader.most_bytes(), kMostBytes);
  });
  ExpectVaried(victim.outcomes());
}

TEST_P(StateFuzz, DamagedFilesWithValidChecksumAreRefusedOrHarmless) {
  const std::string path =
      JoinPath(testing::TempDir(), absl::StrCat("fuzz_", GetParam().type.name));
  const std::unique_ptr<IBuffer> buffer = Make(GetParam().type);
  ASSERT_THAT(LoadFrom(buffer.get(), GoodStates(GetParam())[1]), IsOk());
  ASSERT_THAT(SaveData(*buffer, path), IsOk());
  DING_ASSERT_OK_AND_ASSIGN(const std::string good, ReadFile(path));
  Victim victim(GetParam());
  Fuzz(kRounds / 4, [&](Mutator* mutator) {
    OverwriteFile(path, WithChecksum(mutator->Mutate(good)));
    victim.Try(mutator, [&](IBuffer* target) { return LoadData(target, path); });
  });
  ExpectVaried(victim.outcomes());
}

}  // namespace
}  // namespace ding
