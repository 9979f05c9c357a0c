#include "ding_worker/worker/watch/run_curves.h"

#include <cmath>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/file_testing.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/metrics/csv.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Le;
using testing::SizeIs;

constexpr int64_t kAll = int64_t{1} << 30;
const char kHeader[] = "step,tag,value,wall_time\n";

std::string PathOfTest() { return JoinPath(FreshTestFolder(), "metrics.csv"); }

void AppendTo(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::app) << text;
}

std::vector<double> StepsOf(const Curve& curve) {
  std::vector<double> steps;
  for (const Curve::Block& block : curve.blocks()) steps.push_back(block.step);
  return steps;
}

std::vector<double> MeansOf(const Curve& curve) {
  std::vector<double> means;
  for (const Curve::Block& block : curve.blocks()) means.push_back(block.mean());
  return means;
}

// Whether a list has the same numbers, with NaN equal to NaN.
std::string Shown(const std::vector<double>& values) {
  std::string text;
  for (const double value : values) {
    absl::StrAppend(&text, text.empty() ? "" : " ", std::isnan(value) ? "-" : absl::StrCat(value));
  }
  return text;
}

Curve CurveOf(const std::vector<std::pair<int, double>>& points) {
  Curve curve;
  for (const auto& [step, value] : points) curve.Add(step, 1000 + 2 * step, value);
  return curve;
}

TEST(CurveTest, Add_StepsRunAgain_LastValueIsValid) {
  const Curve curve = CurveOf({{1, 10}, {2, 20}, {4, 40}, {2, 21}, {3, 30}, {4, 41}});
  EXPECT_THAT(StepsOf(curve), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(MeansOf(curve), ElementsAre(10, 21, 30, 41));
}

TEST(CurveTest, Add_NotFinite_IsLeftOut) {
  EXPECT_THAT(StepsOf(CurveOf({{1, NAN}, {2, 1}, {3, INFINITY}})), ElementsAre(2));
}

TEST(CurveTest, Add_AMillionValues_KeepsPeaksInBoundedMemory) {
  Curve curve;
  double sum = 0;
  for (int i = 0; i < 1000000; ++i) {
    const double value = i == 123456 ? 1e6 : i == 654321 ? -1e6 : i % 7;
    curve.Add(i, i, value);
    sum += value;
  }
  EXPECT_THAT(curve.blocks(), SizeIs(Le(Curve::kMaxBlocks)));
  double high = 0, low = 0, all = 0;
  int64_t count = 0;
  for (const Curve::Block& block : curve.blocks()) {
    high = std::max(high, block.high);
    low = std::min(low, block.low);
    all += block.sum;
    count += block.count;
  }
  EXPECT_EQ(high, 1e6);
  EXPECT_EQ(low, -1e6);
  EXPECT_EQ(count, 1000000);
  EXPECT_DOUBLE_EQ(all, sum);
  EXPECT_EQ(curve.blocks().back().step, 999999);
}

TEST(MetricsFileTest, ReadMore_FileOfCsvSink_HasItsValues) {
  const std::string path = PathOfTest();
  CsvSink::Options options;
  options.path = path;
  SimulatedClock clock(absl::FromUnixSeconds(100));
  options.clock = &clock;
  auto sink = CsvSink::Create(options).value();
  MetricsFile file(path);
  sink->Scalar("learner_step/<script>,\"x\"\n", 3, -0.25);
  ASSERT_THAT(sink->Flush(), IsOk());
  EXPECT_TRUE(file.ReadMore(kAll).value());
  clock.Advance(absl::Milliseconds(1500));
  sink->Scalar("plain", 1, 1e-7);
  ASSERT_THAT(sink->Flush(), IsOk());
  EXPECT_TRUE(file.ReadMore(kAll).value());
  EXPECT_FALSE(file.ReadMore(kAll).value());
  ASSERT_THAT(file.curves(), SizeIs(2));
  EXPECT_THAT(MeansOf(file.curves().at("learner_step/<script>,\"x\"\n")), ElementsAre(-0.25));
  EXPECT_EQ(file.curves().at("plain").blocks()[0].time, 101.5);
  EXPECT_EQ(file.first_time(), 100);
}

TEST(MetricsFileTest, ReadMore_LineWithoutEnd_IsReadWhenItIsWhole) {
  const std::string path = PathOfTest();
  AppendTo(path, "step,tag");
  MetricsFile file(path);
  EXPECT_FALSE(file.ReadMore(kAll).value());
  AppendTo(path, ",value,wall_time\n1,a,5,1\n2,a,");
  EXPECT_TRUE(file.ReadMore(kAll).value());
  EXPECT_THAT(MeansOf(file.curves().at("a")), ElementsAre(5));
  AppendTo(path, "6,2\n");
  EXPECT_TRUE(file.ReadMore(kAll).value());
  EXPECT_THAT(MeansOf(file.curves().at("a")), ElementsAre(5, 6));
}

TEST(MetricsFileTest, ReadMore_InPieces_ReadsAll) {
  const std::string path = PathOfTest();
  std::string text = kHeader;
  for (int i = 0; i < 100; ++i) absl::StrAppend(&text, i, ",tag,", 2 * i, ",", i, "\n");
  AppendTo(path, text);
  MetricsFile file(path);
  while (*file.ReadMore(50)) {
  }
  EXPECT_THAT(file.curves().at("tag").blocks(), SizeIs(100));
}

TEST(MetricsFileTest, ReadMore_FileCutBackAndContinued_IsReadAnew) {
  const std::string path = PathOfTest();
  AppendTo(path, absl::StrCat(kHeader, "1,a,1,1\n2,a,2,2\n3,b,3,3\n"));
  MetricsFile file(path);
  ASSERT_THAT(file.ReadMore(kAll), IsOk());
  OverwriteFile(path, absl::StrCat(kHeader, "1,a,1,1\n2,a,7,9\n3,a,8,9\n4,a,9,9\n"));
  ASSERT_THAT(file.ReadMore(kAll), IsOk());
  EXPECT_THAT(MeansOf(file.curves().at("a")), ElementsAre(1, 7, 8, 9));
  EXPECT_EQ(file.curves().count("b"), 0);
}

TEST(MetricsFileTest, ReadMore_DamagedLine_NamesItAndKeepsWhatStandsBefore) {
  for (const char* bad :
       {"x,a,1,1\n", "2,a,1\n", "2,a,one,1\n", "2,\"a,1,1\n3,a,1,1\n\"\n", "\n"}) {
    const std::string path = PathOfTest();
    AppendTo(path, absl::StrCat(kHeader, "1,a,1,1\n", bad, "5,a,1,1\n"));
    MetricsFile file(path);
    for (int i = 0; i < 2; ++i) {
      EXPECT_THAT(file.ReadMore(kAll),
                  StatusIs(absl::StatusCode::kDataLoss,
                           AllOf(HasSubstr(path), HasSubstr("line 3"), HasSubstr("expected"))))
          << bad;
    }
    EXPECT_THAT(MeansOf(file.curves().at("a")), ElementsAre(1));
  }
  const std::string path = PathOfTest();
  AppendTo(path, std::string("\x7f"
                             "ELF\0\0",
                             6));
  EXPECT_THAT(MetricsFile(path).ReadMore(kAll),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("line 1")));
}

TEST(SampleCurvesTest, OneRun_FewPoints_AreExact) {
  const Curve curve = CurveOf({{1, 10}, {3, 30}, {4, 20}});
  CurveView view;
  const CurveTable table = SampleCurves({{{&curve, 1000}}}, view);
  EXPECT_THAT(table.x, ElementsAre(1, 3, 4));
  EXPECT_THAT(table.series[0].mid, ElementsAre(10, 30, 20));
  EXPECT_EQ(table.series[0].low, table.series[0].mid);
  view.axis = CurveAxis::kSeconds;
  EXPECT_THAT(SampleCurves({{{&curve, 1000}}}, view).x, ElementsAre(2, 6, 8));
  view.from = 3;
  view.to = 7;
  EXPECT_THAT(SampleCurves({{{&curve, 1000}}}, view).x, ElementsAre(6));
}

TEST(SampleCurvesTest, OneRun_ManyPoints_KeepsPeaks) {
  Curve curve;
  for (int i = 0; i < 5000; ++i) curve.Add(i, i, i == 3210 ? 99 : 1);
  CurveView view;
  view.max_points = 50;
  const CurveTable table = SampleCurves({{{&curve, 0}}}, view);
  ASSERT_THAT(table.x, SizeIs(50));
  EXPECT_EQ(table.x.front(), 0);
  EXPECT_EQ(table.x.back(), 4999);
  EXPECT_THAT(table.series[0].high, testing::Contains(99));
  EXPECT_THAT(table.series[0].low, Each(1));
  EXPECT_THAT(table.series[0].mid, Each(Le(99.0 / 50)));
}

TEST(SampleCurvesTest, Smooth_IsTheMeanOfTheLastValues) {
  const Curve curve = CurveOf({{1, 3}, {2, 5}, {3, 10}, {4, 0}});
  CurveView view;
  view.smooth = 2;
  const CurveTable table = SampleCurves({{{&curve, 0}}}, view);
  EXPECT_THAT(table.series[0].mid, ElementsAre(3, 4, 7.5, 5));
  EXPECT_THAT(table.series[0].high, ElementsAre(3, 5, 10, 0));
}

TEST(SampleCurvesTest, Seeds_HaveMedianAndRange_AndKeepTheirLastValue) {
  const Curve a = CurveOf({{1, 10}, {2, 20}, {3, 30}});
  const Curve b = CurveOf({{1, 0}, {2, 2}});   // has ended
  const Curve c = CurveOf({{2, 5}, {3, 50}});  // begins later
  const Curve other = CurveOf({{2, 7}});
  const CurveTable table =
      SampleCurves({{{&a, 0}, {&b, 0}, {&c, 0}}, {{&other, 0}}, {{nullptr, 0}}}, CurveView());
  EXPECT_THAT(table.x, ElementsAre(1, 2, 3));
  EXPECT_EQ(Shown(table.series[0].mid), "5 5 30");
  EXPECT_EQ(Shown(table.series[0].low), "0 2 2");
  EXPECT_EQ(Shown(table.series[0].high), "10 20 50");
  EXPECT_EQ(Shown(table.series[1].mid), "- 7 -");
  EXPECT_EQ(Shown(table.series[2].mid), "- - -");
  EXPECT_THAT(SampleCurves({}, CurveView()).x, IsEmpty());
  EXPECT_THAT(SampleCurves({{{nullptr, 0}}}, CurveView()).x, IsEmpty());
}

}  // namespace
}  // namespace ding
