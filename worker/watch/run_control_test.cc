#include "ding_worker/worker/watch/run_control.h"

#include <unistd.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/file_testing.h"
#include "ding_worker/base/mutex.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/interaction/http/http_server.h"
#include "ding_worker/worker/watch/watch_page.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace ding {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// A page of a parallel run, whose coordinator is a function.
class RunControlTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_THAT(CreateDirectories(In("log")), IsOk());
    ASSERT_THAT(CreateDirectories(In("coordinator")), IsOk());
    OverwriteFile(In("coordinator/address"), "127.0.0.1:7235\n");
    OverwriteFile(In("total_config.textproto"),
                  "system {\n coordinator {\n lease_seconds: 5\n}\n}\n");
    auto control = RunControl::Start(
        [this](const auto& address, const auto& words) { return Answer(address, words); });
    ASSERT_THAT(control, IsOk());
    page_ = WatchPage::Start({folder_}, *std::move(control), /*orders=*/true).value();
  }

  absl::StatusOr<std::string> Answer(const std::string& address,
                                     const std::vector<std::string>& words) {
    MutexLock lock(&mutex_);
    address_ = address;
    const bool asks = words[0] == "status";
    if (!asks) orders_.push_back(absl::StrJoin(words, " "));
    if (!failure_.ok()) return failure_;
    return asks ? R"({"workers":[{"name":"<script>x"}]})" : "it is done";
  }

  std::string In(const std::string& name) const { return JoinPath(folder_, name); }
  std::vector<std::string> Orders() {
    MutexLock lock(&mutex_);
    return orders_;
  }
  void Fail(const absl::Status& status) {
    MutexLock lock(&mutex_);
    failure_ = status;
  }
  json Workers() { return json::parse(page_->Handle({"/api/workers", {{"run", "0"}}, ""}).body); }
  // Asks until the answer is as wanted.
  json WorkersWhen(const std::function<bool(const json&)>& wanted) {
    const Deadline deadline = Deadline::After(absl::Seconds(60));
    json workers = Workers();
    while (!wanted(workers) && !deadline.Passed()) {
      absl::SleepFor(absl::Milliseconds(5));
      workers = Workers();
    }
    return workers;
  }
  // A POST as the server hands it over, and the whole body of the reply.
  std::pair<int, std::string> Order(std::map<std::string, std::string> query,
                                    const std::string& role = "operator") {
    query.emplace("folder", folder_);
    const HttpReply reply =
        page_->HandlePost({"/api/order", std::move(query), role, 3, "10.0.0.7"});
    std::string body = reply.body;
    const Deadline deadline = Deadline::After(absl::Seconds(60));
    while (reply.next != nullptr && !deadline.Passed()) {
      const std::optional<std::string> piece = reply.next();
      if (!piece.has_value()) break;
      body += *piece;
    }
    return {reply.status, body};
  }
  // The lines of the orders, without their times.
  std::vector<json> Notes() const {
    std::vector<json> notes;
    const auto text = ReadFile(In("coordinator/orders.jsonl"));
    if (!text.ok()) return {};
    for (const absl::string_view line : absl::StrSplit(*text, '\n', absl::SkipEmpty())) {
      notes.push_back(json::parse(line));
      EXPECT_GT(notes.back()["time"], 1.7e9);
      notes.back().erase("time");
    }
    return notes;
  }

  const std::string folder_ = FreshTestFolder();
  Mutex mutex_;
  std::string address_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> orders_ ABSL_GUARDED_BY(mutex_);
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<WatchPage> page_;  // last: its thread calls Answer()
};

TEST_F(RunControlTest, Workers_AreThoseOfTheCoordinator) {
  const json workers = WorkersWhen([](const json& w) { return w["status"] != nullptr; });
  EXPECT_EQ(workers["status"]["workers"][0]["name"], "<script>x");
  EXPECT_EQ(workers["error"], "");
  EXPECT_GE(workers["age"], 0);
  EXPECT_EQ(workers["lease_seconds"], 5);
  EXPECT_EQ(workers["capacity"], nullptr);
  MutexLock lock(&mutex_);
  EXPECT_EQ(address_, "127.0.0.1:7235");
}

TEST_F(RunControlTest, Workers_NoAnswer_SaysWhyAndKeepsTheLastOne) {
  WorkersWhen([](const json& w) { return w["status"] != nullptr; });
  Fail(absl::UnavailableError("it is away"));
  const json workers = WorkersWhen([](const json& w) { return w["error"] != ""; });
  EXPECT_EQ(workers["error"], "it is away");
  EXPECT_EQ(workers["status"]["workers"][0]["name"], "<script>x");
}

TEST_F(RunControlTest, Workers_NoCoordinatorOrAnEndedRun_IsNotAsked) {
  ASSERT_THAT(RemoveFile(In("coordinator/address")), IsOk());
  EXPECT_EQ(Workers(), json::object());
  OverwriteFile(In("coordinator/address"), "127.0.0.1:7235");
  OverwriteFile(In("result.json"), "{}");
  EXPECT_EQ(WorkersWhen([](const json& w) { return w.empty(); }), json::object());
}

TEST_F(RunControlTest, Order_IsNotedBeforeAndAfterItIsSent) {
  const auto [status, body] = Order({{"order", "grow"}, {"argument", "2"}});
  EXPECT_EQ(status, 200);
  EXPECT_EQ(json::parse(body), json({{"done", true}, {"answer", "it is done"}}));
  EXPECT_THAT(Orders(), ElementsAre("grow 2"));
  json note = {{"who", "operator"}, {"token", 3}, {"from", "10.0.0.7"}, {"order", "grow 2"}};
  json answered = note;
  answered.update({{"done", true}, {"answer", "it is done"}});
  EXPECT_THAT(Notes(), ElementsAre(note, answered));
}

TEST_F(RunControlTest, Order_TheRunRefuses_IsNoted) {
  Fail(absl::InvalidArgumentError("expected a collector"));
  const auto [status, body] = Order({{"order", "drain"}, {"argument", "learner-0"}});
  EXPECT_EQ(json::parse(body), json({{"done", false}, {"answer", "expected a collector"}}));
  ASSERT_EQ(Notes().size(), 2);
  EXPECT_EQ(Notes()[1]["done"], false);
  EXPECT_EQ(Notes()[1]["order"], "drain learner-0");
}

TEST_F(RunControlTest, Order_OfAnotherRoleOrUnknown_IsNotSent) {
  for (const char* role : {"collector", "learner", ""}) {
    const auto [status, body] = Order({{"order", "stop"}}, role);
    EXPECT_EQ(status, 403) << role;
    EXPECT_EQ(body, HttpReply::WrongToken().body);
  }
  EXPECT_EQ(Order({{"order", "stop"}, {"folder", In("log")}}).first, 404);
  EXPECT_EQ(Order({{"order", "dance"}}).first, 400);
  EXPECT_EQ(Order({{"order", "status"}}).first, 400);
  EXPECT_EQ(
      page_->Handle({"/api/order", {{"folder", folder_}, {"order", "stop"}}, "operator"}).status,
      404);
  EXPECT_EQ(page_->HandlePost({"/api/state", {{"folder", folder_}}, "operator"}).status, 404);
  EXPECT_THAT(Orders(), IsEmpty());
  EXPECT_THAT(Notes(), IsEmpty());
}

TEST_F(RunControlTest, Order_ThatCannotBeNoted_IsNotSent) {
  ASSERT_THAT(CreateDirectories(In("coordinator/orders.jsonl")), IsOk());
  const auto [status, body] = Order({{"order", "stop"}});
  EXPECT_EQ(json::parse(body)["done"], false);
  EXPECT_THAT(json::parse(body)["answer"].get<std::string>(), HasSubstr("orders.jsonl"));
  EXPECT_THAT(Orders(), IsEmpty());
}

TEST_F(RunControlTest, Order_AddressOfAnotherUser_IsNotSent) {
  if (chown(In("coordinator/address").c_str(), 65534, 65534) != 0) {
    GTEST_SKIP() << "only root can give a file away, and not in every sandbox";
  }
  const auto [status, body] = Order({{"order", "stop"}});
  EXPECT_THAT(json::parse(body)["answer"].get<std::string>(), HasSubstr("belongs to user 65534"));
  EXPECT_THAT(Orders(), IsEmpty());
}

}  // namespace
}  // namespace ding
