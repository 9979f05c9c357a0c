// What every worker is given beside its config: where measurements go, what time it is, where
// randomness comes from, and what it is called.
#ifndef DING_WORKER_METRICS_COMPONENT_H_
#define DING_WORKER_METRICS_COMPONENT_H_

#include <cstdint>
#include <memory>
#include <string>

#include "ding_worker/base/clock.h"
#include "ding_worker/metrics/sink.h"

namespace ding {

struct ComponentDeps {
  // Shared by all components of a run; never null.
  std::shared_ptr<MetricSink> metrics = std::make_shared<NullSink>();
  const Clock* clock = Clock::Real();
  // Components derive their streams from it: Rng(seed, "<component>/<purpose>").
  uint64_t seed = 0;
  // The folder of the run: the parent of everything that it writes.
  std::string exp_dir = "default_experiment";
  // Instance name: first part of metric tags ("collector_iter/reward_mean") and of log lines.
  std::string name;
};

}  // namespace ding

#endif  // DING_WORKER_METRICS_COMPONENT_H_
