// A parallel run in which collector, comm collector and comm learner override each of their steps.
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "ding_worker/base/mutex.h"
#include "ding_worker/base/params.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/collector/comm/base_comm_collector.h"
#include "ding_worker/collector/comm/comm_collector_registry.h"
#include "ding_worker/collector/core/collect_core.h"
#include "ding_worker/collector/parallel/base_parallel_collector.h"
#include "ding_worker/collector/parallel/parallel_collector_core.h"
#include "ding_worker/collector/parallel_registry.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/named_values.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/wire.h"
#include "ding_worker/env/env_manager.h"
#include "ding_worker/interaction/control/worker_session.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/interaction/store/store.h"
#include "ding_worker/interaction/store/store_registry.h"
#include "ding_worker/interaction/transport/in_process_transport.h"
#include "ding_worker/learner/async_data_loader.h"
#include "ding_worker/learner/comm/base_comm_learner.h"
#include "ding_worker/learner/comm/comm_learner_registry.h"
#include "ding_worker/learner/comm/demand_source.h"
#include "ding_worker/learner/comm/group_member.h"
#include "ding_worker/learner/comm/task_learner.h"
#include "ding_worker/learner/hook.h"
#include "ding_worker/learner/learner.h"
#include "ding_worker/metrics/sink.h"
#include "ding_worker/policy/policy.h"
#include "ding_worker/worker/config/experiment_config.h"
#include "ding_worker/worker/tasks/parallel_problems.h"
#include "ding_worker/worker/testing/in_process_run.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::IsEmpty;

// The number of calls of each step.
class Calls {
 public:
  void Add(const std::string& step) {
    MutexLock lock(&mutex_);
    ++calls_[step];
  }
  std::map<std::string, int64_t> Take() {
    MutexLock lock(&mutex_);
    return std::exchange(calls_, {});
  }

 private:
  Mutex mutex_;
  std::map<std::string, int64_t> calls_ ABSL_GUARDED_BY(mutex_);
};

Calls& calls() {
  static auto* const calls = new Calls();
  return *calls;
}

// The rewards of its rows are doubled.
class OwnCollector : public ParallelCollectorCore {
 public:
  static absl::StatusOr<std::unique_ptr<BaseParallelCollector>> Create(
      const ParallelCollectorConfig& config, const ParallelCollectorTask& task,
      const ParallelCollectorParts& parts, const ComponentDeps& deps) {
    DING_ASSIGN_OR_RETURN(Setup setup, Prepare(ReadParallelCollectorOptions(config), task, parts,
                                               deps, {{parts.collect_mode, /*updates=*/true}}));
    return absl::WrapUnique(new OwnCollector(std::move(setup)));
  }
  CollectorFinishInfo GetFinishInfo() const override {
    calls().Add("GetFinishInfo");
    return ParallelCollectorCore::GetFinishInfo();
  }

 private:
  using ParallelCollectorCore::ParallelCollectorCore;

  absl::StatusOr<bool> UpdatePolicy(int player, absl::Duration timeout) override {
    calls().Add("UpdatePolicy");
    return ParallelCollectorCore::UpdatePolicy(player, timeout);
  }
  absl::Status PolicyInference(CollectMode* policy, const ColumnsView& obs,
                               absl::Span<const int> env_ids, const NamedValues& settings,
                               const MutableColumnsView& out) override {
    calls().Add("PolicyInference");
    return ParallelCollectorCore::PolicyInference(policy, obs, env_ids, settings, out);
  }
  absl::StatusOr<const Timesteps*> EnvStep(absl::Span<const int> env_ids,
                                           const ColumnsView& actions) override {
    calls().Add("EnvStep");
    DING_ASSIGN_OR_RETURN(const Timesteps* const timesteps,
                          ParallelCollectorCore::EnvStep(env_ids, actions));
    timesteps_ = *timesteps;
    rewards_.assign(timesteps->reward.begin(), timesteps->reward.end());
    for (float& reward : rewards_) reward *= 2;
    timesteps_.reward = rewards_;
    return &timesteps_;
  }
  absl::Status ProcessTimestep(const Timesteps& timesteps, CollectCore* core) override {
    calls().Add("ProcessTimestep");
    return ParallelCollectorCore::ProcessTimestep(timesteps, core);
  }
  absl::StatusOr<bool> NeedNewEpisode(int env_id) override {
    calls().Add("NeedNewEpisode");
    return ParallelCollectorCore::NeedNewEpisode(env_id);
  }
  absl::StatusOr<SegmentBatch> SelectRows(SegmentBatch data) override {
    calls().Add("SelectRows");
    return ParallelCollectorCore::SelectRows(std::move(data));
  }
  absl::Status IterAfterHook() override {
    calls().Add("IterAfterHook");
    return ParallelCollectorCore::IterAfterHook();
  }

  Timesteps timesteps_;
  std::vector<float> rewards_;
};

class OwnCommCollector : public BaseCommCollector {
 public:
  using BaseCommCollector::BaseCommCollector;

 private:
  absl::StatusOr<std::unique_ptr<TaskCollector>> CreateCollector(const CollectorTask& task,
                                                                 CollectorLink* link) override {
    calls().Add("CreateCollector");
    return BaseCommCollector::CreateCollector(task, link);
  }
  absl::StatusOr<PolicyUpdate> GetPolicyUpdateInfo(const PolicyVersion& version) override {
    calls().Add("GetPolicyUpdateInfo");
    return BaseCommCollector::GetPolicyUpdateInfo(version);
  }
  absl::Status SendStepData(int64_t chunk, const SegmentBatch& data) override {
    calls().Add("SendStepData");
    return BaseCommCollector::SendStepData(chunk, data);
  }
  absl::Status SendMetadata(std::string items, const CollectorProgress& progress) override {
    calls().Add("SendMetadata");
    return BaseCommCollector::SendMetadata(std::move(items), progress);
  }
};

// Its task fails if a row has a reward that was not doubled.
class OwnCommLearner : public BaseCommLearner {
 public:
  using BaseCommLearner::BaseCommLearner;

 private:
  absl::StatusOr<std::unique_ptr<TaskLearner>> CreateLearner(const LearnerTask& task,
                                                             GroupMember* group) override {
    calls().Add("CreateLearner");
    return BaseCommLearner::CreateLearner(task, group);
  }
  absl::StatusOr<std::vector<std::shared_ptr<LearnerHook>>> Hooks4Call() override {
    calls().Add("Hooks4Call");
    return BaseCommLearner::Hooks4Call();
  }
  absl::StatusOr<std::optional<BatchLoader>> GetData(DemandSource* source) override {
    calls().Add("GetData");
    DING_ASSIGN_OR_RETURN(const std::optional<BatchLoader> load, BaseCommLearner::GetData(source));
    if (!load.has_value()) return std::nullopt;
    return BatchLoader([load = *load]() -> absl::StatusOr<TrainData> {
      DING_ASSIGN_OR_RETURN(TrainData data, load());
      for (const float reward : data.batch.column<float>("reward")) {
        if (reward != 2) return absl::InternalError(absl::StrCat("a reward of ", reward));
      }
      return data;
    });
  }
  absl::Status SendPolicy(const PolicyVersion& version, const EncodedBatch& model) override {
    calls().Add("SendPolicy");
    return BaseCommLearner::SendPolicy(version, model);
  }
  absl::Status SendLearnInfo(LearnerInfo info) override {
    calls().Add("SendLearnInfo");
    return BaseCommLearner::SendLearnInfo(std::move(info));
  }
};

CommCollectorDescriptor CommCollector() {
  CommCollectorDescriptor descriptor;
  descriptor.check_params = TakesNoParams;
  descriptor.create = [](const GivenParams&, WorkerSession* session, Store* store,
                         TaskCollectorFactory factory) {
    return std::make_unique<OwnCommCollector>(session, store, std::move(factory));
  };
  return descriptor;
}

CommLearnerDescriptor CommLearner() {
  CommLearnerDescriptor descriptor;
  descriptor.check_params = TakesNoParams;
  descriptor.create = [](const GivenParams&, const CommLearnerOptions& options,
                         WorkerSession* session, Store* store, TaskLearnerFactory factory) {
    return std::make_unique<OwnCommLearner>(options, session, store, std::move(factory));
  };
  return descriptor;
}

DING_REGISTER(ParallelCollectorRegistry(), "own_steps",
              ParallelCollectorDescriptor{OwnCollector::Create}, "overrides each step");
DING_REGISTER(CommCollectorRegistry(), "own_steps", CommCollector(), "overrides each step");
DING_REGISTER(CommLearnerRegistry(), "own_steps", CommLearner(), "overrides each step");

TEST(OwnCommWorkersTest, AParallelRun_CallsEachStep) {
  DING_ASSERT_OK_AND_ASSIGN(
      const ExperimentConfig config,
      LoadExperimentConfig(
          "worker/configs/cartpole_dqn_parallel.textproto",
          {"max_train_iter=100", "env.stop_value=1000", "system.comm_collector_type=own_steps",
           "system.comm_learner_type=own_steps",
           "policy.collect.parallel_collector.type=own_steps"}));
  ASSERT_THAT(FindParallelProblems(config), IsEmpty());
  const std::unique_ptr<Store> store = create_store("mem:").value();
  InProcessTransport transport;
  ComponentDeps deps;
  deps.exp_dir = absl::StrCat(testing::TempDir(), "/own_comm_workers");
  calls().Take();
  const InProcessRun run = RunInProcess(config, deps, store.get(), &transport, &transport);
  EXPECT_THAT(run.end, IsOk());
  EXPECT_THAT(run.workers, IsOk());
  EXPECT_EQ(run.status.train_iter(), 100);
  std::map<std::string, int64_t> called = calls().Take();
  // Batches are demanded ahead, and collectors go on until they are closed.
  EXPECT_GE(called["GetData"], 100);
  EXPECT_EQ(called["CreateLearner"], 1);
  EXPECT_EQ(called["Hooks4Call"], 1);
  EXPECT_GE(called["SendMetadata"], called["SendStepData"]);
  EXPECT_GE(called["EnvStep"], called["ProcessTimestep"]);
  for (const char* const step :
       {"SendPolicy", "SendLearnInfo", "CreateCollector", "GetPolicyUpdateInfo", "SendStepData",
        "UpdatePolicy", "PolicyInference", "EnvStep", "ProcessTimestep", "NeedNewEpisode",
        "SelectRows", "IterAfterHook", "GetFinishInfo"}) {
    EXPECT_GT(called[step], 0) << step;
  }
}

}  // namespace
}  // namespace ding
