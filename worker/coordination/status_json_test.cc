#include <limits>
#include <string>

#include "ding_worker/worker/coordination/run_status.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace ding {
namespace {

// The keys and an example of every kind of value, as programs of users read them.
TEST(StatusJsonTest, TheKeysStayAsTheyAre) {
  RunStatus status;
  status.set_run("cartpole-7");
  status.set_elapsed_seconds(75.5);
  status.set_envstep(81920);
  status.set_train_iter(4000);
  status.set_eval_value(187.5);
  status.set_best_eval_value(195);
  status.set_policy_version(400);
  Setting* const shown = status.add_shown();
  shown->set_name("loss");
  shown->set_value(0.5);
  status.set_workers_joined(4);
  status.set_workers_lost(1);
  status.set_wanted_collectors(2);
  status.set_coordinator_pid(4710);
  WorkerStatus* const worker = status.add_worker();
  worker->set_worker(1);
  worker->set_name("aggregator-0");
  worker->set_role(Hello::LEARNER);
  worker->set_pid(4711);
  worker->set_task_id("learner_task_0");
  worker->set_waits_for("data");
  worker->mutable_resources()->set_cpus(8);
  worker->mutable_resources()->set_memory_bytes(1024);
  worker->add_member()->set_name("learner-0");
  BufferStatus* const buffer = status.add_buffer();
  buffer->set_buffer_id("buffer_0");
  buffer->set_count(1000);
  buffer->set_push_count(81920);
  buffer->set_sample_count(256000);
  buffer->set_staleness_iterations(210);
  status.add_trained_policy()->set_policy_id("policy_0");
  status.mutable_league()->set_player_id("main");
  status.add_warning("a \"quoted\" warning\xff");
  EXPECT_EQ(
      RunStatusToJson(status),
      R"({"run":"cartpole-7","elapsed_seconds":75.5,"env_step":81920,"train_iter":4000,)"
      R"("eval":187.5,"best_eval":195.0,"converged":false,"policy_version":400,)"
      R"("values":{"loss":0.5},"workers_joined":4,"workers_lost":1,"wanted_collectors":2,)"
      R"("coordinator_pid":4710,"workers":[{"worker":1,"name":"aggregator-0","role":"learner",)"
      R"("pid":4711,"task":"learner_task_0","evaluates":false,"draining":false,)"
      R"("alive_seconds":0.0,"steps_per_second":0.0,"waits_for":"data","stalled_seconds":null,)"
      R"("bad_chunks":0,"cpus":8.0,"memory_bytes":1024,"gpus":0,"members":[{"worker":0,)"
      R"("name":"learner-0","role":"collector","pid":0,"task":null,"evaluates":false,)"
      R"("draining":false,"alive_seconds":0.0,"steps_per_second":0.0,"waits_for":null,)"
      R"("stalled_seconds":null,"bad_chunks":0,"cpus":null,"memory_bytes":null,"gpus":null,)"
      R"("members":[]}]}],"buffers":[{"buffer":"buffer_0","rows":1000,"pushed":81920,)"
      R"("drawn":256000,"removed":0,"too_old":0,"lost":0,"chunks":0,"bad_chunks":0,)"
      R"("staleness":210.0,"replay_ratio":null}],"policies":[{"policy":"policy_0","task":"",)"
      R"("env_step":0,"train_iter":0,"eval":null,"version":null,"converged":false}],)"
      R"("league":{"player":"main","historical_players":0,"min_win_rate":null,"rating":0.0,)"
      R"("rating_sigma":0.0,"eval_opponent":""},"warnings":["a \"quoted\" warning�"]})");
}

TEST(StatusJsonTest, ARunThatHasNotBegunHasAllKeysToo) {
  const auto empty = nlohmann::ordered_json::parse(RunStatusToJson(RunStatus()));
  EXPECT_EQ(empty.size(), 18u);
  EXPECT_TRUE(empty["eval"].is_null());
  EXPECT_TRUE(empty["league"].is_null());
  EXPECT_TRUE(empty["workers"].empty() && empty["workers"].is_array());
  EXPECT_TRUE(empty["values"].is_object());
}

TEST(StatusJsonTest, NumbersThatJsonDoesNotHaveAreNull) {
  RunStatus status;
  status.set_eval_value(std::numeric_limits<double>::quiet_NaN());
  EXPECT_NE(RunStatusToJson(status).find(R"("eval":null)"), std::string::npos);
}

}  // namespace
}  // namespace ding
