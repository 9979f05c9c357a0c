#include "ding_worker/worker/watch/watch_page.h"

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/file_testing.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/interaction/http/http_server.h"
#include "ding_worker/metrics/tensorboard.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace ding {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

class WatchPageTest : public testing::Test {
 protected:
  void SetUp() override {
    Write("ppo_0/log/metrics.csv", Metrics(10, 30));
    Write("ppo_0/total_config.textproto", "seed: 0\nlr: 0.1\n");
    Write("ppo_1/log/metrics.csv", Metrics(20, 50));
    Write("ppo_1/total_config.textproto", "seed: 1\nlr: 0.1\n");
    Write("dqn/log/metrics.csv", absl::StrCat(Metrics(5, 6), "9,a_step/<script>,1,9\nbad\n"));
    Write("dqn/total_config.textproto", "seed: 0\nlr: 0.5\n");
    Write("dqn/log/serial_logger.txt", "<script>alert(1)</script>\n");
    page_ = WatchPage::Start({In("ppo_0"), In("ppo_1"), In("dqn")}).value();
    ASSERT_TRUE(Until([this] {
      const json runs = State()["runs"];
      return runs[0]["step"] == 2 && runs[1]["step"] == 2 && runs[2]["damage"] != "";
    }));
  }

  static std::string Metrics(int first, int second) {
    return absl::StrCat("step,tag,value,wall_time\n1,evaluator_step/reward_mean,", first,
                        ",100\n2,evaluator_step/reward_mean,", second, ",101\n");
  }
  std::string In(const std::string& name) const { return JoinPath(folder_, name); }
  void Write(const std::string& name, const std::string& text) {
    const std::string path = In(name);
    ASSERT_THAT(CreateDirectories(path.substr(0, path.rfind('/'))), IsOk());
    OverwriteFile(path, text);
  }
  static bool Until(const std::function<bool()>& condition) {
    const Deadline deadline = Deadline::After(absl::Seconds(60));
    while (!condition()) {
      if (deadline.Passed()) return false;
      absl::SleepFor(absl::Milliseconds(5));
    }
    return true;
  }
  HttpReply Get(const std::string& path, std::map<std::string, std::string> query = {}) {
    return page_->Handle({path, std::move(query), ""});
  }
  json State() { return json::parse(Get("/api/state").body); }
  json Curve(std::map<std::string, std::string> query) {
    query.emplace("metric", "evaluator/reward_mean");
    return json::parse(Get("/api/curve", std::move(query)).body);
  }

  const std::string folder_ = FreshTestFolder();
  std::unique_ptr<WatchPage> page_;
};

TEST_F(WatchPageTest, Histograms_NamesTagsAndGivesOne) {
  EXPECT_EQ(Get("/api/histograms", {{"run", "0"}}).body, R"({"more":false,"damage":"","tags":[]})");
  TensorBoardSink::Options options;
  options.folder = In("ppo_0/log/serial");
  DING_ASSERT_OK_AND_ASSIGN(const auto sink, TensorBoardSink::Create(options));
  sink->Histogram("<script>", 7, {1, 1, 2});
  ASSERT_THAT(sink->Flush(), IsOk());
  EXPECT_EQ(json::parse(Get("/api/histograms", {{"run", "0"}}).body)["tags"],
            json({"serial: <script>"}));
  const json reply = json::parse(
      Get("/api/histograms", {{"run", "0"}, {"tag", "serial: <script>"}}).body)["histograms"];
  ASSERT_EQ(reply.size(), 1);
  EXPECT_EQ(reply[0]["step"], 7);
  EXPECT_EQ(reply[0]["edges"].front(), 1);
  EXPECT_EQ(reply[0]["edges"].back(), 2);
  EXPECT_EQ(reply[0]["counts"].front(), 2);
  EXPECT_EQ(Get("/api/histograms", {{"run", "0"}, {"tag", "none"}}).status, 404);
  EXPECT_EQ(Get("/api/histograms", {{"run", "9"}}).status, 404);
}

TEST_F(WatchPageTest, State_NamesRunsMetricsAndDamage) {
  const json state = State();
  EXPECT_EQ(state["metrics"], json({"a/<script>", "evaluator/reward_mean"}));
  EXPECT_EQ(state["runs"][1]["name"], "ppo_1");
  EXPECT_EQ(state["runs"][1]["group"], 0);
  EXPECT_EQ(state["runs"][2]["group"], 2);
  EXPECT_EQ(state["runs"][1]["numbers"]["evaluator/reward_mean"], 50);
  EXPECT_EQ(state["runs"][1]["damage"], "");
  EXPECT_THAT(state["runs"][2]["damage"].get<std::string>(), HasSubstr("line 5 is 'bad'"));
}

TEST_F(WatchPageTest, Curve_Group_IsTheMedianOfSeeds) {
  const json table = Curve({{"group", "1"}});
  EXPECT_EQ(table["x"], json({1, 2}));
  ASSERT_EQ(table["series"].size(), 2);
  EXPECT_EQ(table["series"][0]["name"], "ppo (2 seeds)");
  EXPECT_EQ(table["series"][0]["mid"], json({15, 40}));
  EXPECT_EQ(table["series"][0]["low"], json({10, 30}));
  EXPECT_EQ(table["series"][0]["high"], json({20, 50}));
  EXPECT_EQ(table["series"][1]["run"], 2);
}

TEST_F(WatchPageTest, Curve_ChosenRunsAndAxes) {
  json table = Curve({{"runs", "2,0"}, {"x", "seconds"}});
  EXPECT_EQ(table["x"], json({0, 1}));
  EXPECT_EQ(table["series"][0]["name"], "dqn");
  EXPECT_EQ(table["series"][1]["name"], "ppo_0");
  table = Curve({{"x", "iter"}});
  EXPECT_THAT(table["x"], IsEmpty());
  EXPECT_THAT(Curve({{"runs", ""}})["series"], IsEmpty());
}

TEST_F(WatchPageTest, Curve_WrongParameter_IsRefusedWithItsName) {
  const std::vector<std::pair<std::string, std::string>> wrong = {
      {"x", "hours"},  {"smooth", "0"}, {"smooth", "1e9"}, {"points", "1000000"},
      {"from", "now"}, {"runs", "3"},   {"runs", "-1"}};
  for (const auto& [name, value] : wrong) {
    const HttpReply reply = Get("/api/curve", {{name, value}});
    EXPECT_EQ(reply.status, 400) << name << " " << value;
    EXPECT_THAT(reply.body, HasSubstr(absl::StrCat(name))) << value;
  }
}

TEST_F(WatchPageTest, Configs_ShowDifferences) {
  json rows = json::parse(Get("/api/configs").body)["rows"];
  ASSERT_EQ(rows.size(), 2);
  EXPECT_EQ(rows[0], json({{"path", "lr"}, {"values", {"0.1", "0.1", "0.5"}}}));
  EXPECT_EQ(rows[1]["path"], "seed");
}

TEST_F(WatchPageTest, Log_IsPlainText) {
  const HttpReply reply = Get("/api/log", {{"run", "2"}, {"log", "serial_logger.txt"}});
  EXPECT_THAT(reply.type, StartsWith("text/plain"));
  EXPECT_EQ(reply.body, "<script>alert(1)</script>");
  EXPECT_EQ(Get("/api/log", {{"run", "9"}, {"log", "serial_logger.txt"}}).status, 404);
  EXPECT_EQ(Get("/api/log", {{"run", "0"}, {"log", "../../x"}}).status, 404);
  EXPECT_EQ(Get("/video", {{"run", "0"}, {"name", "x.gif"}}).status, 404);
}

TEST_F(WatchPageTest, Page_HasItsFiles) {
  EXPECT_THAT(Get("/").body, HasSubstr("<script src=\"watch.js\">"));
  EXPECT_THAT(Get("/watch.js").type, StartsWith("text/javascript"));
  EXPECT_THAT(Get("/dygraph.min.js").body, HasSubstr("Dygraph"));
  EXPECT_THAT(Get("/watch.css").type, StartsWith("text/css"));
  EXPECT_THAT(Get("/dygraph.min.css").body, HasSubstr(".dygraph"));
  EXPECT_EQ(Get("/nothing").status, 404);
}

TEST_F(WatchPageTest, Events_ARunWrites_SendsOne) {
  const HttpReply reply = Get("/api/events");
  std::string first;
  ASSERT_TRUE(Until([&] { return !(first = *reply.next()).empty(); }));
  EXPECT_THAT(first, StartsWith("data: "));
  Write("ppo_0/log/metrics.csv", Metrics(10, 31));
  std::string second;
  ASSERT_TRUE(Until([&] { return absl::StartsWith(second = *reply.next(), "data: "); }));
  EXPECT_NE(second, first);
}

}  // namespace
}  // namespace ding
