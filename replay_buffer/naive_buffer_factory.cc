// Registers NaiveReplayBuffer as the buffer "naive", and ElasticReplayBuffer as "elastic".

#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/replay_buffer/buffer.h"
#include "ding_worker/replay_buffer/buffer.pb.h"
#include "ding_worker/replay_buffer/buffer_registry.h"
#include "ding_worker/replay_buffer/elastic_buffer.pb.h"
#include "ding_worker/replay_buffer/naive_buffer.h"
#include "ding_worker/replay_buffer/storage/buffer_checks.h"

namespace ding {
namespace {

absl::StatusOr<std::unique_ptr<IBuffer>> CreateNaiveBuffer(const BufferConfig& config,
                                                           const NoParams& /*params*/,
                                                           const BufferDeps& deps) {
  NaiveReplayBuffer::Options options;
  std::vector<std::string> problems;
  ReadCommonOptions(config, deps, &options, &problems);
  options.on_removed = deps.on_removed;
  return CreateBuffer<NaiveReplayBuffer>(options, problems);
}

DING_REGISTER(BufferRegistry(), "naive",
              (BufferDescriptor{CreateNaiveBuffer, /*tells_removed_items=*/true}),
              "transitions, drawn uniformly: for most off-policy algorithms");

// start + (end - start) min(x / decay, 1), x in env steps.
struct LinearWindow {
  int64_t start;
  int64_t end;
  int64_t decay;

  int64_t operator()(int64_t envstep) const {
    if (envstep >= decay) return end;
    const double done = static_cast<double>(envstep) / static_cast<double>(decay);
    return start + std::llround(static_cast<double>(end - start) * done);
  }
};

absl::StatusOr<std::unique_ptr<IBuffer>> CreateElasticBuffer(const BufferConfig& config,
                                                             const ElasticBufferConfig& params,
                                                             const BufferDeps& deps) {
  ElasticReplayBuffer::Options options;
  std::vector<std::string> problems;
  ReadCommonOptions(config, deps, &options.ring, &problems);
  options.ring.on_removed = deps.on_removed;
  for (std::string& problem : NaiveReplayBuffer::Problems(options.ring)) {
    problems.push_back(std::move(problem));
  }
  const LinearWindow window = {
      params.window_start(),
      params.has_window_end() ? params.window_end() : config.replay_buffer_size(),
      params.decay_envsteps()};
  if (!params.has_window_end() && config.has_replay_buffer_bytes()) {
    problems.emplace_back("window_end is not set, expected with replay_buffer_bytes");
  }
  DING_RETURN_IF_ERROR(ProblemsToStatus(problems, options.ring.name));
  options.window_rows = window;
  return ElasticReplayBuffer::Create(std::move(options));
}

DING_REGISTER(BufferRegistry(), "elastic",
              (BufferDescriptor{CreateElasticBuffer, /*tells_removed_items=*/true}),
              "transitions, drawn uniformly from a window of the newest rows");

}  // namespace
}  // namespace ding
