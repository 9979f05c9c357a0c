#include "ding_worker/worker/watch/run_histograms.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/file_testing.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/metrics/tensorboard.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

constexpr int64_t kAll = 1 << 30;

class RunHistogramsTest : public testing::Test {
 protected:
  // Writes a histogram of 0, 1, 1 and `step` for each step.
  void Write(const std::string& process, int first, int last) {
    const std::string folder = JoinPath(folder_, process);
    ASSERT_THAT(CreateDirectories(folder), IsOk());
    TensorBoardSink::Options options;
    options.folder = folder;
    DING_ASSERT_OK_AND_ASSIGN(auto sink, TensorBoardSink::Create(options));
    for (int step = first; step <= last; ++step) {
      sink->Scalar("loss", step, 1);
      sink->Histogram("q", step, {0, 1, 1, static_cast<float>(step)});
    }
    ASSERT_THAT(sink->Flush(), IsOk());
  }
  absl::Status ReadAll() {
    const absl::StatusOr<bool> more = read_.ReadMore(folder_, kAll);
    EXPECT_FALSE(more.value_or(false));
    return more.status();
  }
  std::vector<int64_t> Steps(const std::string& process = "serial") const {
    std::vector<int64_t> steps;
    const auto found = read_.by_tag().find(process + ": q");
    if (found == read_.by_tag().end()) return steps;
    for (const RunHistogram& histogram : found->second) steps.push_back(histogram.step);
    return steps;
  }

  const std::string folder_ = FreshTestFolder();
  RunHistograms read_;
};

TEST_F(RunHistogramsTest, ReadsWhatTheSinkHasWritten) {
  Write("serial", 3, 5);
  ASSERT_THAT(ReadAll(), IsOk());
  EXPECT_THAT(Steps(), ElementsAre(3, 4, 5));
  EXPECT_THAT(read_.by_tag(), SizeIs(1)) << "scalars are none";
  const RunHistogram& last = read_.by_tag().at("serial: q").back();
  ASSERT_EQ(last.edges.size(), last.counts.size() + 1);
  EXPECT_EQ(last.edges.front(), 0);
  EXPECT_EQ(last.edges.back(), 5);
  double all = 0;
  double below_two = 0;
  for (size_t i = 0; i < last.counts.size(); ++i) {
    all += last.counts[i];
    if (last.edges[i + 1] <= 2) below_two += last.counts[i];
  }
  EXPECT_EQ(all, 4);
  EXPECT_EQ(below_two, 3);
}

TEST_F(RunHistogramsTest, GoesOnWhereItWasAndInPieces) {
  Write("learner-0", 1, 3);
  int pieces = 0;
  while (true) {
    DING_ASSERT_OK_AND_ASSIGN(const bool more, read_.ReadMore(folder_, 200));
    if (!more) break;
    ++pieces;
  }
  EXPECT_GE(pieces, 2);
  EXPECT_THAT(Steps("learner-0"), ElementsAre(1, 2, 3));
  // A resumed run repeats steps, in another file.
  Write("learner-0", 3, 4);
  ASSERT_THAT(ReadAll(), IsOk());
  EXPECT_THAT(Steps("learner-0"), ElementsAre(1, 2, 3, 4));
}

TEST_F(RunHistogramsTest, LearnersDoNotMix) {
  Write("learner-0", 1, 3);
  Write("learner-1", 2, 2);
  ASSERT_THAT(ReadAll(), IsOk());
  EXPECT_THAT(Steps("learner-0"), ElementsAre(1, 2, 3));
  EXPECT_THAT(Steps("learner-1"), ElementsAre(2));
}

TEST_F(RunHistogramsTest, ThinsOutLongRuns) {
  Write("serial", 0, 1999);
  ASSERT_THAT(ReadAll(), IsOk());
  const std::vector<int64_t> steps = Steps();
  EXPECT_LE(steps.size(), RunHistograms::kMaxHistograms);
  EXPECT_GT(steps.size(), RunHistograms::kMaxHistograms / 2 - 2);
  EXPECT_EQ(steps.front(), 0);
  EXPECT_GT(steps.back(), 1950);
  for (size_t i = 1; i < steps.size(); ++i) EXPECT_EQ(steps[i] - steps[i - 1], 16);
}

TEST_F(RunHistogramsTest, ATornEndWaitsAndDamageIsNamed) {
  Write("serial", 1, 2);
  const std::string file =
      JoinPath(JoinPath(folder_, "serial"), ListDirectory(JoinPath(folder_, "serial"))->at(0));
  const std::string bytes = ReadFile(file).value();
  OverwriteFile(file, bytes.substr(0, bytes.size() - 3));
  ASSERT_THAT(ReadAll(), IsOk());
  EXPECT_THAT(Steps(), ElementsAre(1));
  OverwriteFile(file, bytes);
  ASSERT_THAT(ReadAll(), IsOk());
  EXPECT_THAT(Steps(), ElementsAre(1, 2));
  OverwriteFile(file, absl::StrCat(bytes, std::string(20, '\xff')));
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT(ReadAll(),
                StatusIs(absl::StatusCode::kDataLoss,
                         HasSubstr(absl::StrCat("' is damaged at byte ", bytes.size()))));
  }
  EXPECT_THAT(Steps(), ElementsAre(1, 2));
}

}  // namespace
}  // namespace ding
