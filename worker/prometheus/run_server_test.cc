#include "ding_worker/worker/prometheus/run_server.h"

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/file_testing.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/interaction/http/http_server.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::EndsWith;
using testing::HasSubstr;

TEST(RunServerTest, Metrics_AreThoseOfTheLastShow) {
  SimulatedClock clock;
  DING_ASSERT_OK_AND_ASSIGN(const auto server, RunServer::Start({}, &clock));
  EXPECT_THAT(server->url(), EndsWith("/"));
  EXPECT_EQ(server->Handle({"/metrics", {}, ""}).status, 503);
  RunStatus status;
  for (const int steps : {100, 200}) {
    status.set_envstep(steps);
    server->Show(status, {});
    clock.Advance(absl::Milliseconds(1500));
    const HttpReply reply = server->Handle({"/metrics", {}, ""});
    EXPECT_EQ(reply.status, 200);
    EXPECT_THAT(reply.type, HasSubstr("version=0.0.4"));
    EXPECT_THAT(reply.body, HasSubstr(absl::StrCat("ding_worker_env_steps_total ", steps, "\n")));
    EXPECT_THAT(reply.body, HasSubstr("\nding_worker_status_age_seconds 1.5\n"));
  }
  EXPECT_THAT(server->Handle({"/", {}, ""}).body, HasSubstr("/metrics"));
  EXPECT_EQ(server->Handle({"/other", {}, ""}).status, 404);
}

TEST(RunServerTest, Page_IsThatOfTheFolder) {
  const std::string folder = FreshTestFolder();
  ASSERT_THAT(CreateDirectories(JoinPath(folder, "log")), IsOk());
  DING_ASSERT_OK_AND_ASSIGN(const auto server, RunServer::Start({}));
  EXPECT_EQ(server->Handle({"/api/state", {}, ""}).status, 404);
  server->Begin(folder, nullptr);
  EXPECT_THAT(server->Handle({"/", {}, ""}).body, HasSubstr("watch.js"));
  const std::string state = server->Handle({"/api/state", {}, ""}).body;
  EXPECT_THAT(state, HasSubstr(absl::StrCat("\"folder\":\"", folder, "\"")));
  EXPECT_THAT(state, HasSubstr("\"orders\":false"));
  EXPECT_EQ(server->Handle({"/api/workers", {{"run", "0"}}, ""}).body, "{}");
}

TEST(RunServerTest, Due_AtFirstAndAfterEachPeriod) {
  SimulatedClock clock;
  DING_ASSERT_OK_AND_ASSIGN(const auto server, RunServer::Start({}, &clock));
  EXPECT_TRUE(server->Due());
  server->Show(RunStatus(), {});
  EXPECT_FALSE(server->Due());
  clock.Advance(RunServer::kPeriod);
  EXPECT_TRUE(server->Due());
}

TEST(RunServerTest, Start_BeyondLoopbackWithoutTls_IsRefused) {
  HttpServer::Options options;
  options.address = "0.0.0.0:0";
  EXPECT_EQ(RunServer::Start(options).status().code(), absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace ding
