// A whole run of CartPole between the threads of one process. Some of its workers have a valid
// token and lie: the run still comes to its own end, and keeps nothing of what they send.

#include <atomic>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/collector/comm/base_comm_collector.h"
#include "ding_worker/collector/comm/collected_items.h"
#include "ding_worker/coordinator/comm_coordinator.h"
#include "ding_worker/coordinator/coordinator.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/segment_wire.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/interaction/control/worker_session.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/interaction/store/store.h"
#include "ding_worker/interaction/store/store_registry.h"
#include "ding_worker/interaction/transport/in_process_transport.h"
#include "ding_worker/interaction/transport/transport.h"
#include "ding_worker/learner/comm/base_comm_learner.h"
#include "ding_worker/metrics/sink.h"
#include "ding_worker/worker/config/experiment_config.h"
#include "ding_worker/worker/coordination/parallel_setup.h"
#include "ding_worker/worker/experiment.pb.h"
#include "ding_worker/worker/tasks/configured_collector.h"
#include "ding_worker/worker/tasks/configured_learner.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::Contains;
using testing::HasSubstr;

constexpr absl::Duration kLong = absl::Minutes(4);
constexpr char kAddress[] = "run";

absl::StatusOr<std::unique_ptr<WorkerSession>> Join(Transport* transport, Hello::Role role,
                                                    const std::string& name) {
  Hello hello;
  hello.set_role(role);
  hello.set_name(name);
  hello.mutable_resources()->set_cpus(1);
  return WorkerSession::Join(transport, kAddress, hello, {});
}

// Makes rows of CartPole in which all elements of the observations are `obs`.
SegmentBatch CartPoleRows(float obs, int64_t count) {
  const FieldSpec field = Box("obs", {4});
  BatchBuilder rows = BatchBuilder::Create(
                          MakeSpec({field, Discrete("action", 2), Scalar("reward", DType::kFloat32),
                                    Scalar("collect_iter", DType::kInt64)})
                              .value(),
                          count)
                          .value();
  for (float& value : rows.column<float>(0)) value = obs;
  for (int64_t& action : rows.column<int64_t>(1)) action = 0;
  for (float& reward : rows.column<float>(2)) reward = 1;
  for (int64_t& iter : rows.column<int64_t>(3)) iter = 0;
  BatchBuilder finals = BatchBuilder::Create(MakeSpec({field}).value(), 1).value();
  for (float& value : finals.column<float>(0)) value = 0;
  SegmentBatch data;
  data.rows = std::move(rows).Seal(count);
  data.final_obs = std::move(finals).Seal(1);
  data.segments = {{0, 0, 0, count, SegmentEnd::kTerminated}};
  return data;
}

// A collector that joins again whenever it is disconnected, and lies in each task.
class Liar {
 public:
  Liar(Transport* transport, Store* store)
      : thread_([this, transport, store] {
          for (int life = 0; !done_.load(); ++life) {
            absl::StatusOr<std::unique_ptr<WorkerSession>> session =
                Join(transport, Hello::COLLECTOR, absl::StrCat("liar-", life));
            if (!session.ok()) return;
            Live(session->get(), store);
          }
        }) {}
  ~Liar() {
    done_.store(true);
    thread_.join();
  }

  int lies() const { return lies_.load(); }

 private:
  void Live(WorkerSession* session, Store* store) {
    while (!done_.load()) {
      const absl::StatusOr<CoordinatorMessage> message = session->Receive(absl::Milliseconds(20));
      if (absl::IsDeadlineExceeded(message.status())) continue;
      if (!message.ok() || message->has_end_run()) return;
      if (message->has_start_task()) Lie(message->start_task().collector(), session, store);
    }
  }

  void Lie(const CollectorTask& task, WorkerSession* session, Store* store) {
    const int lie = lies_.fetch_add(1);
    WorkerMessage message;
    CollectorFinished* const finished = message.mutable_collector_finished();
    finished->set_task_id(task.task_id());
    finished->set_collector_done(true);
    finished->set_train_iter(task.policy().train_iter());
    finished->set_policy_version(task.policy().version());
    finished->set_step_count(1000);
    if (task.eval_flag()) {
      finished->add_episode_return(lie % 2 == 0 ? 1e9 : 200);
      Send(message, session);
      return;
    }
    switch (lie % 5) {
      case 0: {
        CollectorData* const data = message.mutable_collector_data();
        data->set_task_id(task.task_id());
        data->mutable_progress()->set_cur_step(int64_t{1} << 40);
        break;
      }
      case 1:
        finished->set_step_count(int64_t{1} << 40);
        break;
      case 2:
        finished->set_step_count(900000);
        break;
      case 3:
        message.mutable_task_failed()->set_task_id(task.task_id());
        message.mutable_task_failed()->set_code(static_cast<int>(absl::StatusCode::kInternal));
        break;
      default:
        SendBadRows(task, session, store);
        return;
    }
    Send(message, session);
  }

  // Sends rows with NaN, and refers to rows that do not exist, until the coordinator disconnects
  // it.
  void SendBadRows(const CollectorTask& task, WorkerSession* session, Store* store) {
    constexpr int64_t kRows = 64;
    const SegmentBatch rows = CartPoleRows(std::numeric_limits<float>::quiet_NaN(), kRows);
    for (uint64_t i = 1; !done_.load(); ++i) {
      const int64_t chunk = ChunkNumber(session->welcome().worker(), static_cast<uint32_t>(i));
      if (i % 8 != 0 && !store->Put(ChunkKey(chunk), EncodedSegments(rows).pieces()).ok()) return;
      WorkerMessage message;
      CollectorData* const data = message.mutable_collector_data();
      data->set_task_id(task.task_id());
      data->set_sequence(i);
      data->set_items(EncodeItems(rows, chunk).value());
      data->mutable_progress()->set_cur_step(static_cast<int64_t>(i) * kRows);
      if (!Send(message, session)) return;
      while (true) {  // wait for the acknowledgement
        const absl::StatusOr<CoordinatorMessage> answer = session->Receive(absl::Milliseconds(20));
        if (answer.ok() && answer->has_collector_data_ack()) break;
        if (done_.load() || (answer.ok() && answer->has_end_run())) return;
        if (!answer.ok() && !absl::IsDeadlineExceeded(answer.status())) return;
      }
    }
  }

  static bool Send(const WorkerMessage& message, WorkerSession* session) {
    return session->Send(message, absl::Seconds(10)).ok();
  }

  std::atomic<bool> done_{false};
  std::atomic<int> lies_{0};
  std::thread thread_;
};

// Enough for many lies. Under ThreadSanitizer an iteration takes sixty times as long.
#if defined(__SANITIZE_THREAD__)
constexpr int64_t kTrainIterations = 2000;
#else
constexpr int64_t kTrainIterations = 12000;
#endif

TEST(LyingWorkersTest, ACollectorThatLiesNeitherEndsNorSpoilsTheRun) {
  DING_ASSERT_OK_AND_ASSIGN(
      const ExperimentConfig config,
      LoadExperimentConfig(
          "worker/configs/cartpole_dqn_parallel_fast.textproto",
          {absl::StrCat("max_train_iter=", kTrainIterations), "max_env_step=2000000000",
           "env.stop_value=1000", "env.collector_env_num=2", "env.evaluator_env_num=2",
           "policy.other.commander.eval_interval=0.05"}));
  DING_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Store> store, create_store("mem:"));
  InProcessTransport transport;
  CommCoordinator::Options comm_options;
  comm_options.address = kAddress;
  comm_options.session.lease = absl::Minutes(1);
  comm_options.welcome.set_lease_seconds(60);
  DING_ASSERT_OK_AND_ASSIGN(const auto comm, CommCoordinator::Create(comm_options, &transport));
  ComponentDeps deps;
  deps.exp_dir = absl::StrCat(testing::TempDir(), "/exp");
  DING_ASSERT_OK_AND_ASSIGN(
      const CoordinatorParts parts,
      MakeCoordinator(config, "run-1", deps, store.get(), comm.get(), /*journal=*/nullptr));
  parts.coordinator->Start();
  ASSERT_THAT(comm->Start(parts.coordinator.get()), IsOk());

  std::vector<std::thread> honest;
  for (int i = 0; i < 2; ++i) {
    honest.emplace_back([&, i] {
      DING_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<WorkerSession> session,
                                Join(&transport, Hello::COLLECTOR, absl::StrCat("collector-", i)));
      BaseCommCollector collector(session.get(), store.get(),
                                  MakeTaskCollectorFactory(config, deps));
      EXPECT_THAT(collector.Run(), IsOk());
    });
  }
  honest.emplace_back([&] {
    DING_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<WorkerSession> session,
                              Join(&transport, Hello::LEARNER, "learner-0"));
    BaseCommLearner learner(MakeCommLearnerOptions(config), session.get(), store.get(),
                            MakeTaskLearnerFactory(config, deps));
    EXPECT_THAT(learner.Run(), IsOk());
  });
  int lies = 0;
  {
    const Liar liar(&transport, store.get());
    EXPECT_THAT(parts.coordinator->WaitUntilDone(kLong), IsOk());
    lies = liar.lies();
  }
  const RunStatus status = parts.coordinator->status();
  const Coordinator::Counters counters = parts.coordinator->counters();
  parts.coordinator->RequestEnd("the test is over");
  EXPECT_TRUE(comm->WaitForWorkersToLeave(kLong));
  for (std::thread& thread : honest) thread.join();
  comm->Close("the test is over");
  EXPECT_THAT(parts.coordinator->Close("the test is over"), IsOk());

  EXPECT_GT(lies, 2);
  EXPECT_GE(status.train_iter(), kTrainIterations) << "the learner's budget was what ended it";
  EXPECT_FALSE(status.converged());
  EXPECT_LE(status.best_eval_value(), 200);
  EXPECT_LE(status.envstep(), 4 * counters.rows_pushed);
  const std::vector<std::string> warnings(status.warning().begin(), status.warning().end());
  EXPECT_THAT(warnings, Contains(HasSubstr("liar-")));
  for (const std::string& warning : warnings) {
    EXPECT_EQ(warning.find("collector-0 (worker"), std::string::npos) << warning;
  }
}

}  // namespace
}  // namespace ding
