// Registers SampleSerialCollector as "sample".
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/collector/sample_serial_collector.h"
#include "ding_worker/collector/serial.pb.h"
#include "ding_worker/collector/serial_collector.h"
#include "ding_worker/collector/serial_common.h"
#include "ding_worker/collector/serial_registry.h"
#include "ding_worker/env/env_manager.h"
#include "ding_worker/metrics/component.h"
#include "ding_worker/policy/policy.h"

namespace ding {
namespace {

absl::StatusOr<std::unique_ptr<ISerialCollector>> CreateSampleSerialCollector(
    const SerialCollectorConfig& config, EnvManager* env, CollectMode* policy,
    const ComponentDeps& deps) {
  SampleSerialCollector::Options options;
  options.collect_print_freq = config.collect_print_freq();
  options.max_abnormal = config.max_abnormal();
  if (config.has_params()) {
    std::vector<std::string> problems = options.Problems();
    problems.push_back("params are given, but type 'sample' has none of its own");
    return ProblemsToStatus(problems, deps.name);
  }
  return SampleSerialCollector::Create(options, env, policy, deps);
}

SerialCollectorDescriptor Descriptor() {
  SerialCollectorDescriptor descriptor;
  descriptor.name = "sample";
  descriptor.default_config.set_type("sample");
  descriptor.create = CreateSampleSerialCollector;
  return descriptor;
}

DING_REGISTER(SerialCollectorRegistry(), "sample", Descriptor());

}  // namespace
}  // namespace ding
