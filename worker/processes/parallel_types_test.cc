// Follows the parameters of types of a user through a parallel run: from the config to its
// coordinator, and in the Welcome to the processes of collectors and learners.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "ding_worker/base/params.h"
#include "ding_worker/base/params_test.pb.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/collector/comm/base_comm_collector.h"
#include "ding_worker/collector/comm/comm_collector_registry.h"
#include "ding_worker/collector/parallel.pb.h"
#include "ding_worker/collector/parallel/base_parallel_collector.h"
#include "ding_worker/collector/parallel_registry.h"
#include "ding_worker/collector/testing/fake_link.h"
#include "ding_worker/coordinator/commander/base_commander.h"
#include "ding_worker/coordinator/commander/commander_registry.h"
#include "ding_worker/coordinator/coordinator.pb.h"
#include "ding_worker/interaction/control/worker_server.h"
#include "ding_worker/interaction/control/worker_session.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/interaction/store/store.h"
#include "ding_worker/interaction/transport/in_process_transport.h"
#include "ding_worker/learner/comm/base_comm_learner.h"
#include "ding_worker/learner/comm/comm_learner_registry.h"
#include "ding_worker/metrics/sink.h"
#include "ding_worker/worker/config/experiment_config.h"
#include "ding_worker/worker/config/text_config.h"
#include "ding_worker/worker/coordination/parallel_setup.h"
#include "ding_worker/worker/experiment.pb.h"
#include "ding_worker/worker/processes/parallel_worker.h"
#include "ding_worker/worker/tasks/parallel_problems.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kConfig[] = "worker/configs/cartpole_dqn_parallel_fast.textproto";

// A setting of params with this word. `field` is the path of an Any.
std::string SetWord(const std::string& field, const std::string& word) {
  return absl::StrCat(field, "={[type.googleapis.com/ding_user.WordParams]{word:\"", word, "\"}}");
}

std::vector<std::string> SetAllWords() {
  return {SetWord("policy.other.commander.params", "to the commander"),
          SetWord("policy.collect.parallel_collector.params", "to the collector"),
          SetWord("system.comm_collector_params", "to the collector's process"),
          SetWord("system.comm_learner_params", "to the learner's process")};
}

TEST(ParallelTypesTest, OurTypesRefuseParamsBeforeTheRunBegins) {
  DING_ASSERT_OK_AND_ASSIGN(const ExperimentConfig config,
                            LoadExperimentConfig(kConfig, SetAllWords()));
  const auto refused = [](const std::string& field, const std::string& type) {
    return absl::StrCat(field, " hold a ding_user.WordParams, but type '", type, "' takes none");
  };
  EXPECT_THAT(FindParallelProblems(config),
              ElementsAre(refused("system: comm_collector_params", "grpc_fs"),
                          refused("system: comm_learner_params", "grpc_fs"),
                          refused("policy.other.commander: params", "solo"),
                          refused("policy.collect.parallel_collector: params", "zergling")));
}

// Registers a type "mine" of each kind. The types note the word in their params, and create
// nothing.
class ParamsOfAUser : public testing::Test {
 protected:
  ParamsOfAUser() {
    std::vector<std::string> settings = SetAllWords();
    settings.push_back("policy.other.commander.type=mine");
    settings.push_back("policy.collect.parallel_collector.type=mine");
    settings.push_back("system.comm_collector_type=mine");
    settings.push_back("system.comm_learner_type=mine");
    config_ = LoadExperimentConfig(kConfig, settings).value();
  }

  static absl::Status Note(const GivenParams& given, std::string* word) {
    ding_user::WordParams params;
    DING_RETURN_IF_ERROR(ReadParams(given, &params));
    *word = params.word();
    return absl::AbortedError("noted");
  }

  CommanderDescriptor Commander() {
    CommanderDescriptor descriptor;
    descriptor.check_params = TakesParams<ding_user::WordParams>;
    descriptor.create = [this](const CommanderConfig& config, const CommanderDeps&)
        -> absl::StatusOr<std::unique_ptr<BaseCommander>> { return Note(config, &commander_); };
    return descriptor;
  }
  ParallelCollectorDescriptor Collector() {
    ParallelCollectorDescriptor descriptor;
    descriptor.check_params = TakesParams<ding_user::WordParams>;
    descriptor.create =
        [this](const ParallelCollectorConfig& config, const ParallelCollectorTask&,
               const ParallelCollectorParts&,
               const ComponentDeps&) -> absl::StatusOr<std::unique_ptr<BaseParallelCollector>> {
      return Note(config, &collector_);
    };
    return descriptor;
  }
  CommCollectorDescriptor CollectorProcess() {
    CommCollectorDescriptor descriptor;
    descriptor.check_params = TakesParams<ding_user::WordParams>;
    // The process creates the collector of a task at once, as if a task had come.
    descriptor.create =
        [this](const GivenParams& config, WorkerSession*, Store*,
               TaskCollectorFactory factory) -> absl::StatusOr<std::unique_ptr<BaseCommCollector>> {
      FakeLink link;
      EXPECT_THAT(factory(CollectorTask(), &link), StatusIs(absl::StatusCode::kAborted));
      return Note(config, &collector_process_);
    };
    return descriptor;
  }
  CommLearnerDescriptor LearnerProcess() {
    CommLearnerDescriptor descriptor;
    descriptor.check_params = TakesParams<ding_user::WordParams>;
    descriptor.create =
        [this](const GivenParams& config, const CommLearnerOptions&, WorkerSession*, Store*,
               TaskLearnerFactory) -> absl::StatusOr<std::unique_ptr<BaseCommLearner>> {
      return Note(config, &learner_process_);
    };
    return descriptor;
  }

  ExperimentConfig config_;
  std::string commander_, collector_, collector_process_, learner_process_;

 private:
  ScopedRegistration<CommanderDescriptor> commander_type_{&CommanderRegistry(), "mine",
                                                          Commander()};
  ScopedRegistration<ParallelCollectorDescriptor> collector_type_{&ParallelCollectorRegistry(),
                                                                  "mine", Collector()};
  ScopedRegistration<CommCollectorDescriptor> collector_process_type_{&CommCollectorRegistry(),
                                                                      "mine", CollectorProcess()};
  ScopedRegistration<CommLearnerDescriptor> learner_process_type_{&CommLearnerRegistry(), "mine",
                                                                  LearnerProcess()};
};

TEST_F(ParamsOfAUser, AreAcceptedIfTheyFit) {
  EXPECT_THAT(FindParallelProblems(config_), IsEmpty());
  config_.mutable_policy()->mutable_other()->mutable_commander()->mutable_params()->PackFrom(
      ding_user::ChoiceConfig());
  EXPECT_THAT(
      FindParallelProblems(config_),
      ElementsAre("policy.other.commander: params hold a ding_user.ChoiceConfig, expected a "
                  "ding_user.WordParams for type 'mine'"));
}

TEST_F(ParamsOfAUser, ReachTheCommander) {
  EXPECT_THAT(MakeCoordinator(config_, "run-1", ComponentDeps(), /*store=*/nullptr,
                              /*sender=*/nullptr, /*journal=*/nullptr),
              StatusIs(absl::StatusCode::kAborted));
  EXPECT_EQ(commander_, "to the commander");
}

TEST(PolicyOfAParallelRun, MustLearnFromWhatTheBufferDraws) {
  DING_ASSERT_OK_AND_ASSIGN(
      const ExperimentConfig config,
      LoadExperimentConfig(
          kConfig, {"policy.type=impala", "policy.nstep=1", "policy.other.replay_buffer.type=naive",
                    "policy.params={[type.googleapis.com/ding.ImpalaConfig]{actor_critic{"
                    "model{encoder_hidden_size:8} critic{encoder_hidden_size:8}}}}"}));
  EXPECT_THAT(
      MakeCoordinator(config, "run-1", ComponentDeps(), /*store=*/nullptr,
                      /*sender=*/nullptr, /*journal=*/nullptr),
      StatusIs(absl::StatusCode::kInvalidArgument,
               HasSubstr("policy 'impala' learns from sequences of rows: expected 'sequence'")));
}

// A coordinator that admits workers and gives them nothing to do.
class Greeter : public WorkerHandler {
 public:
  void Admit(const Hello& /*hello*/, Admitted admitted) override { admitted(++workers_); }
  void WorkerJoined(uint32_t, const Hello&, const std::string&) override {}
  void WorkerLost(uint32_t, const absl::Status&) override {}
  void Handle(uint32_t, WorkerMessage, Done done) override { done(absl::OkStatus()); }

 private:
  uint32_t workers_ = 0;  // used by the one thread of the server
};

TEST_F(ParamsOfAUser, ReachTheProcessesOfWorkersInTheWelcome) {
  InProcessTransport transport;
  Greeter greeter;
  WorkerServer::Options options;
  options.address = "run";
  options.session.lease = absl::Minutes(1);
  options.welcome.set_lease_seconds(60);
  options.welcome.set_run("run-1");
  options.welcome.set_config(PrintTextConfig(config_));
  options.welcome.set_store_url("mem:");
  options.welcome.set_exp_dir(absl::StrCat(testing::TempDir(), "/params_of_a_user"));
  DING_ASSERT_OK_AND_ASSIGN(const auto server, WorkerServer::Create(options, &transport));
  ASSERT_THAT(server->Start(&greeter), IsOk());

  ParallelWorkerOptions worker;
  worker.coordinator = server->address();
  worker.name = "collector-0";
  EXPECT_THAT(RunParallelWorker(Hello::COLLECTOR, worker, &transport),
              StatusIs(absl::StatusCode::kAborted));
  EXPECT_EQ(collector_process_, "to the collector's process");
  EXPECT_EQ(collector_, "to the collector");
  worker.name = "learner-0";
  EXPECT_THAT(RunParallelWorker(Hello::LEARNER, worker, &transport),
              StatusIs(absl::StatusCode::kAborted));
  EXPECT_EQ(learner_process_, "to the learner's process");
  server->Close("the test is over");
}

}  // namespace
}  // namespace ding
