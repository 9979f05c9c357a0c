#include "ding_worker/worker/prometheus/prometheus_text.h"

#include <limits>
#include <string>

#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/metrics/time_histogram.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

RunStatus SerialStatus() {
  RunStatus status;
  status.set_run("cartpole-7");
  status.set_elapsed_seconds(75.5);
  status.set_envstep(123456789012);
  status.set_train_iter(4000);
  return status;
}

RunStatus ParallelStatus() {
  RunStatus status = SerialStatus();
  status.set_workers_joined(4);
  status.set_workers_lost(1);
  WorkerStatus* worker = status.add_worker();
  worker->set_worker(1);
  worker->set_name("learners");
  worker->set_role(Hello::LEARNER);
  worker->set_waits_for("the store, which has not given 'chunk/7' for 3 s");
  worker->add_member()->set_name("learner-0");
  worker = status.add_worker();
  worker->set_worker(2);
  worker->set_name("collector-0");
  worker->set_role(Hello::COLLECTOR);
  worker->set_steps_per_second(1500);
  worker->set_lease_seconds_left(4.5);
  worker->set_staleness_iterations(30);
  worker->set_waits_for("buffer_0: too few draws");
  return status;
}

TEST(PrometheusTextTest, SerialRun_HasCountersWithAllDigits) {
  const std::string text = PrometheusText(SerialStatus(), {});
  EXPECT_THAT(text, AllOf(HasSubstr("ding_worker_run_info{run=\"cartpole-7\"} 1\n"),
                          HasSubstr("# HELP ding_worker_env_steps_total Env steps of the run.\n"
                                    "# TYPE ding_worker_env_steps_total counter\n"
                                    "ding_worker_env_steps_total 123456789012\n"),
                          HasSubstr("# TYPE ding_worker_run_seconds gauge\n"
                                    "ding_worker_run_seconds 75.5\n")));
  EXPECT_THAT(text, AllOf(Not(HasSubstr("worker_workers")), Not(HasSubstr("eval_return")),
                          Not(HasSubstr("stage"))))
      << "what is not known is left out";
}

TEST(PrometheusTextTest, ParallelRun_CountsWorkersByRoleAndByWhatTheyWaitFor) {
  const std::string text = PrometheusText(ParallelStatus(), {});
  EXPECT_THAT(
      text, AllOf(HasSubstr("ding_worker_workers{role=\"collector\"} 1\n"),
                  HasSubstr("ding_worker_workers{role=\"learner\"} 1\n"),
                  HasSubstr("ding_worker_workers_lost_total 1\n"),
                  HasSubstr("ding_worker_workers_waiting{role=\"learner\",for=\"store\"} 1\n"),
                  HasSubstr("ding_worker_workers_waiting{role=\"learner\",for=\"other\"} 0\n"),
                  HasSubstr("ding_worker_workers_waiting{role=\"collector\",for=\"other\"} 1\n"),
                  HasSubstr("ding_worker_worker_steps_per_second{worker=\"2\",name=\"collector-0\","
                            "role=\"collector\"} 1500\n"),
                  HasSubstr("# TYPE ding_worker_worker_lease_seconds_left gauge\n"
                            "ding_worker_worker_lease_seconds_left{worker=\"2\",name="
                            "\"collector-0\",role=\"collector\"} 4.5\n"),
                  HasSubstr("# TYPE ding_worker_worker_staleness_iterations gauge\n"
                            "ding_worker_worker_staleness_iterations{worker=\"2\",name="
                            "\"collector-0\",role=\"collector\"} 30\n"),
                  HasSubstr("{worker=\"1.0\",name=\"learner-0\"")));
}

TEST(PrometheusTextTest, Worker_HasItsStagesAndNothingOfTheRun) {
  RunStatus status;
  status.set_run("cartpole-7");
  const std::string text = PrometheusText(status, {{"collect", {}}});
  EXPECT_THAT(text, AllOf(HasSubstr("run_info{run=\"cartpole-7\"} 1\n"),
                          HasSubstr("stage_seconds_count{stage=\"collect\"} 0\n"),
                          Not(HasSubstr("total")), Not(HasSubstr("converged"))));
}

TEST(PrometheusTextTest, NamesFromOutside_AreEscaped) {
  RunStatus status = SerialStatus();
  status.set_run("a\"b\\c\n<script>");
  Setting* const shown = status.add_shown();
  shown->set_name("loss");
  shown->set_value(std::numeric_limits<double>::infinity());
  const std::string text = PrometheusText(status, {});
  EXPECT_THAT(text, HasSubstr("{run=\"a\\\"b\\\\c\\\\x0A<script>\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("ding_worker_value{name=\"loss\"} +Inf\n"));
}

TEST(PrometheusTextTest, Stages_AreHistogramsWithCumulativeCounts) {
  TimeHistogram times;
  times.Add(10'000);
  times.Add(10'001);
  times.Add(200'000'000'000);
  const std::string text = PrometheusText(SerialStatus(), {{"learn", times}});
  EXPECT_THAT(text,
              AllOf(HasSubstr("# TYPE ding_worker_stage_seconds histogram\n"
                              "ding_worker_stage_seconds_bucket{stage=\"learn\",le=\"1e-05\"} 1\n"
                              "ding_worker_stage_seconds_bucket{stage=\"learn\",le=\"3e-05\"} 2\n"),
                    HasSubstr("ding_worker_stage_seconds_bucket{stage=\"learn\",le=\"100\"} 2\n"
                              "ding_worker_stage_seconds_bucket{stage=\"learn\",le=\"+Inf\"} 3\n"
                              "ding_worker_stage_seconds_sum{stage=\"learn\"} 200.000020001\n"
                              "ding_worker_stage_seconds_count{stage=\"learn\"} 3\n")));
}

}  // namespace
}  // namespace ding
