#include "ding_worker/replay_buffer/buffer_file.h"

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/file_testing.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/safetensors.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/state.h"
#include "ding_worker/data/tensor.h"
#include "ding_worker/replay_buffer/buffer.h"
#include "ding_worker/replay_buffer/naive_buffer.h"
#include "ding_worker/replay_buffer/testing/reference_buffer.h"
#include "ding_worker/replay_buffer/testing/saved_state.h"
#include "ding_worker/replay_buffer/testing/test_streams.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::ElementsAre;

std::unique_ptr<IBuffer> Make(int64_t capacity_rows = 64) {
  NaiveReplayBuffer::Options options;
  options.capacity_rows = capacity_rows;
  return NaiveReplayBuffer::Create(options).value();
}

std::string PathOf(const std::string& name) { return JoinPath(testing::TempDir(), name); }

TEST(BufferFile, SavesAndLoadsRows) {
  const std::unique_ptr<IBuffer> buffer = Make();
  ReferenceBuffer reference(64, 1, 0.99);
  TestStreams streams;
  for (int i = 0; i < 20; ++i) {
    const SegmentBatch push = streams.Make({{0, 3}, {1, 2, SegmentEnd::kTruncated}});
    reference.Push(push);
    ASSERT_THAT(buffer->Push(push, i), IsOk());
  }
  ASSERT_THAT(SaveData(*buffer, PathOf("rows")), IsOk());
  const std::unique_ptr<IBuffer> loaded = Make();
  ASSERT_THAT(LoadData(loaded.get(), PathOf("rows")), IsOk());
  EXPECT_EQ(loaded->count(), 64);
  EXPECT_EQ(loaded->push_count(), 100);
  DING_ASSERT_OK_AND_ASSIGN(const Batch batch, loaded->Sample(64, 0));
  EXPECT_THAT(reference.Check(batch), IsOk());
}

// Narrow columns are copied in pieces of at most 128 KB.
TEST(BufferFile, ColumnsOfManyPiecesAreSavedAndLoaded) {
  constexpr int64_t kRows = 100000;
  constexpr int64_t kWidth = 16;
  const FieldSpec obs = Box("obs", {kWidth});
  BatchBuilder rows = *BatchBuilder::Create(
      *MakeSpec({obs, Discrete("action", kRows), Scalar("flag", DType::kUint8),
                 Scalar("reward", DType::kFloat32)}),
      kRows);
  for (int64_t row = 0; row < kRows; ++row) {
    for (int64_t i = 0; i < kWidth; ++i) {
      rows.column<float>(0)[kWidth * row + i] = static_cast<float>(kWidth * row + i);
    }
    rows.column<int64_t>(1)[row] = row;
    rows.column<uint8_t>(2)[row] = static_cast<uint8_t>(row % 251);
    rows.column<float>(3)[row] = static_cast<float>(-row);
  }
  SegmentBatch push;
  push.rows = std::move(rows).Seal(kRows);
  push.final_obs = BatchBuilder::Create(*MakeSpec({obs}), 1).value().Seal(1);
  push.segments = {{0, 0, 0, kRows, SegmentEnd::kCut}};
  const std::unique_ptr<IBuffer> buffer = Make(kRows);
  ASSERT_THAT(buffer->Push(push, 0), IsOk());
  ASSERT_THAT(SaveData(*buffer, PathOf("many")), IsOk());
  const std::unique_ptr<IBuffer> loaded = Make(kRows);
  ASSERT_THAT(LoadData(loaded.get(), PathOf("many")), IsOk());
  ASSERT_THAT(SaveData(*loaded, PathOf("again")), IsOk());
  for (const char* file : {"many", "again"}) {
    DING_ASSERT_OK_AND_ASSIGN(const auto reader, SafetensorsReader::Open(PathOf(file)));
    for (int field = 0; field < push.rows.spec().size(); ++field) {
      const std::string& name = push.rows.spec().field(field).name;
      std::string saved;
      for (const std::string& found : reader->Names()) {
        if (absl::EndsWith(found, "rows/" + name)) saved = found;
      }
      DING_ASSERT_OK_AND_ASSIGN(const Tensor tensor, reader->ReadTensor(saved));
      EXPECT_TRUE(BitwiseEqual(tensor, push.rows.tensor(field))) << file << " " << name;
    }
  }
  DING_ASSERT_OK_AND_ASSIGN(const Batch drawn, loaded->Sample(1000, 0));
  for (int64_t row = 0; row < drawn.rows(); ++row) {
    EXPECT_EQ(drawn.column<float>("obs")[kWidth * row],
              static_cast<float>(kWidth * drawn.column<int64_t>("action")[row]));
  }
}

TEST(BufferFile, RefusedFilesLeaveTheBufferUnchanged) {
  const std::unique_ptr<IBuffer> buffer = Make();
  TestStreams streams;
  ASSERT_THAT(buffer->Push(streams.Make({{0, 30}}), 0), IsOk());
  EXPECT_THAT(LoadData(buffer.get(), PathOf("missing")), IsNotFound());

  ASSERT_THAT(
      WriteSafetensors(
          PathOf("other"), [](StateWriter* writer) { return writer->WriteInt("version", 1); },
          /*metadata=*/{}, /*self_checked=*/true)
          .status(),
      IsOk());
  EXPECT_THAT(LoadData(buffer.get(), PathOf("other")), IsInvalid("'type'"));
  ASSERT_THAT(WriteSafetensors(PathOf("foreign"), buffer->Snapshot()).status(), IsOk());
  EXPECT_THAT(LoadData(buffer.get(), PathOf("foreign")), IsInvalid("has no 'crc32c'"));

  ASSERT_THAT(SaveData(*buffer, PathOf("whole")), IsOk());
  EXPECT_THAT(LoadData(Make(65).get(), PathOf("whole")), IsInvalid("is 64, expected 65"));
  EXPECT_EQ(buffer->count(), 30);
}

// A buffer that holds rows refuses it too and is left unchanged.
TEST(BufferFile, RefusesTruncatedAndAlteredFiles) {
  const std::unique_ptr<IBuffer> buffer = Make();
  TestStreams streams;
  ASSERT_THAT(buffer->Push(streams.Make({{0, 5}, {1, 3, SegmentEnd::kTerminated}}), 0), IsOk());
  ASSERT_THAT(SaveData(*buffer, PathOf("whole")), IsOk());
  DING_ASSERT_OK_AND_ASSIGN(const std::string whole, ReadFile(PathOf("whole")));
  const std::string damaged_path = PathOf("damaged");
  for (size_t size = 0; size < whole.size(); ++size) {
    OverwriteFile(damaged_path, whole.substr(0, size));
    ASSERT_THAT(LoadData(buffer.get(), damaged_path), IsDataLoss(damaged_path))
        << size << " of " << whole.size();
  }
  for (size_t bit = 0; bit < 8 * whole.size(); ++bit) {
    std::string damaged = whole;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ 1 << bit % 8);
    OverwriteFile(damaged_path, damaged);
    ASSERT_FALSE(LoadData(buffer.get(), damaged_path).ok()) << "bit " << bit;
  }
  ASSERT_THAT(SaveData(*buffer, PathOf("again")), IsOk());
  EXPECT_EQ(ReadFile(PathOf("again")).value(), whole);
}

TEST(BufferFile, SavingToAMissingFolderFails) {
  const std::unique_ptr<IBuffer> buffer = Make();
  EXPECT_THAT(SaveData(*buffer, PathOf("no/such/folder")), IsNotFound());
}

// Two streams in turn; the last episode has not ended yet.
std::vector<std::vector<SegmentPlan>> TwoStreams() {
  return {{{0, 3}}, {{1, 4, SegmentEnd::kTruncated}, {0, 2, SegmentEnd::kTerminated}}, {{0, 2}}};
}

TensorMap SavedTwoStreams(int64_t capacity_rows, bool stacks) {
  const std::unique_ptr<IBuffer> buffer = Make(capacity_rows);
  TestStreams streams(0, stacks);
  for (const std::vector<SegmentPlan>& plans : TwoStreams()) {
    EXPECT_THAT(buffer->Push(streams.Make(plans), 0), IsOk());
  }
  return Saved(*buffer);
}

TEST(SavedEpisodes, AreTheEpisodesThatWerePushed) {
  for (const bool stacks : {false, true}) {
    SCOPED_TRACE(absl::StrCat("stacks: ", stacks));
    StateDict state(SavedTwoStreams(64, stacks), "test");
    DING_ASSERT_OK_AND_ASSIGN(const SegmentBatch episodes, ReadSavedEpisodes(&state));
    ASSERT_THAT(ValidateSegments(episodes), IsOk());
    // The same rows, episode by episode.
    TestStreams streams(0, stacks);
    const SegmentBatch whole = streams.Make({{0, 5, SegmentEnd::kTerminated},
                                             {1, 4, SegmentEnd::kTruncated},
                                             {0, 2, SegmentEnd::kTruncated}});
    ASSERT_EQ(episodes.segments.size(), whole.segments.size());
    for (size_t i = 0; i < whole.segments.size(); ++i) {
      SCOPED_TRACE(absl::StrCat("episode ", i));
      EXPECT_EQ(episodes.segments[i].stream, static_cast<int64_t>(i));
      EXPECT_EQ(episodes.segments[i].length, whole.segments[i].length);
      EXPECT_EQ(episodes.segments[i].end, whole.segments[i].end);
    }
    EXPECT_TRUE(SameBytes(episodes.final_obs, whole.final_obs));
    ASSERT_EQ(episodes.rows.rows(), whole.rows.rows());
    EXPECT_EQ(episodes.rows.spec(), whole.rows.spec());
    // Observation, action and reward; later fields depend on the pushes.
    for (int field = 0; field < TestStreams::ObsSpec(stacks)->size() + 2; ++field) {
      EXPECT_TRUE(BitwiseEqual(episodes.rows.tensor(field), whole.rows.tensor(field)))
          << episodes.rows.spec().field(field).name;
    }
  }
}

TEST(SavedEpisodes, LackTheRowsThatWereEvicted) {
  for (const bool stacks : {false, true}) {
    SCOPED_TRACE(absl::StrCat("stacks: ", stacks));
    StateDict state(SavedTwoStreams(6, stacks), "test");
    DING_ASSERT_OK_AND_ASSIGN(const SegmentBatch episodes, ReadSavedEpisodes(&state));
    ASSERT_EQ(episodes.segments.size(), 3);
    for (const Segment& segment : episodes.segments) EXPECT_EQ(segment.length, 2);
    // {stream, step, episode, steps into the episode}
    const absl::Span<const float> place = episodes.rows.column<float>("obs/place");
    EXPECT_THAT(place.subspan(0, 4), ElementsAre(1, 2, 0, 2));
    EXPECT_THAT(place.subspan(8, 4), ElementsAre(0, 3, 0, 3));
    EXPECT_THAT(place.subspan(16, 4), ElementsAre(0, 5, 1, 0));
  }
}

TEST(SavedEpisodes, RefuseWhatIsNoBufferOrHasNoRowsOrIsDamaged) {
  StateDict other;
  ASSERT_THAT(other.WriteInt("version", 1), IsOk());
  EXPECT_THAT(ReadSavedEpisodes(&other), IsNotFound());

  StateDict empty(Saved(*Make()), "test");
  EXPECT_THAT(ReadSavedEpisodes(&empty), IsInvalid("has no rows"));

  TensorMap damaged = CloneAll(SavedTwoStreams(64, /*stacks=*/false));
  // The first row of stream 0 is followed by the third one, as the second is.
  damaged.FindMutable("store/links")->mutable_data<int32_t>()[0] = 1;
  StateDict twice(damaged, "test");
  EXPECT_THAT(ReadSavedEpisodes(&twice), IsInvalid("row 2 follows two rows"));

  TensorMap incomplete;
  for (const auto& [name, tensor] : damaged) {
    if (name != "store/links") incomplete.Set(name, tensor);
  }
  StateDict without(incomplete, "test");
  EXPECT_THAT(ReadSavedEpisodes(&without), IsInvalid("links"));
}

}  // namespace
}  // namespace ding
