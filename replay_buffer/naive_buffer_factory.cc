// Registers NaiveReplayBuffer as the buffer "naive".
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/metrics/component.h"
#include "ding_worker/replay_buffer/buffer.h"
#include "ding_worker/replay_buffer/buffer.pb.h"
#include "ding_worker/replay_buffer/buffer_checks.h"
#include "ding_worker/replay_buffer/buffer_config.h"
#include "ding_worker/replay_buffer/buffer_registry.h"
#include "ding_worker/replay_buffer/naive_buffer.h"

namespace ding {
namespace {

constexpr char kName[] = "naive";

absl::StatusOr<std::unique_ptr<IBuffer>> CreateNaiveBuffer(const BufferConfig& config,
                                                           const ComponentDeps& deps) {
  NaiveReplayBuffer::Options options;
  ReadCapacity(config, &options);
  options.nstep = config.nstep();
  options.gamma = config.discount_factor();
  options.metrics = deps.metrics;
  options.periodic_thruput_seconds = config.periodic_thruput_seconds();
  options.clock = deps.clock;
  options.seed = deps.seed;
  if (!deps.name.empty()) options.name = deps.name;
  std::vector<std::string> problems;
  AppendRingProblems({options.capacity_rows, options.capacity_bytes}, options.nstep, options.gamma,
                     &problems);
  ReadBufferConfig(config, /*params=*/nullptr, &problems);
  DING_RETURN_IF_ERROR(BufferProblemsToStatus(options.name, problems));
  return NaiveReplayBuffer::Create(options);
}

BufferDescriptor NaiveBufferDescriptor() {
  BufferDescriptor descriptor;
  descriptor.name = kName;
  descriptor.default_config.set_type(kName);
  descriptor.create = CreateNaiveBuffer;
  return descriptor;
}

DING_REGISTER(BufferRegistry(), kName, NaiveBufferDescriptor());

}  // namespace
}  // namespace ding
