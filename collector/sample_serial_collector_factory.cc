// Registers SampleSerialCollector as "sample".
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "ding_worker/base/params.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/collector/serial.pb.h"
#include "ding_worker/collector/serial/sample_serial_collector.h"
#include "ding_worker/collector/serial_collector.h"
#include "ding_worker/collector/serial_config.h"
#include "ding_worker/collector/serial_registry.h"
#include "ding_worker/env/env_manager.h"
#include "ding_worker/metrics/component.h"
#include "ding_worker/policy/policy.h"

namespace ding {
namespace {

constexpr char kName[] = "sample";

absl::StatusOr<std::unique_ptr<ISerialCollector>> CreateSampleSerialCollector(
    const SerialCollectorConfig& config, EnvManager* env, CollectMode* policy,
    const ComponentDeps& deps) {
  std::vector<std::string> problems;
  SampleSerialCollector::Options options;
  ReadSerialCollectorOptions(config, &options);
  ReadParams(config, /*params=*/nullptr, &problems);
  DING_RETURN_IF_ERROR(SerialProblemsToStatus(std::move(problems), options.Problems(), deps.name));
  return SampleSerialCollector::Create(options, env, policy, deps);
}

SerialCollectorDescriptor Descriptor() {
  SerialCollectorDescriptor descriptor;
  descriptor.name = kName;
  descriptor.default_config.set_type(kName);
  descriptor.create = CreateSampleSerialCollector;
  return descriptor;
}

DING_REGISTER(SerialCollectorRegistry(), kName, Descriptor(),
              "collects n_sample rows; the next collect goes on with the episodes");

}  // namespace
}  // namespace ding
