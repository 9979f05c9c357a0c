// Registers NaiveReplayBuffer as the buffer "naive".
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/metrics/component.h"
#include "ding_worker/replay_buffer/buffer.h"
#include "ding_worker/replay_buffer/buffer.pb.h"
#include "ding_worker/replay_buffer/buffer_registry.h"
#include "ding_worker/replay_buffer/naive_buffer.h"

namespace ding {
namespace {

constexpr char kName[] = "naive";

absl::StatusOr<std::unique_ptr<IBuffer>> CreateNaiveBuffer(const BufferConfig& config,
                                                           const ComponentDeps& deps) {
  NaiveReplayBuffer::Options options;
  options.capacity_rows = config.replay_buffer_size();
  options.nstep = config.nstep();
  options.gamma = config.discount_factor();
  options.metrics = deps.metrics;
  options.periodic_thruput_seconds = config.periodic_thruput_seconds();
  options.clock = deps.clock;
  options.seed = deps.seed;
  if (!deps.name.empty()) options.name = deps.name;
  absl::StatusOr<std::unique_ptr<NaiveReplayBuffer>> buffer = NaiveReplayBuffer::Create(options);
  std::string problems = buffer.ok() ? "" : std::string(buffer.status().message());
  if (config.has_params()) {
    absl::StrAppend(&problems, problems.empty() ? absl::StrCat(options.name, ": ") : "; ",
                    "params is ", config.params().type_url(), ", but type 'naive' has none");
  }
  if (!problems.empty()) return absl::InvalidArgumentError(problems);
  return std::unique_ptr<IBuffer>(*std::move(buffer));
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
