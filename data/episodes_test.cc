#include "ding_worker/data/episodes.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/file_testing.h"
#include "ding_worker/base/fuzz_testing.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/safetensors.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/state.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::ElementsAre;

// Episodes of that many rows; the reward of row i of episode e is e + 1.
SegmentBatch Episodes(const std::vector<int64_t>& lengths) {
  int64_t rows = 0;
  SegmentBatch data;
  for (const int64_t length : lengths) {
    data.segments.push_back({static_cast<int64_t>(data.segments.size()), 0, rows, length,
                             rows == 0 ? SegmentEnd::kTerminated : SegmentEnd::kTruncated});
    rows += length;
  }
  BatchBuilder builder =
      *BatchBuilder::Create(*MakeSpec({Box("obs", {2}, {-9}, {99}), Discrete("action", 3),
                                       Scalar("reward", DType::kFloat32)}),
                            rows);
  for (int64_t row = 0; row < rows; ++row) {
    builder.column<float>(0)[2 * row] = static_cast<float>(row);
    builder.column<float>(0)[2 * row + 1] = static_cast<float>(-row);
    builder.column<int64_t>(1)[row] = row % 3;
  }
  for (const Segment& segment : data.segments) {
    for (int64_t i = 0; i < segment.length; ++i) {
      builder.column<float>(2)[segment.begin + i] = static_cast<float>(segment.stream + 1);
    }
  }
  data.rows = std::move(builder).Seal(rows);
  const auto count = static_cast<int64_t>(lengths.size());
  BatchBuilder last = *BatchBuilder::Create(*MakeSpec({Box("obs", {2}, {-9}, {99})}), count);
  for (int64_t i = 0; i < 2 * count; ++i) last.column<float>(0)[i] = static_cast<float>(100 + i);
  data.final_obs = std::move(last).Seal(count);
  return data;
}

std::string PathOf(const std::string& name) { return JoinPath(testing::TempDir(), name); }

TEST(Episodes, RoundTrip) {
  SegmentBatch episodes = Episodes({3, 1, 4});
  episodes.segments[2].stream = 0;  // of the env that played the first one, too
  episodes.segments[2].first_step = 3;
  ASSERT_THAT(WriteEpisodes(PathOf("good"), {episodes, "Env-v1"}), IsOk());
  DING_ASSERT_OK_AND_ASSIGN(const EpisodeSet set, ReadEpisodes(PathOf("good")));
  EXPECT_EQ(set.env, "Env-v1");
  EXPECT_EQ(set.episodes.rows.spec(), episodes.rows.spec());
  EXPECT_EQ(set.episodes.final_obs.spec(), episodes.final_obs.spec());
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(BitwiseEqual(set.episodes.rows.tensor(i), episodes.rows.tensor(i))) << i;
  }
  EXPECT_TRUE(BitwiseEqual(set.episodes.final_obs.tensor(0), episodes.final_obs.tensor(0)));
  ASSERT_EQ(set.episodes.segments.size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(set.episodes.segments[i].stream, static_cast<int64_t>(i));
    EXPECT_EQ(set.episodes.segments[i].first_step, 0);
    EXPECT_EQ(set.episodes.segments[i].begin, episodes.segments[i].begin);
    EXPECT_EQ(set.episodes.segments[i].length, episodes.segments[i].length);
    EXPECT_EQ(set.episodes.segments[i].end, episodes.segments[i].end);
  }
  DING_ASSERT_OK_AND_ASSIGN(const std::vector<double> returns, EpisodeReturns(set.episodes));
  EXPECT_THAT(returns, ElementsAre(3, 2, 12));
}

TEST(Episodes, DifferentEpisodesHaveDifferentChecksums) {
  ASSERT_THAT(WriteEpisodes(PathOf("a"), {Episodes({3, 1}), "Env-v1"}), IsOk());
  ASSERT_THAT(WriteEpisodes(PathOf("same"), {Episodes({3, 1}), "Env-v1"}), IsOk());
  ASSERT_THAT(WriteEpisodes(PathOf("other"), {Episodes({3, 2}), "Env-v1"}), IsOk());
  EXPECT_EQ(ReadEpisodes(PathOf("a"))->checksum, ReadEpisodes(PathOf("same"))->checksum);
  EXPECT_NE(ReadEpisodes(PathOf("a"))->checksum, ReadEpisodes(PathOf("other"))->checksum);
}

TEST(Episodes, WritesWholeEpisodesOnly) {
  SegmentBatch cut = Episodes({3, 1});
  cut.segments[1].end = SegmentEnd::kCut;
  EXPECT_THAT(WriteEpisodes(PathOf("none"), {cut, ""}), IsInvalid("segment 1 is cut"));
  EXPECT_THAT(WriteEpisodes(PathOf("none"), {SegmentBatch(), ""}), IsInvalid("no episodes"));
  EXPECT_FALSE(PathExists(PathOf("none")));
}

TEST(Episodes, AFileCutOffAnywhereOrWithAnyByteChangedIsRefused) {
  ASSERT_THAT(WriteEpisodes(PathOf("whole"), {Episodes({2, 1}), "Env-v1"}), IsOk());
  DING_ASSERT_OK_AND_ASSIGN(const std::string whole, ReadFile(PathOf("whole")));
  for (size_t size = 0; size < whole.size(); ++size) {
    OverwriteFile(PathOf("damaged"), whole.substr(0, size));
    ASSERT_THAT(ReadEpisodes(PathOf("damaged")), IsDataLoss("damaged"))
        << size << " of " << whole.size();
  }
  for (size_t i = 0; i < whole.size(); ++i) {
    std::string damaged = whole;
    damaged[i] = static_cast<char>(damaged[i] ^ 1 << i % 8);
    OverwriteFile(PathOf("damaged"), damaged);
    ASSERT_FALSE(ReadEpisodes(PathOf("damaged")).ok()) << "byte " << i;
  }
}

// Whole files, with something else in them than their writer would have.
TEST(Episodes, InvalidFilesAreRefused) {
  EXPECT_THAT(ReadEpisodes(PathOf("missing")), IsNotFound());
  ASSERT_THAT(WriteEpisodes(PathOf("good"), {Episodes({2, 1}), "Env-v1"}), IsOk());
  const auto read_with = [](const std::string& name, const auto& write) {
    const auto good = *SafetensorsReader::OpenSelfChecked(PathOf("good"));
    const auto save = [&](StateWriter* writer) -> absl::Status {
      for (const std::string& other : good->Names()) {
        if (other == name || other == kSafetensorsChecksum) continue;
        const auto tensor = good->ReadTensor(other);
        EXPECT_THAT(writer->WriteTensor(other, *tensor), IsOk());
      }
      return write(writer);
    };
    EXPECT_THAT(WriteSafetensors(PathOf("bad"), save, {}, /*self_checked=*/true), IsOk());
    return ReadEpisodes(PathOf("bad")).status();
  };
  const auto nothing = [](StateWriter*) { return absl::OkStatus(); };
  for (const char* name : {"type", "version", "env", "rows_spec", "final_obs_spec", "length", "end",
                           "rows/action", "final_obs/obs"}) {
    EXPECT_THAT(read_with(name, nothing), IsInvalid(name));
  }
  EXPECT_THAT(
      read_with("type", [](StateWriter* writer) { return writer->WriteString("type", "naive"); }),
      IsInvalid("it holds 'naive', expected 'episodes'"));
  EXPECT_THAT(
      read_with("version", [](StateWriter* writer) { return writer->WriteInt("version", 2); }),
      IsFailedPrecondition("has version 2"));
  const auto with_lengths = [&](const std::vector<int64_t>& lengths) {
    return read_with("length", [&lengths](StateWriter* writer) {
      return writer->WriteSpan<int64_t>("length", lengths);
    });
  };
  EXPECT_THAT(with_lengths({2, 2}), IsInvalid("saved 'rows/obs' is float32[3, 2]"));
  EXPECT_THAT(with_lengths({3, 0}), IsInvalid("episode 1 has 0 rows"));
  EXPECT_THAT(with_lengths({int64_t{1} << 62, int64_t{1} << 62}), IsInvalid("episode 0 has"));
  EXPECT_THAT(with_lengths({(int64_t{1} << 40) - 1, 2}), IsInvalid("episode 1 has 2 rows"));
  EXPECT_THAT(with_lengths({3}), IsInvalid("'length' is of 1 episodes, 'end' of 2"));
  const auto with_ends = [&](const std::vector<uint8_t>& ends) {
    return read_with(
        "end", [&ends](StateWriter* writer) { return writer->WriteSpan<uint8_t>("end", ends); });
  };
  EXPECT_THAT(with_ends({1, 3}), IsInvalid("end 3"));
  EXPECT_THAT(with_ends({0, 1}), IsInvalid("episode 0 has 2 rows and end 0"));
}

TEST(Episodes, ReturnsAreSumsOfAllComponents) {
  SegmentBatch episodes = Episodes({2, 1});
  BatchBuilder rows = *BatchBuilder::Create(*MakeSpec({Box("reward", {2})}), 3);
  const std::vector<float> rewards = {1, 2, 4, 8, 16, 32};
  std::copy(rewards.begin(), rewards.end(), rows.column<float>(0).begin());
  episodes.rows = std::move(rows).Seal(3);
  DING_ASSERT_OK_AND_ASSIGN(const std::vector<double> returns, EpisodeReturns(episodes));
  EXPECT_THAT(returns, ElementsAre(15, 48));
  episodes.rows = BatchBuilder::Create(*MakeSpec({Box("reward", {2, 2})}), 3).value().Seal(3);
  EXPECT_THAT(EpisodeReturns(episodes),
              IsInvalid("float32[2, 2], expected float32[], or float32[R]"));
}

TEST(Episodes, ReturnsNeedARewardPerRow) {
  SegmentBatch episodes = Episodes({2});
  episodes.rows = Batch();
  EXPECT_THAT(EpisodeReturns(episodes), IsNotFound("'reward'"));
}

TEST(EpisodesFuzz, DamagedFilesWithARightChecksumAreRefusedOrHarmless) {
  const std::string path = PathOf("fuzz.episodes");
  ASSERT_THAT(WriteEpisodes(path, {Episodes({3, 1, 4}), "Env-v0"}), IsOk());
  DING_ASSERT_OK_AND_ASSIGN(const std::string good, ReadFile(path));
  int read = 0;
  int refused = 0;
  Fuzz(5000, [&](Mutator* mutator) {
    OverwriteFile(path, WithChecksum(mutator->Mutate(good)));
    const absl::StatusOr<EpisodeSet> set = ReadEpisodes(path);
    ++(set.ok() ? read : refused);
    if (!set.ok()) return;
    const SegmentBatch& episodes = set->episodes;
    EXPECT_EQ(episodes.final_obs.rows(), static_cast<int64_t>(episodes.segments.size()));
    int64_t rows = 0;
    for (const Segment& segment : episodes.segments) {
      EXPECT_EQ(segment.begin, rows);
      EXPECT_GE(segment.length, 1);
      rows += segment.length;
    }
    EXPECT_EQ(rows, episodes.rows.rows());
    EpisodeReturns(episodes).status().IgnoreError();
  });
  EXPECT_GT(read, 0);
  EXPECT_GT(refused, 0);
}

}  // namespace
}  // namespace ding
