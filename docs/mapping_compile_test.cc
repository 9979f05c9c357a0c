// Uses the symbols of docs/reference/mapping.md and di_engine_workers.md whose arguments matter, so
// that a row that names a symbol with other arguments does not compile. //docs:mapping_uses, which
// is made of the pages, uses all other symbols. A row of this file is a name of DI-engine and what
// stands for it; the test compares the names with docs/names.txt.
//
// To add a row: `{"Class.method", Uses([](Class* object) { return object->Method(1); })}`.
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_split.h"
#include "absl/types/span.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/collector/comm/collector_slave.h"
#include "ding_worker/collector/core/cache_pool.h"
#include "ding_worker/collector/serial_collector.h"
#include "ding_worker/collector/serial_evaluator.h"
#include "ding_worker/coordinator/commander/base_serial_commander.h"
#include "ding_worker/coordinator/commander/solo_commander.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/tensor.h"
#include "ding_worker/data/transition.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/learner/base_learner.h"
#include "ding_worker/learner/comm/item_loader.h"
#include "ding_worker/learner/learner.h"
#include "ding_worker/metrics/averages.h"
#include "ding_worker/policy/policy.h"
#include "ding_worker/replay_buffer/buffer.h"
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

Rows AllRows() {
  return {
      {"ISerialCollector.collect", Uses([](ISerialCollector* collector) {
         CollectOptions options;
         options.random_collect = true;
         return collector->Collect(options);
       })},
      {"CachePool.__init__", Uses([] { return CachePool<Tensor>("obs", 4, /*deepcopy=*/true); })},
      {"CachePool.update", Uses([](CachePool<int>* pool) { pool->Update(3, 1); },
                                [](CachePool<int>* pool) {
                                  pool->Update(std::map<int, int>{{0, 1}});
                                })},
      {"CachePool.__getitem__", Uses(&CachePool<int>::Get)},
      {"CachePool.reset", Uses(&CachePool<int>::Reset)},
      {"CollectorSlave", Uses(&CollectorSlave::NewerPolicy)},
      {"IBuffer.push",
       Uses([](IBuffer* buffer, const SegmentBatch& rows) { return buffer->Push(rows, 1); },
            [](IBuffer* buffer, const Transition& one) { return buffer->Push(one, 1); },
            [](IBuffer* buffer, absl::Span<const Transition> many) {
              return buffer->Push(many, 1);
            })},
      {"NaiveReplayBuffer.push",
       Uses([](NaiveReplayBuffer* buffer, const Transition& one) { return buffer->Push(one, 1); })},
      {"SequenceReplayBuffer.sample", Uses([](SequenceReplayBuffer* buffer) {
         SampleOptions options;
         options.sequence = 500;
         return buffer->Sample(64, 0, options);
       })},
      {"LoggedModel", Uses(&Monitor::Values, &Monitor::Step)},
      {"BaseLearner.__init__",
       Uses([] { return BaseLearner::Create({}, /*policy=*/nullptr, {}, {}); })},
      {"BaseLearner.policy", Uses(&BaseLearner::policy)},
      {"FlaskFileSystemLearner.load_data_fn", Uses(&ItemLoader::Load)},
      {"BaseSerialCommander.__init__",
       Uses([](ILearner* learner, ISerialCollector* collector, ISerialEvaluator* evaluator,
               IBuffer* buffer, CommandMode* policy) {
         return BaseSerialCommander(learner, collector, policy, evaluator, buffer);
       })},
      {"SoloCommander.finish_learner_task",
       Uses([](SoloCommander* commander, const LearnerTask& task) {
         const std::string buffer_id = commander->FinishLearnerTask(task);
         return buffer_id;
       })},
  };
}

TEST(MappingTest, EachRow_IsANameOfDiEngine) {
  DING_ASSERT_OK_AND_ASSIGN(const std::string text, ReadFile("docs/names.txt"));
  const std::set<std::string> names = absl::StrSplit(text, '\n', absl::SkipEmpty());
  std::set<std::string> seen;
  for (const auto& [name, used] : AllRows()) {
    EXPECT_TRUE(names.count(name) == 1) << name;
    EXPECT_TRUE(seen.insert(name).second) << name << " comes twice";
  }
}

}  // namespace
}  // namespace ding
