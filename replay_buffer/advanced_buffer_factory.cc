// Registers AdvancedReplayBuffer as the buffer "advanced".
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/replay_buffer/advanced_buffer.h"
#include "ding_worker/replay_buffer/advanced_buffer.pb.h"
#include "ding_worker/replay_buffer/buffer.h"
#include "ding_worker/replay_buffer/buffer.pb.h"
#include "ding_worker/replay_buffer/buffer_config.h"
#include "ding_worker/replay_buffer/buffer_registry.h"
#include "ding_worker/replay_buffer/storage/buffer_checks.h"

namespace ding {
namespace {

constexpr char kName[] = "advanced";

absl::StatusOr<std::unique_ptr<IBuffer>> CreateAdvancedBuffer(const BufferConfig& config,
                                                              const BufferDeps& deps) {
  AdvancedReplayBuffer::Options options;
  std::vector<std::string> config_problems;
  AdvancedBufferConfig params;
  ReadBufferConfig(config, &params, &config_problems);
  ReadCommonOptions(config, deps, &options, &config_problems);
  ReadPriorityOptions(params, &options);
  options.remover = ReadRemover(config, &config_problems);
  if (params.has_max_use()) options.max_use = params.max_use();
  if (params.has_max_staleness()) options.max_staleness = params.max_staleness();
  const ThruputControllerConfig& thruput = params.thruput_controller();
  options.thruput.max_push_sample_ratio = thruput.push_sample_rate_limit().max();
  options.thruput.min_push_sample_ratio = thruput.push_sample_rate_limit().min();
  options.thruput.window_seconds = thruput.window_seconds();
  options.sample_min_limit_ratio = thruput.sample_min_limit_ratio();
  options.max_wait = absl::Seconds(thruput.max_wait_seconds());
  const BufferMonitorConfig::SampledDataAttr& attr = params.monitor().sampled_data_attr();
  options.sampled_data_attr.average_range = attr.average_range();
  options.sampled_data_attr.print_freq = attr.print_freq();
  options.on_removed = deps.on_removed;

  std::vector<std::string> problems = AdvancedReplayBuffer::Problems(options);
  if (!(thruput.max_wait_seconds() >= 0)) {
    problems.push_back(
        absl::StrCat("max_wait_seconds is ", thruput.max_wait_seconds(), ", expected at least 0"));
  }
  problems.insert(problems.end(), config_problems.begin(), config_problems.end());
  DING_RETURN_IF_ERROR(BufferProblemsToStatus(options.name, problems));
  return AdvancedReplayBuffer::Create(options);
}

BufferDescriptor AdvancedBufferDescriptor() {
  BufferDescriptor descriptor;
  descriptor.name = kName;
  descriptor.default_config.set_type(kName);
  descriptor.default_config.set_replay_buffer_size(AdvancedReplayBuffer::Options().capacity_rows);
  descriptor.default_config.mutable_params()->PackFrom(AdvancedBufferConfig());
  descriptor.create = CreateAdvancedBuffer;
  descriptor.tells_removed_items = true;
  descriptor.takes_remover = true;
  return descriptor;
}

DING_REGISTER(BufferRegistry(), kName, AdvancedBufferDescriptor(),
              "transitions, drawn by priority; limits on use, staleness and rate",
              &AdvancedBufferConfig::descriptor);

}  // namespace
}  // namespace ding
