#include "ding_worker/replay_buffer/buffer_file.h"

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/file_testing.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/safetensors.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/state.h"
#include "ding_worker/replay_buffer/buffer.h"
#include "ding_worker/replay_buffer/naive_buffer.h"
#include "ding_worker/replay_buffer/testing/reference_buffer.h"
#include "ding_worker/replay_buffer/testing/test_streams.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::HasSubstr;

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

TEST(BufferFile, RefusedFilesLeaveTheBufferUnchanged) {
  const std::unique_ptr<IBuffer> buffer = Make();
  TestStreams streams;
  ASSERT_THAT(buffer->Push(streams.Make({{0, 30}}), 0), IsOk());
  EXPECT_THAT(LoadData(buffer.get(), PathOf("missing")), StatusIs(absl::StatusCode::kNotFound));

  ASSERT_THAT(
      WriteSafetensors(
          PathOf("other"), [](StateWriter* writer) { return writer->WriteInt("version", 1); },
          /*metadata=*/{}, /*self_checked=*/true)
          .status(),
      IsOk());
  EXPECT_THAT(LoadData(buffer.get(), PathOf("other")),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("'type'")));
  ASSERT_THAT(WriteSafetensors(PathOf("foreign"), buffer->Snapshot()).status(), IsOk());
  EXPECT_THAT(LoadData(buffer.get(), PathOf("foreign")),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("has no 'crc32c'")));

  ASSERT_THAT(SaveData(*buffer, PathOf("whole")), IsOk());
  EXPECT_THAT(LoadData(Make(65).get(), PathOf("whole")),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("is 64, expected 65")));
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
    ASSERT_THAT(LoadData(buffer.get(), damaged_path),
                StatusIs(absl::StatusCode::kDataLoss, HasSubstr(damaged_path)))
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
  EXPECT_THAT(SaveData(*buffer, PathOf("no/such/folder")), StatusIs(absl::StatusCode::kNotFound));
}

}  // namespace
}  // namespace ding
