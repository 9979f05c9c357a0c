// A parallel collector: "warm_up" is "zergling", but does not send the first rows of each task.
//   parallel_collector { type: "warm_up" params { [type.googleapis.com/own.WarmUpParams] { rows: 100 } } }
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/memory/memory.h"
#include "ding_worker/base/log.h"
#include "ding_worker/base/params.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/collector/parallel/parallel_collector_core.h"
#include "ding_worker/collector/parallel/parallel_config.h"
#include "ding_worker/collector/parallel_registry.h"
#include "own_modules.pb.h"

namespace own {
namespace {

class WarmUpCollector : public ding::ParallelCollectorCore {
 public:
  static absl::StatusOr<std::unique_ptr<ding::BaseParallelCollector>> Create(
      const ding::ParallelCollectorConfig& config, const ding::ParallelCollectorTask& task,
      const ding::ParallelCollectorParts& parts, const ding::ComponentDeps& deps) {
    WarmUpParams params;
    DING_RETURN_IF_ERROR(ding::ReadParams(config, &params));
    DING_ASSIGN_OR_RETURN(Setup setup,
                          Prepare(ding::ReadParallelCollectorOptions(config), task, parts, deps,
                                  {{parts.collect_mode, /*updates=*/true}}));
    return absl::WrapUnique(new WarmUpCollector(std::move(setup), params.rows()));
  }

 private:
  WarmUpCollector(Setup setup, int64_t rows)
      : ParallelCollectorCore(std::move(setup)), left_(rows) {}

  // Called with all rows that are due.
  absl::StatusOr<ding::SegmentBatch> SelectRows(ding::SegmentBatch data) override {
    if (left_ <= 0) return data;
    left_ -= data.rows.rows();
    DING_LOG(INFO) << "warm_up: " << data.rows.rows() << " rows are not sent";
    return ding::SegmentBatch();
  }

  int64_t left_;  // rows that are not to be sent
};

ding::ParallelCollectorDescriptor Descriptor() {
  ding::ParallelCollectorDescriptor descriptor;
  descriptor.name = "warm_up";
  descriptor.default_config.set_type("warm_up");
  descriptor.check_params = ding::TakesParams<WarmUpParams>;
  descriptor.create = WarmUpCollector::Create;
  return descriptor;
}

DING_REGISTER(ding::ParallelCollectorRegistry(), "warm_up", Descriptor(),
              "zergling that does not send the first rows of a task", &WarmUpParams::descriptor);

}  // namespace
}  // namespace own
