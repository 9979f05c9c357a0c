// A selector of one's own, registered as any user would, works with every type of buffer.
#include "ding_worker/replay_buffer/selection/selector.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/sample_columns.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/state.h"
#include "ding_worker/data/tensor.h"
#include "ding_worker/metrics/sink.h"
#include "ding_worker/replay_buffer/advanced_buffer.pb.h"
#include "ding_worker/replay_buffer/buffer.h"
#include "ding_worker/replay_buffer/buffer.pb.h"
#include "ding_worker/replay_buffer/buffer_registry.h"
#include "ding_worker/replay_buffer/sequence_buffer.pb.h"
#include "ding_worker/replay_buffer/testing/saved_state.h"
#include "ding_worker/replay_buffer/testing/test_streams.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

// The newest first, over and over. Counts its draws, which are saved, and the priorities it was
// told.
class NewestFirst : public ISelector {
 public:
  absl::Status Select(const Candidates& from, int64_t newest, bool /*replace*/, Rng* /*rng*/,
                      absl::Span<int64_t> ranks) override {
    for (size_t i = 0; i < ranks.size(); ++i) {
      ranks[i] = from.size() - 1 - static_cast<int64_t>(i) % newest;
      if (i > 0 && newest > 1) {
        EXPECT_LT(from.Id(ranks[i]), from.Id(ranks[i - 1]));
      }
    }
    ++draws_;
    return absl::OkStatus();
  }
  void Update(const PriorityInfo& info) override {
    updates_ += static_cast<int64_t>(info.priority.size());
  }
  StateSnapshot Snapshot() const override {
    return [draws = draws_, updates = updates_](StateWriter* writer) {
      const absl::Status status = writer->WriteInt("draws", draws);
      return status.ok() ? writer->WriteInt("updates", updates) : status;
    };
  }
  absl::Status LoadState(StateReader* reader) override {
    DING_ASSIGN_OR_RETURN(const int64_t draws, reader->ReadInt("draws"));
    DING_ASSIGN_OR_RETURN(const int64_t updates, reader->ReadInt("updates"));
    draws_ = draws;
    updates_ = updates;
    return absl::OkStatus();
  }

 private:
  int64_t draws_ = 0;
  int64_t updates_ = 0;
};

// Draws a random number and then does what must not be done.
class Faulty : public ISelector {
 public:
  explicit Faulty(const std::string& fault) : fault_(fault) {}
  absl::Status Select(const Candidates& from, int64_t /*newest*/, bool /*replace*/, Rng* rng,
                      absl::Span<int64_t> ranks) override {
    rng->Next32();
    if (fault_ == "throws") throw std::runtime_error("out of ideas");
    if (fault_ == "fails") return absl::UnavailableError("not today");
    for (int64_t& rank : ranks) rank = 0;
    ranks[ranks.size() / 2] = fault_ == "before" ? -1 : from.size();
    return absl::OkStatus();
  }

 private:
  const std::string fault_;
};

absl::StatusOr<std::unique_ptr<ISelector>> MakeNewestFirst(const SelectorConfig& /*config*/) {
  return std::make_unique<NewestFirst>();
}
template <int kFault>
absl::StatusOr<std::unique_ptr<ISelector>> MakeFaulty(const SelectorConfig& /*config*/) {
  constexpr const char* kFaults[] = {"throws", "fails", "before", "after"};
  return std::make_unique<Faulty>(kFaults[kFault]);
}
DING_REGISTER(SelectorRegistry(), "newest_first", MakeNewestFirst, "the newest, over and over");
DING_REGISTER(SelectorRegistry(), "throws", MakeFaulty<0>, "throws an exception");
DING_REGISTER(SelectorRegistry(), "fails", MakeFaulty<1>, "returns an error");
DING_REGISTER(SelectorRegistry(), "before", MakeFaulty<2>, "chooses a rank below the first");
DING_REGISTER(SelectorRegistry(), "after", MakeFaulty<3>, "chooses a rank beyond the last");

BufferConfig Config(const std::string& type, const std::string& selector) {
  BufferConfig config;
  config.set_type(type);
  config.set_replay_buffer_size(64);
  if (type == "sequence") {
    SequenceBufferConfig sequences;
    sequences.set_unroll_len(2);
    config.mutable_params()->PackFrom(sequences);
  }
  if (!selector.empty()) config.mutable_selector()->set_type(selector);
  return config;
}

std::unique_ptr<IBuffer> Make(const BufferConfig& config) {
  absl::StatusOr<std::unique_ptr<IBuffer>> buffer = create_buffer(config, ComponentDeps());
  EXPECT_THAT(buffer, IsOk());
  return *std::move(buffer);
}

// Four episodes of three rows each, the last one under way.
std::unique_ptr<IBuffer> Filled(const BufferConfig& config) {
  std::unique_ptr<IBuffer> buffer = Make(config);
  TestStreams streams;
  for (int i = 0; i < 4; ++i) {
    const SegmentEnd end = i < 3 ? SegmentEnd::kTerminated : SegmentEnd::kCut;
    EXPECT_THAT(buffer->Push(streams.Make({{0, 3, end}}), 0), IsOk());
  }
  return buffer;
}

std::vector<int64_t> Ids(const Batch& batch) {
  const absl::Span<const int64_t> ids = batch.column<int64_t>("replay_unique_id");
  return {ids.begin(), ids.end()};
}

class SelectorTest : public testing::TestWithParam<const char*> {};

TEST_P(SelectorTest, AUserSelectorChoosesInEveryTypeOfBuffer) {
  const std::string type = GetParam();
  const auto buffer = Filled(Config(type, "newest_first"));
  DING_ASSERT_OK_AND_ASSIGN(const Batch batch, buffer->Sample(3, 0));
  if (type == "sequence") {
    // Two sequences of two rows in an episode of three.
    EXPECT_THAT(Ids(batch), ElementsAre(10, 11, 9, 10, 7, 8));
  } else if (type == "episode") {
    EXPECT_THAT(Ids(batch), ElementsAre(6, 7, 8, 3, 4, 5, 0, 1, 2));
  } else {
    EXPECT_THAT(Ids(batch), ElementsAre(11, 10, 9));
  }
  SampleOptions options;
  options.newest = 1;
  options.replace = true;
  DING_ASSERT_OK_AND_ASSIGN(const Batch newest, buffer->Sample(2, 0, options));
  const std::vector<int64_t> ids = Ids(newest);
  const size_t half = ids.size() / 2;
  EXPECT_EQ(std::vector<int64_t>(ids.begin(), ids.begin() + static_cast<ptrdiff_t>(half)),
            std::vector<int64_t>(ids.begin() + static_cast<ptrdiff_t>(half), ids.end()));
}

TEST_P(SelectorTest, ASelectorChoosesFromTheRangeOfTheDraw) {
  const auto buffer = Filled(Config(GetParam(), "newest_first"));
  SampleOptions options;
  options.range = AgeRange{-3, -1};
  DING_ASSERT_OK_AND_ASSIGN(const Batch batch, buffer->Sample(2, 0, options));
  DING_ASSERT_OK_AND_ASSIGN(const Batch all, buffer->Sample(3, 0));
  const std::vector<int64_t> ids = Ids(all);
  EXPECT_EQ(Ids(batch),
            std::vector<int64_t>(ids.begin() + static_cast<ptrdiff_t>(ids.size() / 3), ids.end()))
      << "all but the newest one";

  const auto faulty = Filled(Config(GetParam(), "after"));
  EXPECT_THAT(faulty->Sample(2, 0, options),
              IsInternal(absl::StrCat("expected 0 to ", faulty->count() - 2)));
}

TEST_P(SelectorTest, TheStateOfASelectorIsSavedWithTheBuffer) {
  const auto buffer = Filled(Config(GetParam(), "newest_first"));
  ASSERT_THAT(buffer->Sample(1, 0), IsOk());
  ASSERT_THAT(buffer->Update({{0.5f}, {11}, {11}}), IsOk());
  const TensorMap saved = Saved(*buffer);
  const auto loaded = Make(Config(GetParam(), "newest_first"));
  ASSERT_THAT(LoadFrom(loaded.get(), saved), IsOk());
  EXPECT_TRUE(SameBytes(saved, Saved(*loaded)));
  bool found = false;
  for (const auto& [name, tensor] : saved) {
    if (name != "selector/draws" && name != "ring/selector/draws") continue;
    found = true;
    EXPECT_EQ(*tensor.data<int64_t>().data(), 1);
  }
  EXPECT_TRUE(found);
  // A buffer whose own selector has no state has none to give.
  EXPECT_THAT(LoadFrom(loaded.get(), Saved(*Filled(Config(GetParam(), "")))), IsNotFound("draws"));
  EXPECT_TRUE(SameBytes(saved, Saved(*loaded)));
}

TEST_P(SelectorTest, AFaultySelectorFailsItsDrawOnly) {
  for (const std::string fault : {"throws", "fails", "before", "after"}) {
    const auto buffer = Filled(Config(GetParam(), fault));
    const TensorMap before = Saved(*buffer);
    const absl::StatusOr<Batch> batch = buffer->Sample(3, 0);
    if (fault == "throws") {
      EXPECT_THAT(batch, IsInternal("the selector threw an exception: out of ideas"));
    } else if (fault == "fails") {
      EXPECT_THAT(batch, IsUnavailable("not today"));
    } else {
      EXPECT_THAT(batch, IsInternal(absl::StrCat("chose a rank that no candidate has, "
                                                 "expected 0 to ",
                                                 buffer->count() - 1)));
    }
    EXPECT_TRUE(SameBytes(before, Saved(*buffer))) << fault;
  }
}

TEST_P(SelectorTest, UnknownTypesAndParamsWithoutATypeAreRefused) {
  EXPECT_THAT(create_buffer(Config(GetParam(), "newest"), ComponentDeps()),
              IsInvalid("unknown selector type 'newest'", "newest_first", "uniform"));
  BufferConfig config = Config(GetParam(), "");
  config.mutable_selector()->mutable_params()->PackFrom(SequenceBufferConfig());
  EXPECT_THAT(create_buffer(config, ComponentDeps()), IsInvalid("expected selector.type with it"));
  config.mutable_selector()->set_type("uniform");
  EXPECT_THAT(create_buffer(config, ComponentDeps()), IsInvalid("type 'uniform' takes none"));
}

INSTANTIATE_TEST_SUITE_P(Types, SelectorTest,
                         testing::Values("naive", "advanced", "deque", "elastic", "sequence",
                                         "episode"));

TEST(SelectorTest, WithoutProportionalDrawsAllImportanceWeightsAre1) {
  const auto buffer = Filled(Config("advanced", "uniform"));
  ASSERT_THAT(buffer->Update({{100.0f}, {4}, {4}}), IsOk());
  DING_ASSERT_OK_AND_ASSIGN(const Batch batch, buffer->Sample(12, 0));
  EXPECT_THAT(batch.column<float>("weight"), Each(1.0f));
  // Without replacement every row comes once, the one of a high priority too.
  std::vector<int64_t> ids = Ids(batch);
  std::sort(ids.begin(), ids.end());
  EXPECT_THAT(ids, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11));
}

TEST(SelectorTest, RetiredRowsAreNotCandidates) {
  BufferConfig config = Config("advanced", "newest_first");
  AdvancedBufferConfig params;
  params.set_max_use(1);
  config.mutable_params()->PackFrom(params);
  const auto buffer = Filled(config);
  for (const int64_t newest : {11, 9, 7, 5, 3, 1}) {
    DING_ASSERT_OK_AND_ASSIGN(const Batch batch, buffer->Sample(2, 0));
    EXPECT_THAT(Ids(batch), ElementsAre(newest, newest - 1));
  }
  EXPECT_EQ(buffer->count(), 0);
}

}  // namespace
}  // namespace ding
