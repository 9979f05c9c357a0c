// What the status of a run says about each worker, and how long what workers ask for takes.
#include <cstdint>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/coordinator/coordinator.h"
#include "ding_worker/coordinator/testing/coordinator_fixture.h"
#include "ding_worker/interaction/control/protocol.h"
#include "ding_worker/interaction/control/session.h"
#include "ding_worker/interaction/control/session_frame.h"
#include "ding_worker/interaction/control/worker_server.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/interaction/transport/in_process_transport.h"
#include "ding_worker/interaction/transport/transport.h"
#include "ding_worker/metrics/time_histogram.h"
#include "ding_worker/replay_buffer/selection/rate_limiter.h"
#include "ding_worker/replay_buffer/testing/test_streams.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::Contains;
using testing::DoubleEq;
using testing::Optional;
using testing::Pair;
using testing::UnorderedElementsAre;

class WorkerStatusTest : public CoordinatorTest {
 protected:
  void Publish(uint64_t version, int64_t train_iter) {
    WorkerMessage message = Version("policy_0", version);
    message.mutable_policy_version()->set_train_iter(train_iter);
    Handle(kLearner, message);
  }
  void Push(uint64_t sequence, int64_t collect_iter) {
    const int64_t chunk = Chunk(kCollector, static_cast<uint32_t>(sequence));
    Handle(kCollector,
           Data(collector_.task_id(), sequence, TestItemsOfChunk(chunk, 2, collect_iter)));
  }
  // Not set: the status does not say it.
  std::optional<double> Staleness(uint32_t worker) {
    const WorkerStatus status = StatusOf(worker);
    if (!status.has_staleness_iterations()) return std::nullopt;
    return status.staleness_iterations();
  }
  // How often each stage was passed, and in how many seconds of the clock.
  std::map<std::string, std::pair<int64_t, double>> Stages() {
    std::map<std::string, std::pair<int64_t, double>> stages;
    for (const auto& [name, times] : coordinator_->stage_times()) {
      int64_t passes = 0;
      for (const int64_t count : times.counts()) passes += count;
      stages[name] = {passes, static_cast<double>(times.nanos()) * 1e-9};
    }
    return stages;
  }
};

TEST_F(WorkerStatusTest, ACollectorIsBehindTheNewestVersion) {
  StartTraining();
  EXPECT_EQ(Staleness(kCollector), std::nullopt) << "it has begun without a policy";
  Publish(1, 10);
  Push(1, /*collect_iter=*/10);
  EXPECT_THAT(Staleness(kCollector), Optional(0.0));
  Publish(2, 25);
  Publish(3, 40);
  EXPECT_THAT(Staleness(kCollector), Optional(30.0));
  Push(2, /*collect_iter=*/25);
  EXPECT_THAT(Staleness(kCollector), Optional(15.0));
  // A report without rows says nothing about the policy.
  WorkerMessage progress;
  progress.mutable_collector_data()->set_task_id(collector_.task_id());
  Handle(kCollector, progress);
  EXPECT_THAT(Staleness(kCollector), Optional(15.0));
  // Rows that were collected at random are of no policy.
  Push(3, /*collect_iter=*/-1);
  EXPECT_EQ(Staleness(kCollector), std::nullopt);
  // A task begins with the version that it was given.
  Handle(kCollector, Finished(collector_.task_id(), 1, 10, /*train_iter=*/25));
  Publish(4, 41);
  EXPECT_THAT(Staleness(kCollector), Optional(1.0));
}

TEST_F(WorkerStatusTest, AnEvaluationKeepsItsVersion) {
  commander_options_.eval_interval = 1;
  StartTraining();
  Publish(1, 10);
  Advance(absl::Seconds(2));
  Handle(kCollector, Finished(collector_.task_id(), 1));
  ASSERT_TRUE(StatusOf(kCollector).evaluates());
  EXPECT_THAT(Staleness(kCollector), Optional(0.0));
  Publish(2, 32);
  EXPECT_THAT(Staleness(kCollector), Optional(22.0));
}

TEST_F(WorkerStatusTest, ALearnerHasTheStalenessOfItsRows) {
  StartTraining();
  WorkerMessage group;
  group.mutable_group_status()->add_member()->set_name("learner-0");
  Handle(kLearner, group);
  Publish(1, 10);
  Push(1, /*collect_iter=*/10);
  EXPECT_EQ(Staleness(kLearner), std::nullopt) << "it has drawn no row";
  EXPECT_FALSE(coordinator_->status().buffer(0).has_staleness_iterations());
  WorkerMessage demand = Demand(learner_.task_id(), 1, 2);
  demand.mutable_learner_demand()->set_train_iter(17);
  Handle(kLearner, demand);
  EXPECT_THAT(Staleness(kLearner), Optional(7.0));
  EXPECT_EQ(StatusOf(kLearner).member(0).staleness_iterations(), 7);
  EXPECT_EQ(coordinator_->status().buffer(0).staleness_iterations(), 7);
}

TEST_F(WorkerStatusTest, StagesTakeAsLongAsWorkersWait) {
  options_.replay_ratio = ReplayRatioLimiter::Options{3, 1000, 0, 2};
  StartTraining();
  const auto demand = [this](uint64_t sequence) {
    return Demand(learner_.task_id(), sequence, 2, sequence - 1);
  };
  Handle(kLearner, demand(1));
  Advance(absl::Seconds(3));
  Push(1, -1);
  Publish(1, 0);
  EXPECT_EQ(coordinator_->status().buffer(0).sample_count(), 2);
  std::promise<void> pushed;
  coordinator_->Handle(kCollector,
                       Data(collector_.task_id(), 2, TestItemsOfChunk(Chunk(kCollector, 2), 2)),
                       [&pushed](const absl::Status&) { pushed.set_value(); });
  EXPECT_NE(StatusOf(kCollector).waits_for(), "") << "too few draws";
  Advance(absl::Seconds(5));
  EXPECT_THAT(Stages(), Contains(Pair("push", Pair(1, 0))));
  Handle(kLearner, demand(2));
  pushed.get_future().wait();
  Handle(kCollector, Finished(collector_.task_id(), 1));
  EXPECT_THAT(Stages(), UnorderedElementsAre(Pair("push", Pair(2, DoubleEq(5))),  // 0 and 5 s
                                             Pair("sample", Pair(2, DoubleEq(3))),
                                             Pair("publish", Pair(1, 0)),
                                             Pair("collect_task", Pair(1, DoubleEq(8))),
                                             Pair("evaluate", Pair(1, 0))));
}

// A worker whose frames the test sends, so that it is silent in between.
class SilentWorker {
 public:
  explicit SilentWorker(Transport* transport, const std::string& address)
      : connection_(transport->Connect(address, absl::Seconds(60)).value()) {
    WorkerMessage hello;
    *hello.mutable_hello() = HelloOf(Hello::COLLECTOR);
    *hello.mutable_hello()->mutable_version() = CurrentProtocol();
    SessionFrame frame;
    frame.kind = SessionFrame::Kind::kMessage;
    frame.sequence = 1;
    frame.window_bytes = kWindowBytes;
    frame.message = hello.SerializeAsString();
    Send(frame);
  }
  void Send(const SessionFrame& frame) {
    EXPECT_THAT(connection_->Send(EncodeSessionFrame(frame), absl::Seconds(60)), IsOk());
  }

 private:
  const std::unique_ptr<Connection> connection_;
};

TEST_F(WorkerStatusTest, TheLeaseOfASilentWorkerRunsOut) {
  InProcessTransport transport;
  WorkerServer::Options options;
  options.address = "coordinator";
  options.session.lease = absl::Seconds(10);
  options.session.clock = &clock_;
  const auto server = WorkerServer::Create(options, &transport).value();
  Start(server.get());
  ASSERT_THAT(server->Start(coordinator_.get()), IsOk());
  SilentWorker worker(&transport, "coordinator");
  const auto left = [this]() -> std::optional<double> {
    const RunStatus status = coordinator_->status();
    if (status.worker_size() == 0) return std::nullopt;
    EXPECT_TRUE(status.worker(0).has_lease_seconds_left());
    return status.worker(0).lease_seconds_left();
  };
  // Threads of the server do what the test waits for.
  const auto wait_for = [&left](std::optional<double> expected) {
    for (int i = 0; i < 20'000 && left() != expected; ++i) absl::SleepFor(absl::Milliseconds(3));
    EXPECT_EQ(left(), expected);
  };
  wait_for(10);
  clock_.Advance(absl::Milliseconds(7500));
  EXPECT_EQ(left(), 2.5);
  worker.Send({});
  wait_for(10);
  clock_.Advance(absl::Seconds(10));
  wait_for(std::nullopt);
  EXPECT_EQ(coordinator_->status().workers_lost(), 1);
  EXPECT_THAT(coordinator_->Close("over"), IsOk());
  server->Close("over");
}

}  // namespace
}  // namespace ding
