// Registers AdvancedReplayBuffer as the buffer "advanced", and the types of "deque".

#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/sample_columns.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/state.h"
#include "ding_worker/replay_buffer/advanced_buffer.h"
#include "ding_worker/replay_buffer/advanced_buffer.pb.h"
#include "ding_worker/replay_buffer/buffer.h"
#include "ding_worker/replay_buffer/buffer.pb.h"
#include "ding_worker/replay_buffer/buffer_registry.h"
#include "ding_worker/replay_buffer/deque_buffer.pb.h"
#include "ding_worker/replay_buffer/naive_buffer.h"
#include "ding_worker/replay_buffer/storage/buffer_checks.h"

namespace ding {
namespace {

absl::StatusOr<std::unique_ptr<IBuffer>> CreateAdvancedBuffer(const BufferConfig& config,
                                                              const AdvancedBufferConfig& params,
                                                              const BufferDeps& deps) {
  AdvancedReplayBuffer::Options options;
  std::vector<std::string> problems;
  ReadCommonOptions(config, deps, &options, &problems);
  ReadPriorityOptions(params, &options);
  options.remover = ReadRemover(config, &problems);
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
  return CreateBuffer<AdvancedReplayBuffer>(options, problems);
}

DING_REGISTER(BufferRegistry(), "advanced",
              (BufferDescriptor{CreateAdvancedBuffer, /*tells_removed_items=*/true,
                                /*takes_remover=*/true}),
              "transitions, drawn by priority; limits on use, staleness and rate");

// The buffer "deque": the settings of DI-engine's DequeBufferWrapper, made of
//   NaiveReplayBuffer     without `priority` and `max_use`
//   AdvancedReplayBuffer  with one of them; without `priority` all priorities count the same

// A buffer whose updates give no priority above a limit.
class PriorityLimit : public IBuffer {
 public:
  PriorityLimit(std::unique_ptr<IBuffer> inner, float limit)
      : inner_(std::move(inner)), limit_(limit) {}

  absl::Status Push(const SegmentBatch& data, int64_t cur_collector_envstep) override {
    return inner_->Push(data, cur_collector_envstep);
  }
  absl::StatusOr<Batch> Sample(int64_t size, int64_t cur_learner_iter,
                               const SampleOptions& options) override {
    return inner_->Sample(size, cur_learner_iter, options);
  }
  absl::Status Update(const PriorityInfo& info) override {
    PriorityInfo limited = info;
    for (float& priority : limited.priority) {
      // NaN and infinity stay as they are, and the inner buffer refuses them.
      if (std::isfinite(priority) && priority > limit_) priority = limit_;
    }
    return inner_->Update(limited);
  }
  void Clear() override { inner_->Clear(); }
  absl::Status Close() override { return inner_->Close(); }
  int64_t count() const override { return inner_->count(); }
  int64_t push_count() const override { return inner_->push_count(); }
  std::string lost_rows() const override { return inner_->lost_rows(); }
  StateSnapshot Snapshot() const override { return inner_->Snapshot(); }
  absl::Status LoadState(StateReader* reader) override { return inner_->LoadState(reader); }

 private:
  const std::unique_ptr<IBuffer> inner_;
  const float limit_;
};

AdvancedReplayBuffer::Options PrioritizedOptions(const BufferConfig& config,
                                                 const DequeBufferConfig& params,
                                                 const BufferDeps& deps,
                                                 std::vector<std::string>* problems) {
  AdvancedReplayBuffer::Options options;
  ReadCommonOptions(config, deps, &options, problems);
  options.capacity_rows = config.replay_buffer_size();
  options.on_removed = deps.on_removed;
  options.alpha = params.priority() ? params.priority_power_factor() : 0;
  options.beta = params.priority_is_weight() ? params.is_weight_power_factor() : 0;
  options.anneal_step = params.priority_is_weight() ? params.is_weight_anneal_train_iter() : 0;
  if (params.has_max_use()) options.max_use = params.max_use();
  // Each line is of one draw, as in the original.
  options.sampled_data_attr.average_range = 1;
  options.sampled_data_attr.print_freq = params.train_iter_per_log();
  return options;
}

absl::StatusOr<std::unique_ptr<IBuffer>> CreateDequeBuffer(const BufferConfig& config,
                                                           const DequeBufferConfig& params,
                                                           const BufferDeps& deps) {
  std::vector<std::string> problems;
  const AdvancedReplayBuffer::Options options = PrioritizedOptions(config, params, deps, &problems);
  if (params.priority_is_weight() && !params.priority()) {
    problems.emplace_back("priority_IS_weight is true, expected only with priority");
  }
  for (std::string& problem : AdvancedReplayBuffer::Problems(options)) {
    problems.push_back(std::move(problem));
  }
  DING_RETURN_IF_ERROR(ProblemsToStatus(problems, options.name));
  if (!params.priority() && !params.has_max_use()) {
    NaiveReplayBuffer::Options naive;
    BufferConfig in_memory = config;
    in_memory.clear_storage();
    in_memory.clear_path();
    ReadCommonOptions(in_memory, deps, &naive, &problems);
    DING_RETURN_IF_ERROR(ProblemsToStatus(problems, options.name));
    naive.files = options.files;  // The folder is open already.
    naive.on_removed = deps.on_removed;
    return NaiveReplayBuffer::Create(naive);
  }
  DING_ASSIGN_OR_RETURN(std::unique_ptr<IBuffer> buffer, AdvancedReplayBuffer::Create(options));
  return std::make_unique<PriorityLimit>(std::move(buffer),
                                         static_cast<float>(params.priority_max_limit()));
}

DING_REGISTER(BufferRegistry(), "deque",
              (BufferDescriptor{CreateDequeBuffer, /*tells_removed_items=*/true}),
              "transitions, drawn uniformly or by priority; the settings of DI-engine's deque");

}  // namespace
}  // namespace ding
