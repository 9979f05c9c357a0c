// Tests whole parallel runs between the threads of one process: coordinator, its end of the
// connections and the workers, also over a transport that loses, repeats, delays and reorders
// messages.

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/collector/comm/base_comm_collector.h"
#include "ding_worker/collector/testing/naive_collector.h"
#include "ding_worker/coordinator/comm_coordinator.h"
#include "ding_worker/coordinator/commander/base_commander.h"
#include "ding_worker/coordinator/coordinator.h"
#include "ding_worker/coordinator/testing/naive_commander.h"
#include "ding_worker/interaction/control/worker_session.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/interaction/store/store.h"
#include "ding_worker/interaction/store/store_registry.h"
#include "ding_worker/interaction/testing/faulty_transport.h"
#include "ding_worker/interaction/transport/in_process_transport.h"
#include "ding_worker/learner/comm/base_comm_learner.h"
#include "ding_worker/learner/testing/naive_learner.h"
#include "ding_worker/metrics/sink.h"
#include "ding_worker/replay_buffer/advanced_buffer.h"
#include "ding_worker/replay_buffer/buffer.h"
#include "ding_worker/worker/config/experiment_config.h"
#include "ding_worker/worker/coordination/parallel_setup.h"
#include "ding_worker/worker/experiment.pb.h"
#include "ding_worker/worker/tasks/configured_collector.h"
#include "ding_worker/worker/tasks/configured_learner.h"
#include "ding_worker/worker/tasks/parallel_problems.h"
#include "ding_worker/worker/testing/in_process_run.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::ElementsAre;
using testing::Ge;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr absl::Duration kLong = kInProcessPatience;

// A naive commander whose run has converged after one task of a learner and two tasks of
// collectors. What it records is read after the coordinator is closed.
class CountingCommander : public BaseCommander {
 public:
  explicit CountingCommander(std::unique_ptr<NaiveCommander> naive) : naive_(std::move(naive)) {}

  std::optional<CollectorTask> GetCollectorTask() override { return naive_->GetCollectorTask(); }
  std::optional<LearnerTask> GetLearnerTask() override { return naive_->GetLearnerTask(); }
  bool FinishCollectorTask(const CollectorTask& task, const CollectorFinished& info) override {
    naive_->FinishCollectorTask(task, info);
    finished_.push_back(info);
    return naive_->finished_learner_tasks() >= 1 && naive_->finished_collector_tasks() >= 2;
  }
  std::string FinishLearnerTask(const LearnerTask& task) override {
    learned_.push_back(task.task_id());
    return naive_->FinishLearnerTask(task);
  }
  void NotifyFailCollectorTask(const CollectorTask& task) override {
    naive_->NotifyFailCollectorTask(task);
  }
  void NotifyFailLearnerTask(const LearnerTask& task) override {
    naive_->NotifyFailLearnerTask(task);
  }
  void UpdateLearnerInfo(const LearnerTask& task, const LearnerInfo& info) override {
    naive_->UpdateLearnerInfo(task, info);
  }
  void IncreaseCollectorTaskSpace() override { naive_->IncreaseCollectorTaskSpace(); }
  void DecreaseCollectorTaskSpace() override { naive_->DecreaseCollectorTaskSpace(); }
  int64_t total_collector_env_step() const override { return naive_->total_collector_env_step(); }
  std::optional<double> last_eval_value() const override { return std::nullopt; }
  std::vector<double> last_eval_returns() const override { return naive_->last_eval_returns(); }

  const NaiveCommander& naive() const { return *naive_; }
  const std::vector<CollectorFinished>& finished() const { return finished_; }
  const std::vector<std::string>& learned() const { return learned_; }

 private:
  const std::unique_ptr<NaiveCommander> naive_;
  std::vector<CollectorFinished> finished_;
  std::vector<std::string> learned_;
};

class NaiveRunTest : public testing::TestWithParam<uint64_t> {};  // the seed; 0: no faults

// This corresponds to DI-engine's tests of its comm collectors and learners.
TEST_P(NaiveRunTest, ALearnersTaskAndTwoCollectingOnes) {
  Faults faults;
  faults.seed = GetParam();
  if (faults.seed > 0) {
    faults.delay = 0.2;
  }
  SCOPED_TRACE(absl::StrCat("seed ", faults.seed));
  InProcessTransport base;
  FaultyTransport transport(&base, faults);
  const std::unique_ptr<Store> store = create_store("mem:").value();
  DING_ASSERT_OK_AND_ASSIGN(const auto comm,
                            CommCoordinator::Create(InProcessCommOptions(), &base));

  NaiveCommander::Options commander_options;
  commander_options.collector_task_space = 2;
  auto commander =
      std::make_unique<CountingCommander>(NaiveCommander::Create(commander_options).value());
  const CountingCommander* const counts = commander.get();
  Coordinator::Options options;
  options.collectors = 2;
  Coordinator::Parts parts;
  parts.commander = std::move(commander);
  parts.make_buffer = [](const std::string& id, absl::Span<const std::string> /*settings*/,
                         OnRemoved on_removed) -> absl::StatusOr<std::unique_ptr<IBuffer>> {
    AdvancedReplayBuffer::Options buffer;
    buffer.name = id;
    buffer.capacity_rows = 1000;
    // These are more rows than two tasks give, so a collecting task is finished before the learner
    // begins.
    constexpr int64_t kRows = 2 * NaiveCollector::kChunksPerTask + 1;
    buffer.sample_min_limit_ratio = static_cast<double>(kRows) / NaiveLearner::kBatchSize;
    buffer.on_removed = std::move(on_removed);
    return AdvancedReplayBuffer::Create(buffer);
  };
  parts.delete_key = [&store](const std::string& key) { return store->Delete(key); };
  parts.sender = comm.get();
  DING_ASSERT_OK_AND_ASSIGN(const auto coordinator,
                            Coordinator::Create(options, std::move(parts), {}));
  coordinator->Start();
  ASSERT_THAT(comm->Start(coordinator.get()), IsOk());

  std::atomic<int64_t> read{0};
  std::atomic<int64_t> missing{0};
  const auto make_collector = [&store](WorkerSession* session) {
    return std::make_unique<NaiveCollector>(session, store.get());
  };
  struct CountedLearner {
    absl::StatusOr<EndRun> Run() {
      absl::StatusOr<EndRun> end = learner->Run();
      *read += learner->read_rows();
      *missing += learner->missing_rows();
      return end;
    }
    std::unique_ptr<NaiveLearner> learner;
    std::atomic<int64_t>* read;
    std::atomic<int64_t>* missing;
  };
  const auto make_learner = [&](WorkerSession* session) {
    return std::make_unique<CountedLearner>(
        CountedLearner{std::make_unique<NaiveLearner>(session, store.get()), &read, &missing});
  };
  WorkerThread a(Hello::COLLECTOR, "collector-0", &transport, make_collector);
  WorkerThread b(Hello::COLLECTOR, "collector-1", &transport, make_collector);
  WorkerThread c(Hello::LEARNER, "learner-0", &transport, make_learner);
  EXPECT_THAT(coordinator->WaitUntilDone(kLong), IsOk());
  EXPECT_THAT(EndInProcessRun(coordinator.get(), comm.get()), IsOk());
  for (WorkerThread* const worker : {&a, &b, &c}) EXPECT_THAT(worker->Join(), IsOk());

  EXPECT_TRUE(coordinator->status().converged());
  EXPECT_EQ(coordinator->status().workers_joined(), 3);
  EXPECT_EQ(coordinator->status().buffer_size(), 0);
  EXPECT_THAT(counts->finished().size(), Ge(2u));
  for (const CollectorFinished& info : counts->finished()) {
    EXPECT_EQ(info.sample_count(), NaiveCollector::kChunksPerTask);
  }
  ASSERT_THAT(counts->learned().size(), Ge(1u));
  for (const std::string& task : counts->learned()) {
    // There are five reports, and the one that says that the task is done.
    const std::vector<LearnerInfo> infos = counts->naive().learner_infos(task);
    ASSERT_EQ(infos.size(), 6u);
    for (size_t i = 0; i < infos.size(); ++i) {
      EXPECT_EQ(infos[i].learner_step(), static_cast<int64_t>(i) + 1);
      EXPECT_EQ(infos[i].learner_done(), i == 5);
      EXPECT_EQ(infos[i].priority_size(), 2) << "echoed";
    }
  }
  const int64_t tasks = static_cast<int64_t>(counts->learned().size());
  EXPECT_GE(read, tasks * 6 * NaiveLearner::kBatchSize);
  EXPECT_EQ(missing, 0) << "what was drawn can be read";
  EXPECT_GE(coordinator->counters().rows_acknowledged, 2 * NaiveCollector::kChunksPerTask);
  EXPECT_THAT(store->List("").value(), IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(Seeds, NaiveRunTest, testing::Values(0, 1, 2, 3, 4));

class CartPoleRunTest : public testing::TestWithParam<std::string> {  // the store's URL
 protected:
  static ExperimentConfig Config(std::vector<std::string> settings,
                                 const std::string& name = "cartpole_dqn_parallel_fast") {
    settings.insert(settings.end(),
                    {"env.stop_value=1000", "env.collector_env_num=2", "env.evaluator_env_num=2",
                     "policy.other.commander.eval_interval=0.2"});
    return LoadExperimentConfig(absl::StrCat("worker/configs/", name, ".textproto"), settings)
        .value();
  }
  // Runs it to its end.
  void Run(const ExperimentConfig& config);

  RunStatus before_close_;
  RunStatus status_;
  Coordinator::Counters counters_;
};

void CartPoleRunTest::Run(const ExperimentConfig& config) {
  const std::string exp_dir = absl::StrCat(testing::TempDir(), "/exp");
  ASSERT_THAT(FindParallelProblems(config), IsEmpty());
  std::string url = GetParam();
  if (url == "file:") absl::StrAppend(&url, testing::TempDir(), "/store");
  DING_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Store> store, create_store(url));
  InProcessTransport base;
  Faults faults;
  faults.seed = 11;
  faults.delay = 0.1;
  FaultyTransport transport(&base, faults);
  ComponentDeps deps;
  deps.exp_dir = exp_dir;
  const InProcessRun run = RunInProcess(config, deps, store.get(), &base, &transport);
  EXPECT_THAT(run.end, IsOk());
  EXPECT_THAT(run.workers, IsOk());
  before_close_ = run.before_close;
  status_ = run.status;
  counters_ = run.counters;
  EXPECT_EQ(status_.buffer_size(), 0);
  EXPECT_THAT(store->List("").value(), IsEmpty());
}

TEST_P(CartPoleRunTest, LearnsForSomeIterationsAndLeavesNothing) {
  Run(Config({"max_train_iter=200", "policy.priority=true",
              "policy.other.replay_buffer.type=\"advanced\"",
              "policy.other.replay_buffer.replay_buffer_size=200"}));
  EXPECT_GE(status_.train_iter(), 200);
  EXPECT_GT(status_.envstep(), 0);
  EXPECT_TRUE(status_.has_eval_value());
  EXPECT_GT(status_.policy_version(), 1u);
  EXPECT_GT(counters_.rows_acknowledged, 200) << "rows left the buffer, and their chunks the store";
  EXPECT_GT(counters_.demands_answered, 0);
}

// However fast the workers are, rows are drawn four times on average, after those of a random
// policy.
TEST_P(CartPoleRunTest, KeepsItsReplayRatio) {
  Run(Config({"max_train_iter=200", "policy.random_collect_size=100", "policy.learn.batch_size=16",
              "policy.other.replay_buffer.replay_ratio={min: 4 max: 4}"}));
  EXPECT_GE(status_.train_iter(), 200);
  ASSERT_EQ(before_close_.buffer_size(), 1);
  const BufferStatus& buffer = before_close_.buffer(0);
  EXPECT_LE(buffer.sample_count(), 4 * (buffer.push_count() - 100));
  EXPECT_NEAR(buffer.replay_ratio(), 4, 1.5);
  EXPECT_GT(counters_.pushes_waited + counters_.demands_waited, 0);
}

// Sequences of 8 rows, of which consecutive ones share 4, and which are drawn by their priority.
TEST_P(CartPoleRunTest, LearnsFromSequencesByPriority) {
  Run(Config({"max_train_iter=100", "policy.collect.n_sample=32", "policy.collect.unroll_len=8",
              "policy.learn.batch_size=4", "policy.learn.send_policy_freq=5",
              "policy.other.replay_buffer={type:\"sequence\" replay_buffer_size:400 "
              "replay_ratio{max:1} params{"
              "[type.googleapis.com/ding.SequenceBufferConfig]{unroll_len:8 burn_in:2 overlap:4 "
              "padding:true priority{}}}}"},
             "cartpole_masked_r2d2_parallel"));
  EXPECT_GE(status_.train_iter(), 100);
  EXPECT_GT(status_.policy_version(), 1u);
  // At least as many as the 100 batches of 4 that were drawn.
  EXPECT_GT(counters_.rows_acknowledged, 300) << "items left the buffer of 400 / (8 - 4)";
  ASSERT_EQ(before_close_.buffer_size(), 1);
  EXPECT_LE(before_close_.buffer(0).count(), 100);
}

TEST_P(CartPoleRunTest, LearnsFromSequencesWithVTrace) {
  Run(Config({"max_train_iter=100"}, "cartpole_impala_parallel"));
  EXPECT_GE(status_.train_iter(), 100);
  EXPECT_GT(status_.policy_version(), 1u);
  EXPECT_GT(status_.envstep(), 100 * 8);
  ASSERT_EQ(before_close_.buffer_size(), 1);
  EXPECT_NEAR(before_close_.buffer(0).replay_ratio(), 1, 0.5);
}

constexpr char kEpisodes[] =
    "policy.collect={n_episode:4 collector{type:\"episode\" collector_num:2 params{"
    "[type.googleapis.com/ding.EpisodeCollectorParams]{get_train_sample:true}}}}";

// What a buffer of whole episodes needs, in the place of the sequences of the config.
std::vector<std::string> WholeEpisodes(std::vector<std::string> more = {}) {
  more.insert(more.end(), {"max_train_iter=60", kEpisodes, "policy.learn.batch_size=4",
                           "policy.other.replay_buffer={type:\"episode\" replay_buffer_size:1000 "
                           "replay_ratio{max:2}}"});
  return more;
}

TEST_P(CartPoleRunTest, LearnsFromWholeEpisodes) {
  Run(Config(WholeEpisodes(), "cartpole_impala_parallel"));
  EXPECT_GE(status_.train_iter(), 60);
  EXPECT_GT(status_.policy_version(), 1u);
  ASSERT_EQ(before_close_.buffer_size(), 1);
  const BufferStatus& buffer = before_close_.buffer(0);
  // Both count episodes, of which each one has 8 rows or more.
  EXPECT_LE(buffer.count(), 1000 / 8);
  EXPECT_LE(buffer.sample_count(), 2 * buffer.push_count());
  EXPECT_GE(buffer.push_count(), 60 * 4 / 2);
  EXPECT_GE(status_.envstep(), 8 * 60 * 4 / 2);
}

TEST_P(CartPoleRunTest, LearnsFromWholeEpisodesWithARecurrentPolicy) {
  Run(Config(WholeEpisodes({"policy.priority=false"}), "cartpole_masked_r2d2_parallel"));
  EXPECT_GE(status_.train_iter(), 60);
  EXPECT_GT(status_.policy_version(), 1u);
}

// A learner that can be made to leave the run.
class LeavingLearner {
 public:
  LeavingLearner(std::unique_ptr<BaseCommLearner> learner, std::atomic<BaseCommLearner*>* running)
      : learner_(std::move(learner)), running_(running) {
    *running_ = learner_.get();
  }
  ~LeavingLearner() { *running_ = nullptr; }
  absl::StatusOr<EndRun> Run() { return learner_->Run(); }

 private:
  const std::unique_ptr<BaseCommLearner> learner_;
  std::atomic<BaseCommLearner*>* const running_;
};

// Returns the status of the run when `wanted` accepts it.
RunStatus WaitForStatus(const Coordinator& coordinator,
                        const std::function<bool(const RunStatus&)>& wanted) {
  const absl::Time deadline = absl::Now() + kLong;
  RunStatus status = coordinator.status();
  while (!wanted(status) && absl::Now() < deadline) {
    absl::SleepFor(absl::Milliseconds(5));
    status = coordinator.status();
  }
  EXPECT_TRUE(wanted(status)) << status.ShortDebugString();
  return status;
}

std::string TaskOf(const RunStatus& status, const std::string& worker) {
  for (const WorkerStatus& one : status.worker()) {
    if (one.name() == worker) return one.task_id();
  }
  return "";
}

// Two learner tasks. The learner of the first one leaves the run, and another one takes its place.
TEST_P(CartPoleRunTest, TwoTasksAndALearnerThatIsLost) {
  const ExperimentConfig config = Config({"policy.other.replay_buffer.replay_ratio={max: 8}"},
                                         "cartpole_dqn_two_tasks_parallel");
  ASSERT_THAT(FindParallelProblems(config), IsEmpty());
  const std::string exp_dir = absl::StrCat(testing::TempDir(), "/two_tasks");
  ASSERT_THAT(RemoveRecursively(exp_dir), IsOk());
  std::string url = GetParam();
  if (url == "file:") absl::StrAppend(&url, testing::TempDir(), "/two_tasks_store");
  DING_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Store> store, create_store(url));
  InProcessTransport transport;
  DING_ASSERT_OK_AND_ASSIGN(const auto comm,
                            CommCoordinator::Create(InProcessCommOptions(), &transport));
  ComponentDeps deps;
  deps.exp_dir = exp_dir;
  DING_ASSERT_OK_AND_ASSIGN(const CoordinatorParts parts,
                            MakeCoordinator(config, "run-1", deps, store.get(), comm.get(),
                                            /*journal=*/nullptr));
  Coordinator* const coordinator = parts.coordinator.get();
  coordinator->Start();
  ASSERT_THAT(comm->Start(coordinator), IsOk());
  const auto make_collector = [&](WorkerSession* session) {
    return std::make_unique<BaseCommCollector>(session, store.get(),
                                               MakeTaskCollectorFactory(config, deps));
  };
  std::atomic<BaseCommLearner*> running[3] = {};
  const auto make_learner = [&](int i) {
    return [&, i](WorkerSession* session) {
      auto learner =
          std::make_unique<BaseCommLearner>(MakeCommLearnerOptions(config), session, store.get(),
                                            MakeTaskLearnerFactory(config, deps));
      return std::make_unique<LeavingLearner>(std::move(learner), &running[i]);
    };
  };
  WorkerThread learner_0(Hello::LEARNER, "learner-0", &transport, make_learner(0));
  WaitForStatus(*coordinator, [](const RunStatus& status) {
    return TaskOf(status, "learner-0") == "learner_task_0";
  });
  WorkerThread learner_1(Hello::LEARNER, "learner-1", &transport, make_learner(1));
  WorkerThread a(Hello::COLLECTOR, "collector-0", &transport, make_collector);
  WorkerThread b(Hello::COLLECTOR, "collector-1", &transport, make_collector);
  const auto have_trained = [](int64_t first, int64_t second) {
    return [first, second](const RunStatus& status) {
      return status.trained_policy_size() == 2 && status.trained_policy(0).train_iter() >= first &&
             status.trained_policy(1).train_iter() >= second;
    };
  };
  const RunStatus before = WaitForStatus(*coordinator, have_trained(50, 50));
  running[0].load()->Close();
  EXPECT_THAT(learner_0.Join(), testing::Not(IsOk()));
  // The other one goes on, and has the same task.
  const int64_t trained = before.trained_policy(1).train_iter();
  const RunStatus alone = WaitForStatus(*coordinator, have_trained(0, trained + 50));
  EXPECT_EQ(TaskOf(alone, "learner-1"), "learner_task_1");
  WorkerThread learner_2(Hello::LEARNER, "learner-2", &transport, make_learner(2));
  WaitForStatus(*coordinator, [](const RunStatus& status) {
    return TaskOf(status, "learner-2") == "learner_task_2";
  });
  const RunStatus after = WaitForStatus(
      *coordinator, have_trained(before.trained_policy(0).train_iter() + 100, trained + 100));
  EXPECT_EQ(after.trained_policy(0).policy_id(), "policy_0");
  EXPECT_EQ(after.trained_policy(0).task_id(), "learner_task_2");
  ASSERT_EQ(after.buffer_size(), 2);
  for (int i = 0; i < 2; ++i) {
    EXPECT_GT(after.buffer(i).push_count(), 0);
    EXPECT_GT(after.trained_policy(i).policy_version(), 1u);
    EXPECT_GT(after.trained_policy(i).envstep(), 0);
  }
  EXPECT_THAT(EndInProcessRun(coordinator, comm.get()), IsOk());
  for (WorkerThread* const worker : {&a, &b, &learner_1, &learner_2}) {
    EXPECT_THAT(worker->Join(), IsOk());
  }
  for (const char* folder : {"ckpt_policy_0", "ckpt_policy_1"}) {
    EXPECT_TRUE(PathExists(JoinPath(JoinPath(exp_dir, folder), "learner_resume"))) << folder;
  }
  // A version that the learner stored, and did not announce before it left, may be left.
  EXPECT_THAT(store->List("data/").value(), IsEmpty());
}

TEST_P(CartPoleRunTest, RefusesSequencesThatDoNotFitThePolicy) {
  const auto refusal = [&](const ExperimentConfig& config) {
    InProcessTransport base;
    const auto comm = CommCoordinator::Create(InProcessCommOptions(), &base).value();
    const std::unique_ptr<Store> store = create_store("mem:").value();
    return MakeCoordinator(config, "run-1", ComponentDeps(), store.get(), comm.get(),
                           /*journal=*/nullptr)
        .status();
  };
  EXPECT_THAT(
      refusal(Config({"policy.other.replay_buffer={type:\"naive\"}"}, "cartpole_impala_parallel")),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("expected 'sequence'")));
  EXPECT_THAT(refusal(Config(WholeEpisodes())),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("type is 'episode', which draws sequences of rows, with padding, "
                                 "but policy 'dqn'")));
  EXPECT_THAT(
      refusal(Config({"policy.collect.unroll_len=10"}, "cartpole_masked_r2d2_parallel")),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("policy.collect.unroll_len is 10")));
}

INSTANTIATE_TEST_SUITE_P(Stores, CartPoleRunTest, testing::Values("mem:", "file:"));

class LeagueTest : public testing::Test {
 protected:
  static ExperimentConfig Config(std::vector<std::string> settings = {}) {
    settings.push_back("resume.period_seconds=0");
    return LoadExperimentConfig("worker/configs/tictactoe_league_parallel.textproto", settings)
        .value();
  }
  absl::StatusOr<CoordinatorParts> Make(const ExperimentConfig& config) {
    ComponentDeps deps;
    deps.exp_dir = absl::StrCat(testing::TempDir(), "/league");
    return MakeCoordinator(config, "run-1", deps, store_.get(), comm_.get(), /*journal=*/nullptr);
  }

  InProcessTransport transport_;
  const std::unique_ptr<Store> store_ = create_store("mem:").value();
  const std::unique_ptr<CommCoordinator> comm_ =
      CommCoordinator::Create(InProcessCommOptions(), &transport_).value();
};

// The bar is a mean return of 0.7 against random play. A policy that also plays at random gets 0,
// and one that learns with a wrong sign loses nearly all games.
TEST_F(LeagueTest, LearnsFromItsPastAndBeatsRandomPlay) {
  ExperimentConfig config =
      Config({"env.stop_value=0.7", "policy.other.commander.eval_interval=0.3",
              "policy.other.commander.league.naive_sp_player.one_phase_step=20",
              "policy.other.commander.league.naive_sp_player.branch_probs.pfsp=0.8",
              "policy.other.commander.league.naive_sp_player.branch_probs.sp=0.2",
              "policy.other.commander.league.max_historical_players=5", "max_train_iter=40000",
              "env.evaluator_episode_num=5", "policy.learn.batch_size=32"});
  config.mutable_env()->mutable_eval_opponent()->RemoveLast();
  config.mutable_env()->mutable_eval_opponent(0)->set_win_return(0.7);
  ASSERT_THAT(FindParallelProblems(config), IsEmpty());
  DING_ASSERT_OK_AND_ASSIGN(const CoordinatorParts parts, Make(config));
  parts.coordinator->Start();
  ASSERT_THAT(comm_->Start(parts.coordinator.get()), IsOk());
  ComponentDeps deps;
  deps.exp_dir = absl::StrCat(testing::TempDir(), "/league");
  const auto make_collector = [&](WorkerSession* session) {
    return std::make_unique<BaseCommCollector>(session, store_.get(),
                                               MakeTaskCollectorFactory(config, deps));
  };
  const auto make_learner = [&](WorkerSession* session) {
    return std::make_unique<BaseCommLearner>(MakeCommLearnerOptions(config), session, store_.get(),
                                             MakeTaskLearnerFactory(config, deps));
  };
  WorkerThread a(Hello::COLLECTOR, "collector-0", &transport_, make_collector);
  WorkerThread b(Hello::COLLECTOR, "collector-1", &transport_, make_collector);
  WorkerThread c(Hello::LEARNER, "learner-0", &transport_, make_learner);
  EXPECT_THAT(parts.coordinator->WaitUntilDone(2 * kLong), IsOk());
  const size_t policies = store_->List("policy").value().size();
  EXPECT_THAT(EndInProcessRun(parts.coordinator.get(), comm_.get()), IsOk());
  for (WorkerThread* const worker : {&a, &b, &c}) EXPECT_THAT(worker->Join(), IsOk());

  const RunStatus status = parts.coordinator->status();
  EXPECT_TRUE(status.converged()) << status.eval_value();
  EXPECT_GE(status.eval_value(), 0.7);
  EXPECT_GT(status.league().snapshots(), 0);
  EXPECT_GT(status.league().games_with_historical(), 0);
  EXPECT_LE(status.league().historical_players(), 5);
  // The limit counts the historical players, the newest two, and those that are still used by
  // tasks.
  EXPECT_LE(policies, 5u + 2 + 4) << "snapshots that left the league are deleted";
  EXPECT_THAT(store_->List("").value(), IsEmpty());
}

TEST_F(LeagueTest, InvalidLeagueConfigsAreRefused) {
  ExperimentConfig config = Config({"policy.collect.parallel_collector.type=\"zergling\""});
  EXPECT_THAT(FindParallelProblems(config),
              ElementsAre(HasSubstr("'zergling' beside commander 'one_vs_one', expected one for "
                                    "games: 'marine'")));
  config = Config({"policy.other.commander.type=\"solo\""});
  EXPECT_THAT(
      FindParallelProblems(config),
      testing::IsSupersetOf(
          {HasSubstr("'marine' beside commander 'solo'"),
           HasSubstr("env.eval_opponent[1].win_return is 0, which has no effect in a parallel run"),
           HasSubstr("policy.other.commander.league.naive_sp_player.one_phase_step is 1000, which "
                     "has no effect in a parallel run")}));
  config = Config({"env.type=\"TicTacToe-vs-random\""});
  EXPECT_THAT(Make(config),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("has 1 player, expected a game of 2 for policy.other.commander")));
  config = Config();
  config.mutable_env()->mutable_eval_opponent(1)->set_evaluator_type("TicTacToe");
  EXPECT_THAT(Make(config),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("policy.eval.evaluator.type is 'interaction', which is for envs "
                                 "for one, but env 'TicTacToe' has 2 players")));
  config.mutable_env()->mutable_eval_opponent(1)->set_evaluator_type("ConnectFour-vs-random");
  EXPECT_THAT(Make(config), StatusIs(absl::StatusCode::kInvalidArgument,
                                     HasSubstr("'ConnectFour-vs-random', which evaluates")));
  config = Config({"policy.other.commander.league.active_players.naive_sp_player=0"});
  EXPECT_THAT(Make(config),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("a league without players")));
}

}  // namespace
}  // namespace ding
