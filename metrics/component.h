// The services that every component gets besides its config: metric sink, clock, seed, folder of the
// run and instance name.
#ifndef DING_WORKER_METRICS_COMPONENT_H_
#define DING_WORKER_METRICS_COMPONENT_H_

#include <cstdint>
#include <memory>
#include <string>

#include "ding_worker/base/clock.h"
#include "ding_worker/metrics/sink.h"

namespace ding {

struct ComponentDeps {
  // All components of a run share it; never null.
  std::shared_ptr<MetricSink> metrics = std::make_shared<NullSink>();
  const Clock* clock = Clock::Real();
  // Components derive their random streams from it: Rng(seed, "<component>/<purpose>").
  uint64_t seed = 0;
  // The folder of the run, in which it writes all its files.
  std::string exp_dir = "default_experiment";
  // The name of the instance: the first part of metric tags ("collector_iter/reward_mean") and of log lines.
  std::string name;
};

}  // namespace ding

#endif  // DING_WORKER_METRICS_COMPONENT_H_
