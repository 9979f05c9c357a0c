#include "ding_worker/worker/prometheus/metrics_server.h"

#include <memory>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/interaction/http/http_server.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::EndsWith;
using testing::HasSubstr;

TEST(MetricsServerTest, Metrics_AreThoseOfTheLastShow) {
  SimulatedClock clock;
  DING_ASSERT_OK_AND_ASSIGN(const auto server, MetricsServer::Start({}, &clock));
  EXPECT_THAT(server->url(), EndsWith("/metrics"));
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

TEST(MetricsServerTest, Due_AtFirstAndAfterEachPeriod) {
  SimulatedClock clock;
  DING_ASSERT_OK_AND_ASSIGN(const auto server, MetricsServer::Start({}, &clock));
  EXPECT_TRUE(server->Due());
  server->Show(RunStatus(), {});
  EXPECT_FALSE(server->Due());
  clock.Advance(MetricsServer::kPeriod);
  EXPECT_TRUE(server->Due());
}

TEST(MetricsServerTest, Start_BeyondLoopbackWithoutTls_IsRefused) {
  HttpServer::Options options;
  options.address = "0.0.0.0:0";
  EXPECT_EQ(MetricsServer::Start(options).status().code(), absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace ding
