// A parallel collector: "warm_up" is "zergling", but explores at first and does not send these rows
// of each task.
//   parallel_collector { type: "warm_up" params { [type.googleapis.com/own.WarmUpParams] { rows: 100 } } }
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ding_worker/base/log.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/collector/parallel/parallel_collector_core.h"
#include "ding_worker/collector/parallel_registry.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/named_values.h"
#include "ding_worker/policy/policy.h"
#include "own_modules.pb.h"

namespace own {
namespace {

class WarmUpCollector : public ding::ParallelCollectorCore {
 public:
  static absl::StatusOr<std::unique_ptr<ding::BaseParallelCollector>> Create(
      const ding::ParallelCollectorConfig& config, const WarmUpParams& params,
      const ding::ParallelCollectorTask& task, const ding::ParallelCollectorParts& parts,
      const ding::ComponentDeps& deps) {
    DING_ASSIGN_OR_RETURN(Setup setup,
                          Prepare(ding::ReadParallelCollectorOptions(config), task, parts, deps,
                                  {{parts.collect_mode, /*updates=*/true}}));
    return absl::WrapUnique(new WarmUpCollector(std::move(setup), params.rows()));
  }

 private:
  WarmUpCollector(Setup setup, int64_t rows)
      : ParallelCollectorCore(std::move(setup)), left_(rows) {}

  // Called once for all envs of a step. DQN takes every action at random with eps 1.
  absl::Status PolicyInference(ding::CollectMode* policy, const ding::ColumnsView& obs,
                               absl::Span<const int> env_ids, const ding::NamedValues& settings,
                               const ding::MutableColumnsView& out) override {
    if (left_ <= 0) {
      return ParallelCollectorCore::PolicyInference(policy, obs, env_ids, settings, out);
    }
    ++steps_;
    ding::NamedValues explores = settings;
    explores.Set("eps", 1);
    return ParallelCollectorCore::PolicyInference(policy, obs, env_ids, explores, out);
  }

  // Called with all rows that are due.
  absl::StatusOr<ding::SegmentBatch> SelectRows(ding::SegmentBatch data) override {
    if (left_ <= 0) return data;
    left_ -= data.rows.rows();
    DING_LOG(INFO) << "warm_up: " << data.rows.rows() << " rows of " << steps_
                   << " steps are not sent";
    return ding::SegmentBatch();
  }

  int64_t left_;  // rows that are not to be sent
  int64_t steps_ = 0;
};

DING_REGISTER(ding::ParallelCollectorRegistry(), "warm_up",
              ding::ParallelCollectorDescriptor{WarmUpCollector::Create},
              "zergling that explores at first and does not send these rows");

}  // namespace
}  // namespace own
