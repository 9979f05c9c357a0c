// Buffers whose rows lie in files: they draw what a buffer in memory draws, survive the end of the
// process at any moment, and name what the disk has lost.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/file_testing.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/state.h"
#include "ding_worker/replay_buffer/buffer_file.h"
#include "ding_worker/replay_buffer/buffer_registry.h"
#include "ding_worker/replay_buffer/testing/buffer_types.h"
#include "ding_worker/replay_buffer/testing/saved_state.h"
#include "ding_worker/replay_buffer/testing/test_streams.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::AllOf;
using testing::Ge;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Le;
using testing::SizeIs;

// Rows are 8 to a file.
constexpr int64_t kDiskRows = 64;
constexpr int64_t kRowsOfFile = 8;

SampleOptions ManyRows() {
  SampleOptions options;
  options.replace = true;
  return options;
}

class DiskBufferTest : public testing::TestWithParam<BufferType> {
 protected:
  // These tests save thousands of times, and a busy disk may take a second to flush a file.
  DiskBufferTest()
      : folder_(IsDirectory(kShm) ? absl::StrCat(kShm, "/ding_worker_disk_buffer_test.", getpid())
                                  : FreshTestFolder()) {}
  ~DiskBufferTest() override { EXPECT_THAT(RemoveRecursively(folder_), IsOk()); }

  std::unique_ptr<IBuffer> Make(const std::string& folder, int64_t capacity_rows = kDiskRows) {
    BufferSettings settings;
    settings.capacity_rows = capacity_rows;
    settings.disk_folder = folder;
    return GetParam().make(settings);
  }

  static constexpr char kShm[] = "/dev/shm";
  const std::string folder_;
};

INSTANTIATE_TEST_SUITE_P(Types, DiskBufferTest, testing::ValuesIn(BufferTypes()), NameOfBufferType);

std::vector<std::string> RowFilesIn(const std::string& folder) {
  std::vector<std::string> files;
  const auto names = ListDirectory(JoinPath(folder, "replay_buffer"));
  for (const std::string& name : names.value()) {
    if (absl::EndsWith(name, ".rows")) files.push_back(JoinPath(folder, "replay_buffer/" + name));
  }
  return files;
}

// A push, a draw with new priorities, or a resume: of both buffers, which must agree.
TEST_P(DiskBufferTest, DrawsWhatABufferInMemoryDraws) {
  int64_t drawn = 0;
  for (uint64_t seed = 0; seed < 8; ++seed) {
    const int64_t capacity = std::vector<int64_t>{1, 17, 64, 200}[seed % 4];
    const bool stacks = GetParam().of_rows && seed % 2 == 1;
    SCOPED_TRACE(absl::StrCat("seed ", seed, ", capacity ", capacity));
    const std::string folder = JoinPath(folder_, absl::StrCat(seed));
    std::unique_ptr<IBuffer> memory = Make("", capacity);
    std::unique_ptr<IBuffer> disk = Make(folder, capacity);
    TestStreams streams(0, stacks);
    TestStreams lost_streams(0, stacks);
    Rng rng(seed, "disk");
    for (int step = 0; step < 150; ++step) {
      SCOPED_TRACE(absl::StrCat("operation ", step));
      const uint64_t what = rng.UniformInt(40);
      if (what < 20) {
        const SegmentBatch push = RandomPush(&streams, &rng, seed % 3 == 0 ? capacity + 3 : 6);
        ASSERT_THAT(memory->Push(push, step), IsOk());
        ASSERT_THAT(disk->Push(push, step), IsOk());
      } else if (what < 36) {
        const absl::StatusOr<Batch> expected = memory->Sample(9, step, ManyRows());
        const absl::StatusOr<Batch> found = disk->Sample(9, step, ManyRows());
        ASSERT_EQ(expected.status(), found.status());
        if (!found.ok()) continue;
        ASSERT_TRUE(SameBytes(*expected, *found));
        drawn += found->rows();
        if (!GetParam().prioritized) continue;
        PriorityInfo info;
        const auto ids = found->column<int64_t>("replay_unique_id");
        const auto slots = found->column<int64_t>("replay_buffer_idx");
        info.replay_unique_id.assign(ids.begin(), ids.end());
        info.replay_buffer_idx.assign(slots.begin(), slots.end());
        for (size_t i = 0; i < ids.size(); ++i) info.priority.push_back(1 + i % 3);
        ASSERT_THAT(memory->Update(info), IsOk());
        ASSERT_THAT(disk->Update(info), IsOk());
      } else if (what < 39) {
        const TensorMap in_memory = Saved(*memory);
        const TensorMap on_disk = Saved(*disk);
        // What comes after the save is lost.
        for (uint64_t i = rng.UniformInt(9); i > 0; --i) {
          ASSERT_THAT(disk->Push(RandomPush(&lost_streams, &rng, capacity + 3), step), IsOk());
        }
        disk = nullptr;
        disk = Make(folder, capacity);
        ASSERT_THAT(LoadFrom(disk.get(), on_disk), IsOk());
        memory = Make("", capacity);
        ASSERT_THAT(LoadFrom(memory.get(), in_memory), IsOk());
      } else {
        memory->Clear();
        disk->Clear();
      }
      ASSERT_EQ(memory->count(), disk->count());
    }
    // A store has 14 blocks and 2 spare ones at most. Three saves hold back others.
    EXPECT_LE(RowFilesIn(folder).size(), 4 * 16);
  }
  EXPECT_GT(drawn, 2000);
}

TEST_P(DiskBufferTest, LeavesNoRowsThatNoSaveNames) {
  TestStreams streams;
  std::unique_ptr<IBuffer> buffer = Make(folder_);
  for (int push = 0; push < 50; ++push) {
    ASSERT_THAT(buffer->Push(streams.Make({{0, 10, SegmentEnd::kTerminated}}), push), IsOk());
  }
  EXPECT_THAT(RowFilesIn(folder_), SizeIs(AllOf(Ge(8), Le(13))));
  buffer = nullptr;
  EXPECT_THAT(RowFilesIn(folder_), IsEmpty());
}

TEST_P(DiskBufferTest, SavesOfADiskLoadIntoMemoryAndBack) {
  TestStreams streams;
  const std::unique_ptr<IBuffer> disk = Make(JoinPath(folder_, "a"));
  for (int push = 0; push < 20; ++push) {
    ASSERT_THAT(disk->Push(streams.Make({{0, 5}, {1, 5, SegmentEnd::kTruncated}}), push), IsOk());
  }
  const std::unique_ptr<IBuffer> memory = Make("");
  ASSERT_THAT(LoadFrom(memory.get(), Saved(*disk)), IsOk());
  const std::unique_ptr<IBuffer> back = Make(JoinPath(folder_, "b"));
  ASSERT_THAT(LoadFrom(back.get(), Saved(*memory)), IsOk());
  const std::unique_ptr<IBuffer> copied = Make(JoinPath(folder_, "c"));
  ASSERT_THAT(LoadFrom(copied.get(), Saved(*disk)), IsOk());
  DING_ASSERT_OK_AND_ASSIGN(const Batch expected, disk->Sample(20, 0, ManyRows()));
  for (IBuffer* const other : {memory.get(), back.get(), copied.get()}) {
    DING_ASSERT_OK_AND_ASSIGN(const Batch found, other->Sample(20, 0, ManyRows()));
    EXPECT_TRUE(SameBytes(expected, found));
  }
}

TEST_P(DiskBufferTest, ThreadsPushDrawAndSave) {
  const std::unique_ptr<IBuffer> buffer = Make(folder_);
  std::atomic<bool> pushes{true};
  std::thread pusher([&] {
    TestStreams streams;
    for (int push = 0; push < 300; ++push) {
      const SegmentBatch rows = streams.Make({{0, 6}, {1, 5, SegmentEnd::kTerminated}});
      EXPECT_THAT(buffer->Push(rows, push), IsOk());
    }
    pushes = false;
  });
  std::thread saver([&] {
    while (pushes) EXPECT_FALSE(Saved(*buffer).empty());
  });
  while (pushes) {
    const absl::StatusOr<Batch> batch = buffer->Sample(50, 0, ManyRows());
    if (batch.ok() && GetParam().of_rows) {
      EXPECT_THAT(CheckRows(*batch), IsOk());
    }
  }
  pusher.join();
  saver.join();
  // A push drops what the last save and draw have held back.
  TestStreams streams;
  ASSERT_THAT(buffer->Push(streams.Make({{9, 1}}), 0), IsOk());
  Saved(*buffer);
  EXPECT_LE(RowFilesIn(folder_).size(), 4 * 13);
}

// ------------------------------------------------------------------------------ what may go wrong

BufferConfig OnDisk(const std::string& folder) {
  BufferConfig config;
  config.set_storage(BufferConfig::DISK);
  config.set_path(folder);
  config.set_replay_buffer_size(kDiskRows);
  return config;
}

std::unique_ptr<IBuffer> NewOnDisk(const std::string& folder) {
  return create_buffer(OnDisk(folder), {}).value();
}

SegmentBatch RowsOf(int64_t rows, TestStreams* streams) { return streams->Make({{0, rows}}); }

// Fills a buffer with 64 rows in the files 0 to 7, saves it and closes it.
TensorMap FillAndSave(const std::string& folder, bool stacks = false) {
  const std::unique_ptr<IBuffer> buffer = NewOnDisk(folder);
  TestStreams streams(0, stacks);
  for (int64_t rows = 0; rows < kDiskRows; rows += kRowsOfFile) {
    EXPECT_THAT(buffer->Push(RowsOf(kRowsOfFile, &streams), rows), IsOk());
  }
  return Saved(*buffer);
}

TEST(DiskBuffer, NamesWhatIsWrongWithItsFolder) {
  const std::string folder = FreshTestFolder();
  const std::unique_ptr<IBuffer> buffer = NewOnDisk(folder);
  EXPECT_THAT(create_buffer(OnDisk(folder), {}),
              IsInvalid("another replay buffer keeps its rows in"));
  OverwriteFile(JoinPath(folder, "file"), "");
  EXPECT_THAT(create_buffer(OnDisk(JoinPath(folder, "file")), {}), IsInvalid("file"));
  BufferConfig config;
  config.set_path("elsewhere");
  EXPECT_THAT(create_buffer(config, {}), IsInvalid("expected storage: DISK"));
}

TEST(DiskBuffer, DoesNotTakeThePlaceOfSavedRows) {
  const std::string folder = FreshTestFolder();
  const TensorMap saved = FillAndSave(folder);
  TestStreams streams;
  {
    const std::unique_ptr<IBuffer> other = NewOnDisk(folder);
    EXPECT_THAT(other->Push(RowsOf(1, &streams), 0), IsFailedPrecondition("resume that run"));
  }
  const std::unique_ptr<IBuffer> buffer = NewOnDisk(folder);
  ASSERT_THAT(LoadFrom(buffer.get(), saved), IsOk());
  EXPECT_EQ(buffer->count(), kDiskRows);
}

TEST(DiskBuffer, ClearGivesUpWhatAnEarlierRunHasSaved) {
  const std::string folder = FreshTestFolder();
  FillAndSave(folder);
  const std::unique_ptr<IBuffer> buffer = NewOnDisk(folder);
  buffer->Clear();
  TestStreams streams;
  ASSERT_THAT(buffer->Push(RowsOf(8, &streams), 0), IsOk());
  for (int64_t save = 1; save <= RowFiles::kKeptSaves; ++save) {
    Saved(*buffer);
    const bool is_old_kept = save < RowFiles::kKeptSaves;
    EXPECT_EQ(PathExists(JoinPath(folder, "replay_buffer/0.rows")), is_old_kept) << save;
    ASSERT_THAT(buffer->Push(RowsOf(8, &streams), 0), IsOk());
  }
}

TEST(DiskBuffer, SaveWritesNoRowAgain) {
  const std::string folder = FreshTestFolder();
  int64_t bytes = 0;
  for (const auto& [name, tensor] : FillAndSave(folder)) bytes += tensor.size_bytes();
  // The links, the spec and the folder's name.
  EXPECT_LT(bytes, kDiskRows * TestStreams::RowSpec()->row_bytes());
  EXPECT_THAT(RowFilesIn(folder), SizeIs(8));
}

// Neither a save that fails nor one that is only measured takes the place of one that was kept.
TEST(DiskBuffer, SavesThatFailReleaseNoFile) {
  const std::string folder = FreshTestFolder();
  const TensorMap saved = FillAndSave(folder);
  std::unique_ptr<IBuffer> buffer = NewOnDisk(folder);
  ASSERT_THAT(LoadFrom(buffer.get(), saved), IsOk());
  TestStreams streams;
  for (int i = 0; i < 5; ++i) {
    ASSERT_THAT(buffer->Push(RowsOf(kDiskRows, &streams), i), IsOk());
    EXPECT_THAT(SaveData(*buffer, JoinPath(folder, "none/file")), IsNotFound("none/file"));
  }
  buffer = nullptr;
  buffer = NewOnDisk(folder);
  EXPECT_THAT(LoadFrom(buffer.get(), saved), IsOk());
  EXPECT_EQ(buffer->count(), kDiskRows);
  for (int i = 0; i < 3; ++i) {
    ASSERT_THAT(buffer->Push(RowsOf(kDiskRows, &streams), i), IsOk());
    ASSERT_THAT(SaveData(*buffer, JoinPath(folder, "file")), IsOk());
  }
  EXPECT_LE(RowFilesIn(folder).size(), 4 * 10);
}

// Both saves name the same first file. The second has more of its rows, and continues the checksum
// of the first.
TEST(DiskBuffer, BothOfTheLastTwoSavesCanBeLoaded) {
  const std::string folder = FreshTestFolder();
  std::unique_ptr<IBuffer> buffer = NewOnDisk(folder);
  TestStreams streams;
  ASSERT_THAT(buffer->Push(RowsOf(5, &streams), 0), IsOk());
  const TensorMap first = Saved(*buffer);
  Saved(*buffer);  // The same rows count once.
  Saved(*buffer);
  Saved(*buffer);
  ASSERT_THAT(buffer->Push(RowsOf(12, &streams), 1), IsOk());
  const TensorMap second = Saved(*buffer);
  for (int i = 0; i < 3; ++i) {
    ASSERT_THAT(buffer->Push(RowsOf(kDiskRows, &streams), i), IsOk());
  }
  for (const auto& [saved, rows] : {std::pair(&second, 17), std::pair(&first, 5)}) {
    buffer = nullptr;
    buffer = NewOnDisk(folder);
    ASSERT_THAT(LoadFrom(buffer.get(), *saved), IsOk());
    EXPECT_EQ(buffer->lost_rows(), "");
    DING_ASSERT_OK_AND_ASSIGN(const Batch batch, buffer->Sample(rows, 0));
    EXPECT_THAT(CheckRows(batch), IsOk());
  }
}

// The damage may be to any file. The rows after it go on.
TEST(DiskBuffer, NamesDamagedFilesAndGoesOnWithTheRest) {
  const std::string root = FreshTestFolder();
  int64_t stacked = 0;
  for (const bool stacks : {false, true}) {
    for (const std::string damage : {"flipped", "short", "gone"}) {
      for (int64_t damaged = 0; damaged < 8; ++damaged) {
        SCOPED_TRACE(absl::StrCat("stacks ", stacks, ", ", damage, ", file ", damaged));
        const std::string folder = JoinPath(root, absl::StrCat(stacks, damage, damaged));
        const TensorMap saved = FillAndSave(folder, stacks);
        const std::string path = JoinPath(folder, absl::StrCat("replay_buffer/", damaged, ".rows"));
        if (damage == "flipped") {
          std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
          file.seekg(5);
          const char byte = static_cast<char>(file.get() ^ 1);
          file.seekp(5);
          file.put(byte);
        } else if (damage == "short") {
          ASSERT_EQ(truncate(path.c_str(), 10), 0);
        } else {
          ASSERT_THAT(RemoveFile(path), IsOk());
        }
        const std::unique_ptr<IBuffer> buffer = NewOnDisk(folder);
        const absl::Status loaded = LoadFrom(buffer.get(), saved);
        if (damaged == 7) {
          EXPECT_THAT(loaded.message(), AllOf(HasSubstr(path), HasSubstr("no row would be left")));
          continue;
        }
        ASSERT_THAT(loaded, IsOk());
        EXPECT_THAT(buffer->lost_rows(), HasSubstr(path));
        // With stacks, the rows that need frames of lost ones are lost, too: three, or fewer where
        // the env began new stacks.
        const int64_t lost = kDiskRows - buffer->count();
        EXPECT_THAT(lost - (damaged + 1) * kRowsOfFile, AllOf(Ge(0), Le(stacks ? 3 : 0)));
        stacked += lost - (damaged + 1) * kRowsOfFile;
        DING_ASSERT_OK_AND_ASSIGN(const Batch rows, buffer->Sample(kDiskRows - lost, 0));
        EXPECT_THAT(CheckRows(rows), IsOk());
        const auto ids = rows.column<int64_t>("replay_unique_id");
        EXPECT_EQ(*std::min_element(ids.begin(), ids.end()), lost);
      }
    }
  }
  EXPECT_GT(stacked, 0);
}

TEST(DiskBuffer, RowsOfAPushThatFindsTheDiskFullAreNotLost) {
  const std::string folder = FreshTestFolder();
  const std::unique_ptr<IBuffer> buffer = NewOnDisk(folder);
  TestStreams streams;
  ASSERT_THAT(buffer->Push(RowsOf(10, &streams), 0), IsOk());
  const SegmentBatch push = RowsOf(30, &streams);
  {
    const FileSizeLimit full(1000);
    EXPECT_THAT(buffer->Push(push, 1), IsResourceExhausted(".rows' of 65536 bytes"));
    EXPECT_EQ(buffer->count(), 10);
    EXPECT_THAT(buffer->Sample(10, 0), IsOk());
  }
  ASSERT_THAT(buffer->Push(push, 1), IsOk());
  DING_ASSERT_OK_AND_ASSIGN(const Batch rows, buffer->Sample(40, 0));
  EXPECT_THAT(CheckRows(rows), IsOk());
}

// A disk that vanishes under a mapping: the file ends before the page that is read.
TEST(DiskBuffer, ADiskThatVanishesIsAnErrorNotACrash) {
  const std::string folder = FreshTestFolder();
  const std::unique_ptr<IBuffer> buffer = NewOnDisk(folder);
  TestStreams streams;
  ASSERT_THAT(buffer->Push(RowsOf(kDiskRows, &streams), 0), IsOk());
  for (const std::string& path : RowFilesIn(folder)) ASSERT_EQ(truncate(path.c_str(), 0), 0);
  EXPECT_THAT(buffer->Sample(kDiskRows, 0), IsDataLoss("has failed"));
  EXPECT_THAT(buffer->Push(RowsOf(1, &streams), 1), IsDataLoss("has failed"));
  StateDict state;
  EXPECT_THAT(buffer->Snapshot()(&state), IsDataLoss("has failed"));
}

// A run asks for the size of a resume point between two rounds.
TEST(DiskBuffer, MeasuringASaveDoesNotWriteFiles) {
  class Counter : public StateWriter {
   public:
    bool needs_values(DType /*dtype*/) const override { return false; }
    absl::Status Write(absl::string_view, DType, absl::Span<const int64_t>,
                       absl::Span<const absl::string_view> parts) override {
      for (const absl::string_view part : parts) bytes += static_cast<int64_t>(part.size());
      return absl::OkStatus();
    }
    int64_t bytes = 0;
  };
  const std::string folder = FreshTestFolder();
  const std::unique_ptr<IBuffer> buffer = NewOnDisk(folder);
  TestStreams streams;
  ASSERT_THAT(buffer->Push(RowsOf(kDiskRows, &streams), 0), IsOk());
  Counter counter;
  ASSERT_THAT(buffer->SaveState(&counter), IsOk());
  EXPECT_FALSE(PathExists(JoinPath(folder, "replay_buffer/saved")));
  int64_t bytes = 0;
  for (const auto& [name, tensor] : Saved(*buffer)) bytes += tensor.size_bytes();
  EXPECT_TRUE(PathExists(JoinPath(folder, "replay_buffer/saved")));
  EXPECT_EQ(counter.bytes, bytes);
}

TEST(DiskBuffer, ASaveOfADiskThatVanishedFails) {
  const std::string folder = FreshTestFolder();
  const std::unique_ptr<IBuffer> buffer = NewOnDisk(folder);
  TestStreams streams;
  ASSERT_THAT(buffer->Push(RowsOf(kDiskRows, &streams), 0), IsOk());
  for (const std::string& path : RowFilesIn(folder)) ASSERT_EQ(truncate(path.c_str(), 0), 0);
  StateDict state;
  EXPECT_FALSE(buffer->Snapshot()(&state).ok());
}

// The file `saved` says what may be removed.
TEST(DiskBuffer, ADamagedListOfSavesRemovesNothing) {
  const std::string folder = FreshTestFolder();
  FillAndSave(folder);
  for (const std::string line : {"keep 1 2", "kept 1 x", "kept 1 2\n \n"}) {
    OverwriteFile(JoinPath(folder, "replay_buffer/saved"), line);
    EXPECT_THAT(create_buffer(OnDisk(folder), {}), IsInvalid("saved' is damaged"));
    EXPECT_THAT(RowFilesIn(folder), SizeIs(8));
  }
}

// A run folder may be copied: each copy goes on with its own files.
TEST(DiskBuffer, ACopiedFolderComesBeforeTheOneThatWasSaved) {
  const std::string root = FreshTestFolder();
  const TensorMap saved = FillAndSave(JoinPath(root, "a"));
  std::filesystem::copy(JoinPath(root, "a"), JoinPath(root, "b"),
                        std::filesystem::copy_options::recursive);
  for (const std::string& path : RowFilesIn(JoinPath(root, "a"))) OverwriteFile(path, "other");
  const std::unique_ptr<IBuffer> buffer = NewOnDisk(JoinPath(root, "b"));
  ASSERT_THAT(LoadFrom(buffer.get(), saved), IsOk());
  EXPECT_EQ(buffer->lost_rows(), "");
  EXPECT_EQ(buffer->count(), kDiskRows);
}

TEST(DiskBuffer, SavedEpisodesAreReadFromTheFiles) {
  const std::string folder = FreshTestFolder();
  StateDict state(FillAndSave(folder), "state");
  DING_ASSERT_OK_AND_ASSIGN(const SegmentBatch episodes, ReadSavedEpisodes(&state));
  EXPECT_EQ(episodes.size(), kDiskRows);
  OverwriteFile(JoinPath(folder, "replay_buffer/3.rows"), "short");
  EXPECT_THAT(ReadSavedEpisodes(&state), IsDataLoss("3.rows' is damaged: it has 5 bytes"));
}

}  // namespace
}  // namespace ding
