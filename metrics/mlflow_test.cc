#include "ding_worker/metrics/mlflow.h"

#include <cstddef>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/file_testing.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/metrics/mlflow.pb.h"
#include "ding_worker/metrics/sink.pb.h"
#include "ding_worker/metrics/sink_registry.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class MlflowTest : public testing::Test {
 protected:
  MlflowTest() : clock_(absl::FromUnixMillis(1714550400250)) {
    run_ =
        JoinPath(testing::TempDir(), testing::UnitTest::GetInstance()->current_test_info()->name());
    EXPECT_THAT(RemoveRecursively(run_), IsOk());
    EXPECT_THAT(CreateDirectories(run_), IsOk());
    options_.folder = JoinPath(run_, "mlruns");
    options_.experiment = "it's an experiment";
    options_.run_name = "run 1";
    options_.run_id_file = JoinPath(run_, "id.txt");
    options_.clock = &clock_;
  }
  static std::string Content(const std::string& folder, const std::string& file) {
    const absl::StatusOr<std::string> content = ReadFile(JoinPath(folder, file));
    EXPECT_THAT(content.status(), IsOk());
    return content.ok() ? *content : "";
  }

  SimulatedClock clock_;
  std::string run_;
  MlflowSink::Options options_;
};

TEST_F(MlflowTest, WritesWhatTheFileStoreReads) {
  DING_ASSERT_OK_AND_ASSIGN(const auto sink, MlflowSink::Create(options_));
  const std::string id = Content(run_, "id.txt").substr(0, 32);
  const std::string& folder = sink->run_folder();
  EXPECT_EQ(Basename(folder), id);
  EXPECT_THAT(Content(folder, "meta.yaml"),
              AllOf(HasSubstr("status: 1\n"), HasSubstr("end_time: null\n"),
                    HasSubstr("run_name: 'run 1'\n"), HasSubstr("run_id: '" + id + "'\n"),
                    HasSubstr("start_time: 1714550400250\n")));
  EXPECT_THAT(Content(folder, "../meta.yaml"), HasSubstr("name: 'it''s an experiment'\n"));
  sink->BeginRun({"name", {{"policy.hook[0].freq", "64"}}});
  EXPECT_EQ(Content(folder, "params/policy.hook.0.freq"), "64");
  sink->Scalar("learner_step/loss", 8, 0.5);
  clock_.Advance(absl::Milliseconds(1));
  sink->Scalar("learner_step/loss", 16, 0.25);
  sink->Scalar("../outside", 16, 1);
  sink->EndRun(RunEnd::kFinished, 24, {{"final_eval", 195.5}});
  ASSERT_THAT(sink->Flush(), IsOk());
  EXPECT_EQ(Content(folder, "metrics/learner_step/loss"),
            "1714550400250 0.5 8\n1714550400251 0.25 16\n");
  EXPECT_EQ(Content(folder, "metrics/result/final_eval"), "1714550400251 195.5 24\n");
  EXPECT_EQ(Content(folder, "metrics/-2E-2E/outside"), "1714550400251 1 16\n");
  EXPECT_THAT(Content(folder, "meta.yaml"),
              AllOf(HasSubstr("status: 3\n"), HasSubstr("end_time: 1714550400251\n")));
}

TEST_F(MlflowTest, AResumedRunIsTheSameRunAndAnotherOneIsNot) {
  std::string folder;
  {
    DING_ASSERT_OK_AND_ASSIGN(const auto sink, MlflowSink::Create(options_));
    folder = sink->run_folder();
    sink->Scalar("a", 1, 1);
    sink->EndRun(RunEnd::kInterrupted, 1, {});
  }
  EXPECT_THAT(Content(folder, "meta.yaml"), HasSubstr("status: 5\n"));
  {
    DING_ASSERT_OK_AND_ASSIGN(const auto sink, MlflowSink::Create(options_));
    EXPECT_EQ(sink->run_folder(), folder);
    sink->Scalar("a", 2, 1);
  }
  EXPECT_EQ(Content(folder, "metrics/a"), "1714550400250 1 1\n1714550400250 1 2\n");
  EXPECT_THAT(Content(folder, "meta.yaml"), HasSubstr("status: 4\n")) << "it did not end";
  {
    clock_.Advance(absl::Hours(1));
    DING_ASSERT_OK_AND_ASSIGN(const auto sink, MlflowSink::Create(options_));
    EXPECT_THAT(Content(folder, "meta.yaml"),
                AllOf(HasSubstr("status: 1\n"), HasSubstr("end_time: null\n"),
                      HasSubstr("start_time: 1714550400250\n")));
    sink->EndRun(RunEnd::kFinished, 1, {});
  }
  EXPECT_THAT(Content(folder, "meta.yaml"), HasSubstr("status: 3\n"));
  options_.run_id_file = JoinPath(run_, "other.txt");
  clock_.Advance(absl::Nanoseconds(1));
  DING_ASSERT_OK_AND_ASSIGN(const auto other, MlflowSink::Create(options_));
  EXPECT_NE(other->run_folder(), folder);
  DING_ASSERT_OK_AND_ASSIGN(const auto experiments, ListDirectory(options_.folder));
  EXPECT_THAT(experiments, SizeIs(1)) << "both runs are of one experiment";
}

// Returns the names of the files below a folder.
std::set<std::string> FilesBelow(const std::string& folder) {
  std::set<std::string> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) {
      files.insert(entry.path().lexically_relative(folder).string());
    }
  }
  return files;
}

TEST_F(MlflowTest, AFileOfAMetricAppearsWithItsFirstLine) {
  DING_ASSERT_OK_AND_ASSIGN(const auto sink, MlflowSink::Create(options_));
  const std::string metrics = JoinPath(sink->run_folder(), "metrics");
  sink->Scalar("a", 1, 1);
  sink->Scalar("b/c", 1, 1);
  EXPECT_THAT(FilesBelow(metrics), IsEmpty());
  clock_.Advance(absl::Seconds(6));
  sink->Scalar("d", 2, 1);  // It writes all that wait.
  EXPECT_THAT(FilesBelow(metrics), ElementsAre("a", "b/c", "d"));
  for (const std::string& file : FilesBelow(metrics)) EXPECT_NE(Content(metrics, file), "") << file;
  sink->Scalar("a", 3, 1);
  EXPECT_EQ(Content(metrics, "a"), "1714550400250 1 1\n");
  ASSERT_THAT(sink->Flush(), IsOk());
  EXPECT_EQ(Content(metrics, "a"), "1714550400250 1 1\n1714550406250 1 3\n");
}

TEST_F(MlflowTest, AHalfLineIsCutOff) {
  DING_ASSERT_OK_AND_ASSIGN(const auto sink, MlflowSink::Create(options_));
  sink->Scalar("a", 1, 1);
  ASSERT_THAT(sink->Flush(), IsOk());
  const std::string path = JoinPath(sink->run_folder(), "metrics/a");
  ASSERT_THAT(WriteFileAtomically(path, "1714550400250 1 1\n17145504"), IsOk());
  sink->Scalar("a", 2, 1);
  ASSERT_THAT(sink->Flush(), IsOk());
  EXPECT_EQ(Content(sink->run_folder(), "metrics/a"), "1714550400250 1 1\n1714550400250 1 2\n");
}

// What mlflow/utils/validation.py asks of a name.
void ExpectAllowed(const std::string& name) {
  for (const char c : name) {
    EXPECT_TRUE(absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
                absl::string_view("_-. /").find(c) != absl::string_view::npos)
        << name;
  }
  EXPECT_LE(name.size(), 250u);
  EXPECT_NE(name.substr(0, 2), "..");
  for (const absl::string_view part : absl::StrSplit(name, '/')) {
    EXPECT_TRUE(!part.empty() && part != "." && part != "..") << name;
  }
}

TEST_F(MlflowTest, EveryNameHasAFileOfItsOwn) {
  const std::string long_name(300, 'x');
  const std::vector<std::string> names = {"\xE5\xA5\x96\xE5\x8A\xB1",
                                          "\xE9\x95\xBF\xE5\xBA\xA6",
                                          "______",
                                          "-E5-A5-96-E5-8A-B1",
                                          "-E5",
                                          "\xE5",
                                          "loss",
                                          "Loss",
                                          "LOSS",
                                          "a",
                                          "a/b",
                                          "a-2Fb",
                                          "a//b",
                                          "/a",
                                          "a/",
                                          "/",
                                          "",
                                          "-",
                                          ".",
                                          "..",
                                          "../a",
                                          "..a",
                                          "...",
                                          "a..",
                                          "a/../b",
                                          "a/./b",
                                          "c/d/e",
                                          "c/d",
                                          "c",
                                          "a b",
                                          "a_b",
                                          "a:b",
                                          "a%b",
                                          "a\nb",
                                          std::string("a\0b", 3),
                                          long_name,
                                          long_name + "y",
                                          long_name + "/z",
                                          std::string(249, 'x'),
                                          std::string(250, 'x')};
  for (int again = 0; again < 2; ++again) {
    DING_ASSERT_OK_AND_ASSIGN(const auto sink, MlflowSink::Create(options_));
    for (size_t i = 0; i < names.size(); ++i) {
      // A resumed run may begin with others.
      const size_t which = again == 0 ? i : names.size() - 1 - i;
      sink->Scalar(names[which], 1, static_cast<double>(which));
    }
    ASSERT_THAT(sink->Flush(), IsOk());
    std::set<std::string> lines;
    const std::set<std::string> files = FilesBelow(JoinPath(sink->run_folder(), "metrics"));
    for (const std::string& file : files) {
      ExpectAllowed(file);
      const std::string content = Content(JoinPath(sink->run_folder(), "metrics"), file);
      const std::string line = content.substr(0, content.find('\n') + 1);
      EXPECT_EQ(content, again == 0 ? line : line + line) << file << " after a resume";
      lines.insert(line);
    }
    EXPECT_EQ(files.size(), names.size());
    EXPECT_EQ(lines.size(), names.size());
  }
}

TEST_F(MlflowTest, ManyMetricsNeedNoDescriptors) {
  DING_ASSERT_OK_AND_ASSIGN(const auto sink, MlflowSink::Create(options_));
  DING_ASSERT_OK_AND_ASSIGN(const auto before, ListDirectory("/proc/self/fd"));
  for (int i = 0; i < 100; ++i) sink->Scalar(absl::StrCat("info/level_", i), 1, i);
  ASSERT_THAT(sink->Flush(), IsOk());
  DING_ASSERT_OK_AND_ASSIGN(const auto after, ListDirectory("/proc/self/fd"));
  EXPECT_EQ(after.size(), before.size());
  EXPECT_THAT(FilesBelow(JoinPath(sink->run_folder(), "metrics")), SizeIs(100));
}

TEST_F(MlflowTest, ARunThatCannotWriteItsEndIsFailed) {
  DING_ASSERT_OK_AND_ASSIGN(auto sink, MlflowSink::Create(options_));
  const std::string folder = sink->run_folder();
  const size_t size = Content(folder, "meta.yaml").size();
  {
    // As on a full disk: no file can be written, but bytes can be replaced.
    const FileSizeLimit limit(size - 10);
    sink->EndRun(RunEnd::kFailed, 1, {});
    EXPECT_FALSE(sink->Flush().ok());
  }
  EXPECT_THAT(Content(folder, "meta.yaml"), HasSubstr("status: 4\n"));
}

TEST_F(MlflowTest, NamesOfRunsAreUtf8) {
  options_.run_name = "br_\xE5\x90\x8D\xC3\xBC\n\xFF";
  DING_ASSERT_OK_AND_ASSIGN(const auto sink, MlflowSink::Create(options_));
  EXPECT_THAT(Content(sink->run_folder(), "meta.yaml"),
              HasSubstr("run_name: 'br_\xE5\x90\x8D\xC3\xBC\\x0A\\xFF'\n"));
}

TEST_F(MlflowTest, RefusesAnIdFileOfSomethingElse) {
  ASSERT_THAT(WriteFileAtomically(options_.run_id_file, "../../elsewhere"), IsOk());
  EXPECT_THAT(MlflowSink::Create(options_).status(), IsDataLoss("id.txt"));
}

TEST(MlflowFactoryTest, WritesBesideTheFolderOfTheRun) {
  const std::string runs = JoinPath(testing::TempDir(), "mlflow_factory");
  ASSERT_THAT(RemoveRecursively(runs), IsOk());
  SinkConfig config;
  config.set_type("mlflow");
  MlflowSinkParams params;
  config.mutable_params()->PackFrom(params);
  DING_ASSERT_OK_AND_ASSIGN(auto sink, create_sink(config, {JoinPath(runs, "run_1"), "serial"}));
  EXPECT_TRUE(IsDirectory(JoinPath(runs, "mlruns")));
  EXPECT_TRUE(PathExists(JoinPath(runs, "run_1/log/serial_mlflow_run_id.txt")));
  params.set_experiment("");
  config.mutable_params()->PackFrom(params);
  EXPECT_THAT(create_sink(config, {JoinPath(runs, "run_1"), "serial"}).status(),
              IsInvalid("experiment is empty"));
}

}  // namespace
}  // namespace ding
