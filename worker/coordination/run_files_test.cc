#include "ding_worker/worker/coordination/run_files.h"

#include <sys/stat.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/checkpoint.h"
#include "ding_worker/data/state.h"
#include "ding_worker/interaction/store/store.h"
#include "ding_worker/interaction/store/store_registry.h"
#include "ding_worker/worker/coordination/parallel_run.pb.h"
#include "ding_worker/worker/coordination/stored_file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr char kUrl[] = "/store/run-1";
constexpr size_t kLogPiece = 16 << 10;

bool Everything(const StoredFile& /*file*/) { return true; }
bool Now() { return true; }  // Finish() tries once

class RunFilesTest : public testing::Test {
 protected:
  RunFilesTest() {
    std::string folder = absl::StrCat(testing::TempDir(), "/run_files_XXXXXX");
    folder_ = mkdtemp(folder.data());
    url_ = absl::StrCat("file:", folder_, kUrl);
  }
  ~RunFilesTest() override { EXPECT_THAT(RemoveRecursively(folder_), IsOk()); }

  std::string Path(absl::string_view name) const { return JoinPath(folder_, name); }
  std::unique_ptr<Store> OpenStore() const { return create_store(RunFilesUrl(url_)).value(); }
  std::unique_ptr<RunFiles> Open(absl::string_view folder, const std::string& writer = "a") const {
    EXPECT_THAT(CreateDirectories(Path(folder)), IsOk());
    return std::make_unique<RunFiles>(OpenStore(), Path(folder), writer);
  }
  std::vector<std::string> Keys(absl::string_view prefix) const {
    return OpenStore()->List(prefix).value();
  }
  void Write(absl::string_view path, absl::string_view content) const {
    const std::string whole = Path(path);
    EXPECT_THAT(CreateDirectories(whole.substr(0, whole.rfind('/'))), IsOk());
    EXPECT_THAT(WriteFileAtomically(whole, content), IsOk());
  }
  void Append(absl::string_view path, absl::string_view content) const {
    std::ofstream(Path(path), std::ios::app) << content;
  }
  std::string Read(absl::string_view path) const {
    return ReadFile(Path(path)).value_or("(no file)");
  }
  void WriteTraining(absl::string_view path, int64_t iteration) const {
    const std::string whole = Path(path);
    EXPECT_THAT(CreateDirectories(whole.substr(0, whole.rfind('/'))), IsOk());
    const auto save = [iteration](StateWriter* writer) {
      return writer->WriteInt("value", iteration);
    };
    EXPECT_THAT(WriteCheckpoint(whole, {"train", {{"train_iter", absl::StrCat(iteration)}}},
                                {{"number", save}}),
                IsOk());
  }
  int64_t Trained(absl::string_view path) const {
    const auto checkpoint = CheckpointReader::Open(Path(path));
    EXPECT_THAT(checkpoint, IsOk());
    if (!checkpoint.ok()) return -1;
    return *(*checkpoint->Component("number"))->ReadInt("value");
  }
  // All files below a folder, with their content.
  std::map<std::string, std::string> Content(absl::string_view folder) const {
    std::map<std::string, std::string> content;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(Path(folder))) {
      if (!entry.is_regular_file()) continue;
      const std::string path = entry.path().lexically_relative(Path(folder)).string();
      content[path] = ReadFile(entry.path().string()).value();
    }
    return content;
  }

  std::string folder_;
  std::string url_;
};

TEST_F(RunFilesTest, Publish_ThenFetch_GivesTheSameBytes) {
  const auto files = Open("a");
  Write("a/total_config.textproto", "seed: 1");
  Write("a/log/learner-0_logger.txt", std::string(3 * kLogPiece + 7, 'x'));
  Write("a/log/learner-0/events.out.tfevents.1.host.2.0", std::string("\0\1\2", 3));
  Write("a/videos/eval 1_(best).gif", std::string(5 << 20, 'v'));
  Write("a/empty", "");
  WriteTraining("a/ckpt_policy_0/learner_resume", 7);
  EXPECT_THAT(files->Publish(), IsOk());
  EXPECT_THAT(Open("b")->Fetch(Everything), IsOk());
  EXPECT_EQ(Content("b"), Content("a"));
  EXPECT_THAT(Content("b"), SizeIs(7));
  EXPECT_EQ(Trained("b/ckpt_policy_0/learner_resume"), 7);
}

TEST_F(RunFilesTest, Publish_LeavesOutTemporaryFiles) {
  Write("a/file.tmp.12.0", "half");
  Write("a/ckpt/iteration_1.tmp.12.0/manifest.json", "half");
  Write("a/.lock", "");
  Write("a/kept", "whole");
  EXPECT_THAT(Open("a")->Publish(), IsOk());
  EXPECT_THAT(Open("b")->Fetch(Everything), IsOk());
  EXPECT_THAT(Content("b"), testing::ElementsAre(testing::Pair("kept", "whole")));
}

TEST_F(RunFilesTest, Publish_OfALogThatHasGrown_SendsOnlyItsEnd) {
  const auto files = Open("a");
  const auto reader = Open("b");
  Write("a/log/a.csv", std::string(2 * kLogPiece + 5, 'x'));
  EXPECT_THAT(files->Publish(), IsOk());
  EXPECT_THAT(reader->Fetch(Everything), IsOk());
  const std::vector<std::string> before = Keys("blob/");
  EXPECT_THAT(before, SizeIs(3));
  struct stat seen = {};
  ASSERT_EQ(stat(Path("b/log/a.csv").c_str(), &seen), 0);

  Append("a/log/a.csv", std::string(kLogPiece, 'y'));
  EXPECT_THAT(files->Publish(), IsOk());
  EXPECT_THAT(Keys("blob/"), AllOf(SizeIs(4), testing::IsSupersetOf(before)));
  EXPECT_THAT(reader->Fetch(Everything), IsOk());
  EXPECT_EQ(Content("b"), Content("a"));
  struct stat now = {};
  ASSERT_EQ(stat(Path("b/log/a.csv").c_str(), &now), 0);
  EXPECT_EQ(now.st_ino, seen.st_ino) << "a program that follows the log sees its end";
}

TEST_F(RunFilesTest, Publish_OfALogThatWasReplaced_SendsAllOfIt) {
  const auto files = Open("a");
  const auto reader = Open("b");
  Write("a/log/a.csv", "step,tag\n1,2\n");
  EXPECT_THAT(files->Publish(), IsOk());
  EXPECT_THAT(reader->Fetch(Everything), IsOk());
  Write("a/log/a.csv", "step,another_tag\n1,2\n");
  EXPECT_THAT(files->Publish(), IsOk());
  EXPECT_THAT(reader->Fetch(Everything), IsOk());
  EXPECT_EQ(Content("b"), Content("a"));
}

TEST_F(RunFilesTest, Publish_OfANewCheckpoint_LeavesNothingOfTheOldOne) {
  const auto files = Open("a");
  const auto reader = Open("b");
  WriteTraining("a/ckpt/learner_resume", 7);
  EXPECT_THAT(files->Publish(), IsOk());
  EXPECT_THAT(reader->Fetch(Everything), IsOk());
  const size_t pieces = Keys("blob/").size();
  WriteTraining("a/ckpt/learner_resume", 8);
  EXPECT_THAT(files->Publish(), IsOk());
  EXPECT_THAT(Keys("blob/"), SizeIs(pieces));
  EXPECT_THAT(reader->Fetch(Everything), IsOk());
  EXPECT_EQ(Trained("b/ckpt/learner_resume"), 8);
  EXPECT_THAT(RemoveRecursively(Path("a/ckpt/learner_resume")), IsOk());
  EXPECT_THAT(files->Publish(), IsOk());
  EXPECT_THAT(Keys(""), IsEmpty());
}

TEST_F(RunFilesTest, AResumePointNeverReplacesOneWithMoreIterations) {
  const auto stopped = Open("a");
  const auto successor = Open("b", "b");
  WriteTraining("b/ckpt/learner_resume", 8);
  EXPECT_THAT(successor->Publish(), IsOk());
  WriteTraining("a/ckpt/learner_resume", 7);
  EXPECT_THAT(stopped->Publish(), IsOk());
  WriteTraining("b/ckpt/ckpt_best", 8);
  EXPECT_THAT(successor->Publish(), IsOk());
  WriteTraining("b/ckpt/ckpt_best", 7);
  EXPECT_THAT(successor->Publish(), IsOk());
  EXPECT_THAT(Open("c")->Fetch(Everything), IsOk());
  EXPECT_EQ(Trained("c/ckpt/learner_resume"), 8);
  EXPECT_EQ(Trained("c/ckpt/ckpt_best"), 7) << "an earlier policy may be the best one";
  EXPECT_THAT(stopped->FetchPath("ckpt/learner_resume"), IsOk());
  EXPECT_EQ(Trained("a/ckpt/learner_resume"), 8);
}

TEST_F(RunFilesTest, ASuccessorContinuesALog) {
  Write("a/log/learner-0_logger.txt", "first\n");
  EXPECT_THAT(Open("a", "learner-0")->Publish(), IsOk());
  const auto successor = Open("b", "learner-0");
  EXPECT_THAT(successor->FetchPath("log/learner-0_logger.txt"), IsOk());
  EXPECT_THAT(successor->FetchPath("log/learner-0.csv"), IsOk()) << "there is none";
  Append("b/log/learner-0_logger.txt", "second\n");
  EXPECT_THAT(successor->Publish(), IsOk());
  EXPECT_THAT(Open("c")->Fetch(Everything), IsOk());
  EXPECT_EQ(Read("c/log/learner-0_logger.txt"), "first\nsecond\n");
  EXPECT_THAT(Keys("blob/"), SizeIs(1)) << "nothing is left of the first log";
}

TEST_F(RunFilesTest, TheCoordinatorNeverReplacesAFileOfAWorker) {
  const auto worker = Open("w", "learner-0");
  Write("w/log/learner-0.csv", "1\n");
  EXPECT_THAT(worker->Publish(), IsOk());
  Write("a/log/learner-0.csv", "of an earlier coordinator\n");
  const auto coordinator = Open("a", "coordinator");
  EXPECT_THAT(coordinator->Lead("one"), IsOk());
  EXPECT_THAT(coordinator->Publish(), IsOk());
  EXPECT_THAT(coordinator->Fetch(Everything), IsOk());
  EXPECT_EQ(Read("a/log/learner-0.csv"), "1\n");
}

TEST_F(RunFilesTest, AStoreThatHasLostItsDataGetsThemAgain) {
  const auto files = Open("a");
  EXPECT_THAT(files->Lead("one"), IsOk());
  Write("a/result.json", "{}");
  Write("a/log/a.csv", "1\n");
  EXPECT_THAT(files->Publish(), IsOk());
  for (const std::string& key : Keys("")) EXPECT_THAT(OpenStore()->Delete(key), IsOk());
  EXPECT_THAT(files->Publish(), IsOk());
  EXPECT_THAT(Open("b")->Fetch(Everything), IsOk());
  EXPECT_EQ(Content("b"), Content("a"));
}

TEST_F(RunFilesTest, NobodyPublishesForACoordinatorThatWasReplaced) {
  const auto old = Open("a", "coordinator");
  EXPECT_THAT(old->Lead("one"), IsOk());
  const auto worker = Open("w", "learner-0");
  EXPECT_THAT(worker->Publish(), IsOk());
  const auto next = Open("b", "coordinator");
  EXPECT_THAT(next->Lead("two"), IsOk());
  Write("a/result.json", "old");
  Write("w/log/learner-0.csv", "old");
  EXPECT_THAT(old->Publish(), StatusIs(absl::StatusCode::kAborted, HasSubstr("goes on")));
  EXPECT_THAT(worker->Publish(), StatusIs(absl::StatusCode::kAborted));
  EXPECT_THAT(old->Finish(Now), IsOk()) << "it has nothing to send any more";
  EXPECT_THAT(Keys("file/"), IsEmpty());
  EXPECT_FALSE(next->ReadOwner()->ended);
}

TEST_F(RunFilesTest, AFileThatWouldBeWrittenElsewhereIsRefused) {
  for (const char* path : {"../outside", "/outside", "a//b", ""}) {
    StoredFile file;
    file.set_path(path);
    file.set_blob("1");
    file.set_piece_bytes(10);
    file.add_part();
    const std::string bytes = file.SerializeAsString();
    EXPECT_THAT(CheckStoredFile(file), StatusIs(absl::StatusCode::kDataLoss)) << path;
    // Some of these are no keys, either.
    OpenStore()->Put(StoredFileKey(path), {absl::string_view(bytes)}).IgnoreError();
  }
  Write("a/good", "good");
  EXPECT_THAT(Open("a")->Publish(), IsOk());
  EXPECT_THAT(Open("b")->Fetch(Everything), StatusIs(absl::StatusCode::kDataLoss));
  EXPECT_EQ(Read("b/good"), "good") << "the other files are fetched nevertheless";
  EXPECT_FALSE(PathExists(Path("outside")));
}

TEST_F(RunFilesTest, ADamagedPieceIsReported) {
  Write("a/log/a.csv", "1,2,3\n");
  EXPECT_THAT(Open("a")->Publish(), IsOk());
  EXPECT_THAT(OpenStore()->Put(Keys("blob/")[0], {absl::string_view("1,2,4\n")}), IsOk());
  EXPECT_THAT(Open("b")->Fetch(Everything),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("log/a.csv")));
  EXPECT_FALSE(PathExists(Path("b/log/a.csv")));
}

TEST_F(RunFilesTest, AStoreThatIsAwayIsWaitedForAtTheEnd) {
  const auto files = Open("a");
  EXPECT_THAT(files->Lead("one"), IsOk());
  EXPECT_THAT(files->Start(), IsOk());
  const std::string store = absl::StrCat(folder_, kUrl, ".files");
  ASSERT_EQ(std::rename(store.c_str(), Path("away").c_str()), 0);
  Write("a/result.json", "{}");
  EXPECT_THAT(files->Finish(Now),
              StatusIs(absl::StatusCode::kUnavailable,
                       AllOf(HasSubstr("not all files of a are in"), HasSubstr("they stay in"))));
  int tries = 0;
  const auto come_back = [&] {
    ++tries;
    if (tries == 3) {
      EXPECT_EQ(std::rename(Path("away").c_str(), store.c_str()), 0);
    }
    return tries > 1000;
  };
  EXPECT_THAT(files->Finish(come_back), IsOk());
  EXPECT_TRUE(files->ReadOwner()->ended);
  EXPECT_THAT(Open("b")->Fetch(Everything), IsOk());
  EXPECT_EQ(Read("b/result.json"), "{}");
}

TEST_F(RunFilesTest, FetchRun_FollowsARunToItsEndAndRemovesItsFiles) {
  FetchRunOptions options;
  options.store_url = url_;
  options.folder = Path("mine");
  EXPECT_THAT(FetchRun(options), StatusIs(absl::StatusCode::kNotFound, HasSubstr("run_files")));
  EXPECT_FALSE(PathExists(options.folder));

  const auto files = Open("a", "coordinator");
  EXPECT_THAT(files->Lead("one"), IsOk());
  Write("b/log/learner-0_logger.txt", "a worker may be sooner");
  EXPECT_THAT(Open("b", "learner-0")->Publish(), IsOk());
  EXPECT_THAT(FetchRun(options), StatusIs(absl::StatusCode::kUnavailable, HasSubstr("try again")));
  EXPECT_THAT(Content("mine"), IsEmpty()) << "else it would be the folder of nobody";

  Write("a/coordinator/run.textproto", "run: \"run-1\"");
  EXPECT_THAT(files->Publish(), IsOk());
  options.remove = true;
  EXPECT_THAT(FetchRun(options),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("not come to an end")));
  Write("a/result.json", "{}");
  options.follow = true;
  options.interrupted = [&] {  // between two rounds
    EXPECT_THAT(files->Finish(Now), IsOk());
    return false;
  };
  EXPECT_THAT(FetchRun(options), IsOk());
  EXPECT_EQ(Read("mine/log/learner-0_logger.txt"), "a worker may be sooner");
  ASSERT_THAT(RemoveRecursively(Path("mine/log")), IsOk());
  EXPECT_EQ(Content("mine"), Content("a"));
  EXPECT_THAT(Keys(""), IsEmpty());
}

TEST_F(RunFilesTest, FetchRun_ToAFolderWithOtherFiles_IsRefused) {
  const auto files = Open("a", "coordinator");
  EXPECT_THAT(files->Lead("one"), IsOk());
  Write("a/coordinator/run.textproto", "run: \"run-1\"");
  EXPECT_THAT(files->Publish(), IsOk());
  Write("mine/notes.txt", "mine");
  Write("other/coordinator/run.textproto", "run: \"run-2\"");
  for (const char* folder : {"mine", "other"}) {
    EXPECT_THAT(FetchRun({url_, Path(folder)}),
                StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("run-1")));
  }
  EXPECT_THAT(Content("mine"), SizeIs(1));
}

TEST(RunFilesUrlTest, KeepsTheSettings) {
  EXPECT_EQ(RunFilesUrl("redis:h:1/p/run?password_file=/f"),
            "redis:h:1/p/run.files?password_file=/f");
  EXPECT_EQ(RunFilesUrl("file:/p/run"), "file:/p/run.files");
}

}  // namespace
}  // namespace ding
