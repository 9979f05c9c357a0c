// Uses the symbols of docs/reference/mapping.md and di_engine_workers.md, so that a row that names
// a symbol which is gone, or has other arguments, does not compile. A row of this file is a name of
// DI-engine and what stands for it; the test compares the names with docs/names.txt.
//
// To add a row: `{"Class.method", Uses(&Class::Method)}`. An overloaded function, or one whose
// arguments matter, is a lambda that calls it: `Uses([](Class* object) { return object->Method(1);
// })`.
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_split.h"
#include "absl/types/span.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/collector/comm/base_comm_collector.h"
#include "ding_worker/collector/comm/collector_slave.h"
#include "ding_worker/collector/core/cache_pool.h"
#include "ding_worker/collector/core/traj_buffer.h"
#include "ding_worker/collector/evaluator/interaction_serial_evaluator.h"
#include "ding_worker/collector/evaluator/metric_serial_evaluator.h"
#include "ding_worker/collector/evaluator/vector_eval_monitor.h"
#include "ding_worker/collector/parallel/base_parallel_collector.h"
#include "ding_worker/collector/parallel/parallel_collector_core.h"
#include "ding_worker/collector/serial/serial_collectors.h"
#include "ding_worker/collector/serial_collector.h"
#include "ding_worker/collector/serial_evaluator.h"
#include "ding_worker/coordinator/commander/base_serial_commander.h"
#include "ding_worker/coordinator/commander/solo_commander.h"
#include "ding_worker/coordinator/coordinator.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/tensor.h"
#include "ding_worker/data/transition.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/learner/base_learner.h"
#include "ding_worker/learner/comm/base_comm_learner.h"
#include "ding_worker/learner/comm/demand_source.h"
#include "ding_worker/learner/comm/item_loader.h"
#include "ding_worker/learner/comm/learner_slave.h"
#include "ding_worker/learner/learner.h"
#include "ding_worker/metrics/averages.h"
#include "ding_worker/policy/policy.h"
#include "ding_worker/replay_buffer/advanced_buffer.h"
#include "ding_worker/replay_buffer/buffer.h"
#include "ding_worker/replay_buffer/monitors/sampled_data_attr_monitor.h"
#include "ding_worker/replay_buffer/naive_buffer.h"
#include "ding_worker/replay_buffer/sequence_buffer.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

// What a row names exists, if the row compiles.
struct Used {};
template <typename... Symbols>
Used Uses(const Symbols&...) {
  return {};
}

using Rows = std::vector<std::pair<std::string, Used>>;

// The steps that a collector of one's own overrides.
struct CollectorSteps : ParallelCollectorCore {
  using ParallelCollectorCore::EnvStep;
  using ParallelCollectorCore::IterAfterHook;
  using ParallelCollectorCore::NeedNewEpisode;
  using ParallelCollectorCore::PolicyInference;
  using ParallelCollectorCore::ProcessTimestep;
  using ParallelCollectorCore::UpdatePolicy;
};

struct CommCollectorSteps : BaseCommCollector {
  using BaseCommCollector::CreateCollector;
  using BaseCommCollector::GetPolicyUpdateInfo;
  using BaseCommCollector::SendMetadata;
  using BaseCommCollector::SendStepData;
};
struct CommLearnerSteps : BaseCommLearner {
  using BaseCommLearner::CreateLearner;
  using BaseCommLearner::GetData;
  using BaseCommLearner::Hooks4Call;
  using BaseCommLearner::SendLearnInfo;
  using BaseCommLearner::SendPolicy;
};

Rows Collectors() {
  return {
      {"ISerialCollector.collect", Uses([](ISerialCollector* collector) {
         CollectOptions options;
         options.random_collect = true;
         return collector->Collect(options);
       })},
      {"collect.random_collect", Uses(&CollectOptions::random_collect)},
      {"SampleSerialCollector.close", Uses(&SampleSerialCollector::Close)},
      {"EpisodeSerialCollector.close", Uses(&EpisodeSerialCollector::Close)},
      {"BattleSampleSerialCollector.close", Uses(&BattleSampleSerialCollector::Close)},
      {"BattleEpisodeSerialCollector.close", Uses(&BattleEpisodeSerialCollector::Close)},
      {"CachePool.__init__", Uses([] { return CachePool<Tensor>("obs", 4, /*deepcopy=*/true); })},
      {"CachePool.update", Uses([](CachePool<int>* pool) { pool->Update(3, 1); },
                                [](CachePool<int>* pool) {
                                  pool->Update(std::map<int, int>{{0, 1}});
                                })},
      {"CachePool.__getitem__", Uses(&CachePool<int>::Get)},
      {"CachePool.reset", Uses(&CachePool<int>::Reset)},
      {"TrajBuffer.__init__",
       Uses(&TrajBuffer::Options::maxlen, &SampleSerialCollector::Options::traj_len)},
      {"TrajBuffer.append", Uses(&TrajBuffer::Append)},
      {"to_tensor_transitions", Uses(&MakeSegments)},
      {"BaseParallelCollector.get_finish_info", Uses(&BaseParallelCollector::GetFinishInfo)},
      {"BaseParallelCollector._policy_inference", Uses(&CollectorSteps::PolicyInference)},
      {"BaseParallelCollector._env_step", Uses(&CollectorSteps::EnvStep)},
      {"BaseParallelCollector._process_timestep",
       Uses(&CollectorSteps::ProcessTimestep, &CollectorSteps::NeedNewEpisode)},
      {"BaseParallelCollector._update_policy", Uses(&CollectorSteps::UpdatePolicy)},
      {"BaseParallelCollector._iter_after_hook", Uses(&CollectorSteps::IterAfterHook)},
      {"BaseCommCollector.start", Uses(&BaseCommCollector::Run)},
      {"BaseCommCollector.close", Uses(&BaseCommCollector::Close)},
      {"BaseCommCollector.get_policy_update_info", Uses(&CommCollectorSteps::GetPolicyUpdateInfo)},
      {"BaseCommCollector.send_metadata", Uses(&CommCollectorSteps::SendMetadata)},
      {"BaseCommCollector.send_stepdata", Uses(&CommCollectorSteps::SendStepData)},
      {"BaseCommCollector._create_collector", Uses(&CommCollectorSteps::CreateCollector)},
      {"CollectorSlave", Uses(&CollectorSlave::Announce, &CollectorSlave::NewerPolicy)},
  };
}

Rows Evaluators() {
  return {
      {"ISerialEvaluator.close", Uses(&ISerialEvaluator::Close)},
      {"InteractionSerialEvaluator.close", Uses(&InteractionSerialEvaluator::Close)},
      {"BattleInteractionSerialEvaluator.close", Uses(&BattleInteractionSerialEvaluator::Close)},
      {"MetricSerialEvaluator.close", Uses(&MetricSerialEvaluator::Close)},
      {"VectorEvalMonitor.__init__", Uses(&VectorEvalMonitor::Create)},
      {"VectorEvalMonitor.is_finished", Uses(&VectorEvalMonitor::is_finished)},
      {"VectorEvalMonitor.update_info", Uses(&VectorEvalMonitor::UpdateInfo)},
      {"VectorEvalMonitor.update_reward", Uses(&VectorEvalMonitor::UpdateReward)},
      {"VectorEvalMonitor.update_video", Uses(&VectorEvalMonitor::UpdateVideo)},
      {"VectorEvalMonitor.get_video", Uses(&VectorEvalMonitor::GetVideo)},
      {"VectorEvalMonitor.get_latest_reward", Uses(&VectorEvalMonitor::GetLatestReward)},
      {"VectorEvalMonitor.get_episode_return", Uses(&VectorEvalMonitor::GetEpisodeReturn)},
      {"VectorEvalMonitor.get_episode_info", Uses(&VectorEvalMonitor::GetEpisodeInfo)},
      {"VectorEvalMonitor.get_current_episode", Uses(&VectorEvalMonitor::current_episode)},
  };
}

Rows Buffers() {
  return {
      {"IBuffer.push",
       Uses([](IBuffer* buffer, const SegmentBatch& rows) { return buffer->Push(rows, 1); },
            [](IBuffer* buffer, const Transition& one) { return buffer->Push(one, 1); },
            [](IBuffer* buffer, absl::Span<const Transition> many) {
              return buffer->Push(many, 1);
            })},
      {"NaiveReplayBuffer.push",
       Uses([](NaiveReplayBuffer* buffer, const Transition& one) { return buffer->Push(one, 1); })},
      {"NaiveReplayBuffer.close", Uses(&NaiveReplayBuffer::Close)},
      {"AdvancedReplayBuffer.close", Uses(&AdvancedReplayBuffer::Close)},
      {"SequenceReplayBuffer.sample", Uses([](SequenceReplayBuffer* buffer) {
         SampleOptions options;
         options.sequence = 500;
         return buffer->Sample(64, 0, options);
       })},
      {"SampledDataAttrMonitor",
       Uses(&SampledDataAttrMonitor::RegisterAttributeValue, &SampledDataAttrMonitor::GetAttribute,
            &SampledDataAttrMonitor::current_time, &SampledDataAttrMonitor::fixed_time,
            &SampledDataAttrMonitor::Freeze, &SampledDataAttrMonitor::Unfreeze)},
      {"LoggedModel", Uses(&Monitor::RegisterAttributeValue, &Monitor::Values, &Monitor::Step)},
  };
}

Rows Learners() {
  return {
      {"BaseLearner.__init__",
       Uses([] { return BaseLearner::Create({}, /*policy=*/nullptr, {}, {}); })},
      {"BaseLearner.policy", Uses(&BaseLearner::policy, &BaseLearner::ResetPolicy)},
      {"BaseLearner.save_checkpoint", Uses(&BaseLearner::SaveCheckpoint)},
      {"BaseLearner.close", Uses(&BaseLearner::Close)},
      {"BaseCommLearner.start", Uses(&BaseCommLearner::Run)},
      {"BaseCommLearner.close", Uses(&BaseCommLearner::Close)},
      {"BaseCommLearner.get_data", Uses(&CommLearnerSteps::GetData, &DemandSource::Next)},
      {"BaseCommLearner.send_policy", Uses(&CommLearnerSteps::SendPolicy)},
      {"BaseCommLearner.send_learn_info", Uses(&CommLearnerSteps::SendLearnInfo)},
      {"BaseCommLearner.hooks4call", Uses(&CommLearnerSteps::Hooks4Call)},
      {"BaseCommLearner._create_learner", Uses(&CommLearnerSteps::CreateLearner)},
      {"LearnerSlave", Uses(&LearnerSlave::Demand, &LearnerSlave::NextData)},
      {"FlaskFileSystemLearner.load_data_fn", Uses(&ItemLoader::Load)},
  };
}

Rows Commanders() {
  return {
      {"BaseSerialCommander.__init__",
       Uses([](ILearner* learner, ISerialCollector* collector, ISerialEvaluator* evaluator,
               IBuffer* buffer, CommandMode* policy) {
         return BaseSerialCommander(learner, collector, policy, evaluator, buffer);
       })},
      {"BaseSerialCommander.step", Uses(&BaseSerialCommander::Step)},
      {"SoloCommander.finish_learner_task",
       Uses([](SoloCommander* commander, const LearnerTask& task) {
         const std::string buffer_id = commander->FinishLearnerTask(task);
         return buffer_id;
       })},
  };
}

Rows Coordinators() {
  return {
      {"Coordinator.deal_with_collector_send_data", Uses(&Coordinator::DealWithCollectorSendData)},
      {"Coordinator.deal_with_collector_judge_finish",
       Uses(&Coordinator::DealWithCollectorJudgeFinish)},
      {"Coordinator.deal_with_collector_finish_task",
       Uses(&Coordinator::DealWithCollectorFinishTask)},
      {"Coordinator.deal_with_learner_get_data", Uses(&Coordinator::DealWithLearnerGetData)},
      {"Coordinator.deal_with_learner_send_info", Uses(&Coordinator::DealWithLearnerSendInfo)},
      {"Coordinator.deal_with_learner_judge_finish",
       Uses(&Coordinator::DealWithLearnerJudgeFinish)},
      {"Coordinator.deal_with_learner_finish_task", Uses(&Coordinator::DealWithLearnerFinishTask)},
      {"Coordinator.deal_with_increase_collector", Uses(&Coordinator::DealWithIncreaseCollector)},
      {"Coordinator.deal_with_decrease_collector", Uses(&Coordinator::DealWithDecreaseCollector)},
      {"Coordinator.system_shutdown_flag", Uses(&Coordinator::system_shutdown_flag)},
  };
}

TEST(MappingTest, EachRow_IsANameOfDiEngine) {
  DING_ASSERT_OK_AND_ASSIGN(const std::string text, ReadFile("docs/names.txt"));
  const std::set<std::string> names = absl::StrSplit(text, '\n', absl::SkipEmpty());
  std::set<std::string> seen;
  for (const Rows& rows :
       {Collectors(), Evaluators(), Buffers(), Learners(), Commanders(), Coordinators()}) {
    for (const auto& [name, used] : rows) {
      EXPECT_TRUE(names.count(name) == 1) << name;
      EXPECT_TRUE(seen.insert(name).second) << name << " comes twice";
    }
  }
}

}  // namespace
}  // namespace ding
