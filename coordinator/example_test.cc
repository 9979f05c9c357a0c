// The example of docs/reference/coordinator.md.
#include <cstdint>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/coordinator/commander/base_commander.h"
#include "ding_worker/coordinator/commander/one_vs_one_commander.h"
#include "ding_worker/coordinator/commander/solo_commander.h"
#include "ding_worker/coordinator/coordinator.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/metrics/sink.h"
#include "ding_worker/replay_buffer/buffer.h"
#include "ding_worker/replay_buffer/naive_buffer.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

// Keeps the last message to each worker. A program's sender puts messages into the workers'
// sessions.
class LastMessages : public CoordinatorSender {
 public:
  void Send(uint32_t worker, const CoordinatorMessage& message) override {
    last_[worker] = message;
  }
  const CoordinatorMessage& of(uint32_t worker) { return last_[worker]; }

 private:
  std::map<uint32_t, CoordinatorMessage> last_;
};

absl::StatusOr<std::unique_ptr<Coordinator>> MakeCoordinator(CoordinatorSender* sender) {
  SoloCommander::Options solo;
  solo.stop_value = 195;
  Coordinator::Parts parts;
  DING_ASSIGN_OR_RETURN(parts.commander,
                        SoloCommander::Create(solo, /*policy=*/nullptr, ComponentDeps()));
  parts.make_buffer = [](const std::string& buffer_id, absl::Span<const std::string> /*settings*/,
                         OnRemoved on_removed) {
    NaiveReplayBuffer::Options options;
    options.capacity_rows = 10000;
    options.name = buffer_id;
    options.on_removed = std::move(on_removed);
    return NaiveReplayBuffer::Create(options);
  };
  parts.delete_key = [](const std::string& /*key*/) { return absl::OkStatus(); };
  parts.sender = sender;
  return Coordinator::Create(Coordinator::Options(), std::move(parts), ComponentDeps());
}

// Has the coordinator handle a message, and waits until it is done. A program does not wait: a
// WorkerServer hands the worker's next message over when this one is done.
absl::Status Handle(Coordinator* coordinator, uint32_t worker, const WorkerMessage& message) {
  const auto done = std::make_shared<std::promise<absl::Status>>();
  coordinator->Handle(worker, message, [done](const absl::Status& s) { done->set_value(s); });
  return done->get_future().get();
}

absl::StatusOr<RunStatus> RunUntilConverged() {
  LastMessages told;
  DING_ASSIGN_OR_RETURN(const std::unique_ptr<Coordinator> coordinator, MakeCoordinator(&told));
  coordinator->Start();
  constexpr uint32_t kLearner = 1;
  constexpr uint32_t kCollector = 2;

  Hello hello;
  hello.set_role(Hello::LEARNER);
  coordinator->WorkerJoined(kLearner, hello, "in process");
  coordinator->status();  // waits for that
  WorkerMessage started;
  started.mutable_task_started()->set_task_id(told.of(kLearner).start_task().learner().task_id());
  DING_RETURN_IF_ERROR(Handle(coordinator.get(), kLearner, started));

  WorkerMessage learned;
  learned.mutable_learner_info()->set_task_id(started.task_started().task_id());
  learned.mutable_learner_info()->set_learner_step(1000);
  DING_RETURN_IF_ERROR(Handle(coordinator.get(), kLearner, learned));

  hello.set_role(Hello::COLLECTOR);
  coordinator->WorkerJoined(kCollector, hello, "in process");
  coordinator->status();
  const CollectorTask evaluation = told.of(kCollector).start_task().collector();
  WorkerMessage finished;
  CollectorFinished* const info = finished.mutable_collector_finished();
  info->set_task_id(evaluation.task_id());
  info->set_collector_done(true);
  info->set_train_iter(1000);
  info->set_step_count(200);
  info->add_episode_return(200);
  DING_RETURN_IF_ERROR(Handle(coordinator.get(), kCollector, finished));

  DING_RETURN_IF_ERROR(coordinator->WaitUntilDone(absl::Seconds(5)));
  return coordinator->status();
}

absl::StatusOr<std::unique_ptr<BaseCommander>> MakeLeague(const ComponentDeps& deps) {
  OneVsOneCommander::Options options;
  options.solo.stop_value = 0;
  options.league.mutable_naive_sp_player()->set_one_phase_step(1000);
  // Against perfect play a draw is the best that there is.
  options.eval_opponents = {{"random", std::nullopt}, {"perfect", 0.0}};
  return OneVsOneCommander::Create(options, /*policy=*/nullptr, deps);
}

TEST(CoordinatorExample, ALeaguePlaysTheEasiestOpponentFirst) {
  DING_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<BaseCommander> league,
                            MakeLeague(ComponentDeps()));
  EXPECT_TRUE(league->GetLearnerTask().has_value());
  EXPECT_EQ(league->GetCollectorTask()->eval_opponent(), "random");
}

TEST(CoordinatorExample, Converges) {
  DING_ASSERT_OK_AND_ASSIGN(const RunStatus status, RunUntilConverged());
  EXPECT_TRUE(status.converged());
  EXPECT_EQ(status.eval_value(), 200);
}

}  // namespace
}  // namespace ding
