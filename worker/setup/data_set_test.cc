#include "ding_worker/worker/setup/data_set.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/checkpoint.h"
#include "ding_worker/data/episodes.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/shuffled_epochs.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/state.h"
#include "ding_worker/data/tensor.h"
#include "ding_worker/replay_buffer/buffer.h"
#include "ding_worker/replay_buffer/buffer_file.h"
#include "ding_worker/replay_buffer/naive_buffer.h"
#include "ding_worker/worker/testing/demonstrations.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::HasSubstr;

constexpr int64_t kEpisodes = 6;
constexpr int64_t kLength = 3;

// Episodes of 3 rows: row t of episode e has the observation 10 e + t and the reward 100 e + t, and
// the observation after the episode is 10 e + 9. Odd episodes are terminated and even ones
// truncated.
EpisodeSet MakeSmallEpisodes(const FieldSpec& reward) {
  BatchBuilder rows = *BatchBuilder::Create(
      *MakeSpec({Box("obs", {1}), Discrete("action", 2), reward}), kEpisodes * kLength);
  BatchBuilder last = *BatchBuilder::Create(*MakeSpec({Box("obs", {1})}), kEpisodes);
  EpisodeSet set;
  set.env = "small";
  for (int64_t e = 0; e < kEpisodes; ++e) {
    for (int64_t t = 0; t < kLength; ++t) {
      rows.column<float>(0)[e * kLength + t] = static_cast<float>(10 * e + t);
      rows.column<int64_t>(1)[e * kLength + t] = t % 2;
      rows.column<float>(2)[e * kLength + t] = static_cast<float>(100 * e + t);
    }
    last.column<float>(0)[e] = static_cast<float>(10 * e + 9);
    set.episodes.segments.push_back(
        {e, 0, e * kLength, kLength,
         e % 2 == 1 ? SegmentEnd::kTerminated : SegmentEnd::kTruncated});
  }
  set.episodes.rows = std::move(rows).Seal(kEpisodes * kLength);
  set.episodes.final_obs = std::move(last).Seal(kEpisodes);
  return set;
}

// The rows of all parts, one after the other.
Batch AllRows(const RowParts& parts) {
  int64_t rows = 0;
  for (const int64_t of_part : parts.rows) rows += of_part;
  BatchBuilder all = *BatchBuilder::Create(parts.spec, rows);
  int64_t begin = 0;
  for (size_t part = 0; part < parts.rows.size(); ++part) {
    const Batch loaded = *parts.load(static_cast<int64_t>(part));
    EXPECT_EQ(loaded.rows(), parts.rows[part]);
    CopyRows(loaded.view(), all.view(), begin);
    begin += loaded.rows();
  }
  return std::move(all).Seal(rows);
}

// The transitions to learn from.
absl::StatusOr<Batch> Transitions(const std::string& path, const TransitionOptions& options) {
  absl::StatusOr<DataSet> data = LoadDataSet({path, 0.2, 1}, /*env=*/nullptr);
  if (!data.ok()) return data.status();
  absl::StatusOr<RowParts> parts = TransitionsOf(*data, options);
  if (!parts.ok()) return parts.status();
  return AllRows(*parts);
}

void ExpectEqual(const Batch& found, const Batch& wanted) {
  ASSERT_EQ(found.spec(), wanted.spec());
  for (int field = 0; field < found.spec().size(); ++field) {
    EXPECT_TRUE(BitwiseEqual(found.tensor(field), wanted.tensor(field)))
        << found.spec().field(field).name;
  }
}

std::string PathOf(const std::string& name) { return JoinPath(testing::TempDir(), name); }

std::string WriteSmallEpisodes(const FieldSpec& reward) {
  const std::string path = PathOf("small.episodes");
  EXPECT_THAT(WriteEpisodes(path, MakeSmallEpisodes(reward)), IsOk());
  return path;
}

// A buffer to which these episodes were pushed.
std::unique_ptr<IBuffer> MakeBuffer() {
  NaiveReplayBuffer::Options options;
  options.capacity_rows = 100;
  std::unique_ptr<IBuffer> buffer = *NaiveReplayBuffer::Create(options);
  const EpisodeSet set = MakeSmallEpisodes(Scalar("reward", DType::kFloat32));
  EXPECT_THAT(buffer->Push(set.episodes, 0), IsOk());
  return buffer;
}

TEST(DataSetTest, TransitionsHaveNStepReturnsAndTheObservationAfterThem) {
  const std::string path = WriteSmallEpisodes(Scalar("reward", DType::kFloat32));
  for (const int64_t nstep : {1, 2, 5}) {
    DING_ASSERT_OK_AND_ASSIGN(const Batch training,
                              Transitions(path, TransitionOptions{nstep, 0.5}));
    ASSERT_EQ(training.rows(), (kEpisodes - 1) * kLength);
    for (int64_t row = 0; row < training.rows(); ++row) {
      const auto obs = static_cast<int64_t>(training.column<float>("obs")[row]);
      const int64_t e = obs / 10;
      const int64_t t = obs % 10;
      const int64_t end = std::min(t + nstep, kLength);
      double reward = 0;
      for (int64_t k = t; k < end; ++k) {
        reward += std::pow(0.5, k - t) * static_cast<double>(100 * e + k);
      }
      const bool ends = end == kLength;
      SCOPED_TRACE(absl::StrCat("episode ", e, " row ", t, " nstep ", nstep));
      EXPECT_FLOAT_EQ(training.column<float>("reward")[row], static_cast<float>(reward));
      EXPECT_EQ(training.column<float>("next_obs")[row],
                static_cast<float>(10 * e + (ends ? 9 : end)));
      EXPECT_FLOAT_EQ(training.column<float>("discount")[row],
                      ends && e % 2 == 1 ? 0 : static_cast<float>(std::pow(0.5, end - t)));
      EXPECT_EQ(training.column<int64_t>("action")[row], t % 2);
    }
  }
}

TEST(DataSetTest, ATruncatedEpisodeThatAllowsNoActionAtItsEndIsNotContinued) {
  FieldSpec mask = Scalar("obs/action_mask", DType::kBool);
  mask.shape = {2};
  const FieldSpec place = Box("obs/place", {1});
  EpisodeSet set = MakeSmallEpisodes(Scalar("reward", DType::kFloat32));
  BatchBuilder rows = *BatchBuilder::Create(
      *MakeSpec({place, mask, Discrete("action", 2), Scalar("reward", DType::kFloat32)}),
      kEpisodes * kLength);
  BatchBuilder last = *BatchBuilder::Create(*MakeSpec({place, mask}), kEpisodes);
  for (int64_t row = 0; row < rows.view().rows(); ++row) {
    rows.column<float>(0)[row] = static_cast<float>(row / kLength);
    rows.column<uint8_t>(1)[2 * row] = rows.column<uint8_t>(1)[2 * row + 1] = 1;
    rows.column<int64_t>(2)[row] = 0;
    rows.column<float>(3)[row] = 1;
  }
  // Every second one of the truncated episodes, which are 0, 2, ..., allows action 1 at its end.
  for (int64_t e = 0; e < kEpisodes; ++e) {
    last.column<float>(0)[e] = static_cast<float>(e);
    last.column<uint8_t>(1)[2 * e] = 0;
    last.column<uint8_t>(1)[2 * e + 1] = e % 4 == 0 ? 1 : 0;
  }
  set.episodes.rows = std::move(rows).Seal(kEpisodes * kLength);
  set.episodes.final_obs = std::move(last).Seal(kEpisodes);
  const std::string path = PathOf("masked.episodes");
  ASSERT_THAT(WriteEpisodes(path, set), IsOk());
  DING_ASSERT_OK_AND_ASSIGN(const Batch training, Transitions(path, TransitionOptions{1, 0.5}));
  for (int64_t row = 0; row < training.rows(); ++row) {
    const auto e = static_cast<int64_t>(training.column<float>("obs/place")[row]);
    const bool ends = row % kLength == kLength - 1;
    EXPECT_EQ(training.column<float>("discount")[row], ends && e % 4 != 0 ? 0 : 0.5f);
  }
}

TEST(DataSetTest, WithoutTransitionsThereAreObservationAndActionOnly) {
  const std::string path = WriteSmallEpisodes(Scalar("reward", DType::kFloat32));
  DING_ASSERT_OK_AND_ASSIGN(const DataSet data, LoadDataSet({path, 0.2, 1}, nullptr));
  EXPECT_EQ(data.training.spec->size(), 2);
  EXPECT_EQ(AllRows(data.training).spec(), *data.training.spec);
}

TEST(DataSetTest, TransitionsNeedARewardOfOneNumber) {
  const std::string path = WriteSmallEpisodes(Box("gain", {}));
  EXPECT_THAT(Transitions(path, {}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("reward")));
}

TEST(DataSetTest, AReplayBufferOnDiskIsADataSetToo) {
  const std::string episodes = WriteSmallEpisodes(Scalar("reward", DType::kFloat32));
  const TransitionOptions transitions{2, 0.5};
  DING_ASSERT_OK_AND_ASSIGN(const Batch wanted, Transitions(episodes, transitions));

  const std::unique_ptr<IBuffer> buffer = MakeBuffer();
  ASSERT_THAT(SaveData(*buffer, PathOf("small.buffer")), IsOk());
  const std::string run = PathOf("run");
  const std::string point = JoinPath(run, "ckpt/resume_18");
  ASSERT_THAT(CreateDirectories(JoinPath(run, "ckpt")), IsOk());
  ASSERT_THAT(WriteCheckpoint(point, {"train", {{"env", "small"}}},
                              {{"replay_buffer", buffer->Snapshot()}}),
              IsOk());
  uint32_t checksum = 0;
  for (const std::string& path : {PathOf("small.buffer"), run, point}) {
    SCOPED_TRACE(path);
    DING_ASSERT_OK_AND_ASSIGN(const DataSet data, LoadDataSet({path, 0.2, 1}, nullptr));
    DING_ASSERT_OK_AND_ASSIGN(const Batch rows, Transitions(path, transitions));
    ExpectEqual(rows, wanted);
    EXPECT_NE(data.checksum, 0u);
    if (checksum == 0) checksum = data.checksum;
    EXPECT_EQ(data.checksum, checksum);
  }
}

// Writes the small episodes as a folder with a file for each `in_file` of them.
std::string WriteFolder(const std::string& name, int64_t in_file) {
  std::string folder = PathOf(name);
  WriteInFiles(MakeSmallEpisodes(Scalar("reward", DType::kFloat32)), in_file, folder);
  return folder;
}

TEST(DataSetTest, AFolderOfFilesHasTheEpisodesOfOneFileThatHasAllOfThem) {
  const std::string file = WriteSmallEpisodes(Scalar("reward", DType::kFloat32));
  DING_ASSERT_OK_AND_ASSIGN(const DataSet one, LoadDataSet({file, 0.4, 1}, nullptr));
  DING_ASSERT_OK_AND_ASSIGN(const Batch one_transitions, Transitions(file, {2, 0.5}));
  for (const int64_t in_file : {1, 2, 3}) {
    SCOPED_TRACE(in_file);
    const std::string folder = WriteFolder(absl::StrCat("folder_", in_file), in_file);
    ASSERT_THAT(WriteFileAtomically(JoinPath(folder, "README"), "no episodes"), IsOk());
    DING_ASSERT_OK_AND_ASSIGN(const DataSet data, LoadDataSet({folder, 0.4, 1}, nullptr));
    EXPECT_EQ(data.training.rows.size(), kEpisodes / in_file);
    ExpectEqual(AllRows(data.training), AllRows(one.training));
    DING_ASSERT_OK_AND_ASSIGN(const Batch transitions, Transitions(folder, {2, 0.5}));
    ExpectEqual(transitions, one_transitions);
    std::vector<float> held_out;
    for (int64_t i = 0; i < data.held_out->size(); ++i) {
      const Batch batch = data.held_out->Get(i)->input;
      held_out.insert(held_out.end(), batch.column<float>(0).begin(), batch.column<float>(0).end());
    }
    EXPECT_THAT(held_out, testing::ElementsAreArray(one.held_out->Get(0)->input.column<float>(0)));
    EXPECT_THAT(data.description,
                HasSubstr(absl::StrCat("12 rows) of env 'small' to learn from, 2 (6 rows) held "
                                       "out; ",
                                       kEpisodes / in_file, " files")));
    EXPECT_NE(data.checksum, 0u);
  }
}

TEST(DataSetTest, AFileThatIsChangedRemovedOrDamagedWhileItIsReadIsNamed) {
  const std::string folder = WriteFolder("changing", 1);
  DING_ASSERT_OK_AND_ASSIGN(const DataSet data, LoadDataSet({folder, 0.2, 1}, nullptr));
  int64_t part = 0;
  while (data.training.rows[static_cast<size_t>(part)] == 0) ++part;
  const std::string path = JoinPath(folder, absl::StrCat("000", part, ".episodes"));
  const std::string content = *ReadFile(path);
  EXPECT_THAT(data.training.load(part), IsOk());

  std::string damaged = content;
  damaged[damaged.size() / 2] ^= 1;
  ASSERT_THAT(WriteFileAtomically(path, damaged), IsOk());
  EXPECT_THAT(data.training.load(part), StatusIs(absl::StatusCode::kDataLoss, HasSubstr(path)));

  ASSERT_THAT(RemoveFile(path), IsOk());
  EXPECT_THAT(data.training.load(part), StatusIs(absl::StatusCode::kNotFound, HasSubstr(path)));

  DING_ASSERT_OK_AND_ASSIGN(EpisodeSet other,
                            ReadEpisodes(WriteSmallEpisodes(Scalar("reward", DType::kFloat32))));
  ASSERT_THAT(WriteEpisodes(path, other), IsOk());
  EXPECT_THAT(data.training.load(part),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr(absl::StrCat("'", path, "' has changed"))));

  ASSERT_THAT(WriteFileAtomically(path, content), IsOk());
  EXPECT_THAT(data.training.load(part), IsOk());
  DING_ASSERT_OK_AND_ASSIGN(const DataSet again, LoadDataSet({folder, 0.2, 1}, nullptr));
  EXPECT_EQ(again.checksum, data.checksum);
  ASSERT_THAT(RemoveFile(path), IsOk());
  DING_ASSERT_OK_AND_ASSIGN(const DataSet fewer, LoadDataSet({folder, 0.2, 1}, nullptr));
  EXPECT_NE(fewer.checksum, data.checksum);
}

TEST(DataSetTest, AFileOfAFolderWithOtherSpacesOrWithoutEpisodesIsNamed) {
  const std::string folder = WriteFolder("mixed", 3);
  const std::string path = JoinPath(folder, "9.episodes");
  EpisodeSet other = MakeSmallEpisodes(Scalar("reward", DType::kFloat32));
  BatchBuilder rows = *BatchBuilder::Create(
      *MakeSpec({Box("obs", {1}), Discrete("action", 3), Scalar("reward", DType::kFloat32)}),
      kEpisodes * kLength);
  CopyRows(other.episodes.rows.view(), rows.view(), 0);
  other.episodes.rows = std::move(rows).Seal(kEpisodes * kLength);
  ASSERT_THAT(WriteEpisodes(path, other), IsOk());
  EXPECT_THAT(LoadDataSet({folder}, nullptr),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       testing::AllOf(HasSubstr(path), HasSubstr("0000.episodes'"),
                                      HasSubstr("its 'action' is int64[] in 0..2, expected "
                                                "int64[] in 0..1"))));

  for (const char* content : {"", "text, and no episodes at all"}) {
    ASSERT_THAT(WriteFileAtomically(path, content), IsOk());
    EXPECT_THAT(LoadDataSet({folder}, nullptr),
                StatusIs(absl::StatusCode::kDataLoss, HasSubstr(path)));
  }
}

TEST(DataSetTest, AFolderOfARunWithAFileOfEpisodesIsAmbiguous) {
  const std::string folder = WriteFolder("run_with_episodes", 3);
  ASSERT_THAT(WriteFileAtomically(JoinPath(folder, "total_config.textproto"), ""), IsOk());
  EXPECT_THAT(LoadDataSet({folder}, nullptr),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       testing::AllOf(HasSubstr("total_config.textproto"),
                                      HasSubstr("0000.episodes"), HasSubstr("name the file"))));
}

TEST(DataSetTest, AWindowMustHoldEachFile) {
  const std::string folder = WriteFolder("windows", 3);
  EXPECT_THAT(LoadDataSet({folder, 0.2, 1, 9}, nullptr), IsOk());
  EXPECT_THAT(LoadDataSet({folder, 0.2, 1, 8}, nullptr),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       testing::AllOf(HasSubstr("window_rows is 8"), HasSubstr(".episodes' has 9 "
                                                                               "rows"))));
}

// A run that goes on replaces its resume points.
TEST(DataSetTest, AReplayBufferIsKeptWhateverBecomesOfItsFile) {
  const std::string path = PathOf("kept.buffer");
  ASSERT_THAT(SaveData(*MakeBuffer(), path), IsOk());
  DING_ASSERT_OK_AND_ASSIGN(const DataSet data, LoadDataSet({path, 0.2, 1}, nullptr));
  const Batch rows = AllRows(data.training);
  ASSERT_THAT(RemoveFile(path), IsOk());
  ExpectEqual(AllRows(data.training), rows);
}

TEST(DataSetTest, RefusesFoldersAndFilesWithoutAReplayBuffer) {
  const std::string folder = PathOf("no_run");
  ASSERT_THAT(CreateDirectories(folder), IsOk());
  EXPECT_THAT(LoadDataSet({folder}, nullptr),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("no_run' has no files *.episodes and no resume")));

  const std::string checkpoint = PathOf("model_only");
  ASSERT_THAT(WriteCheckpoint(
                  checkpoint, {"train", {}},
                  {{"model", [](StateWriter* writer) { return writer->WriteInt("number", 1); }}}),
              IsOk());
  EXPECT_THAT(LoadDataSet({checkpoint}, nullptr),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("resume.max_replay_bytes")));
  EXPECT_THAT(LoadDataSet({JoinPath(checkpoint, "model.safetensors")}, nullptr),
              StatusIs(absl::StatusCode::kInvalidArgument));

  NaiveReplayBuffer::Options options;
  options.capacity_rows = 100;
  ASSERT_THAT(SaveData(**NaiveReplayBuffer::Create(options), PathOf("empty.buffer")), IsOk());
  EXPECT_THAT(LoadDataSet({PathOf("empty.buffer")}, nullptr),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("empty.buffer': the replay buffer has no rows")));
}

}  // namespace
}  // namespace ding
