// Collects a given number of whole episodes: exactly as many begin and finish in one Collect(). For
// algorithms that learn from episodes (policy gradients, hindsight, imitation).
//
// Returns one segment per episode, in the order in which they began. No segment ends as kCut, and all rows
// of an episode have the same `collect_iter`. CollectOptions::target and n_episode of the policy count
// episodes, at least one per env; drop_extra has no effect, because there are no extra episodes. An
// abnormal episode is dropped and replaced by another one.
//
// After a failure all episodes of that Collect() are dropped; the next Collect() resets the envs that were
// within an episode.
//
// Metrics, every collect_print_freq train iterations if an episode has finished: those of
// docs/collector.md.
//
// Ownership, threads, errors: as ISerialCollector.
//
// Example:
//   DING_ASSIGN_OR_RETURN(auto collector,
//                         EpisodeSerialCollector::Create({}, &envs, policy->collect_mode(), deps));
//   CollectOptions options;
//   options.target = 16;
//   DING_ASSIGN_OR_RETURN(const SegmentBatch episodes, collector->Collect(options));
#ifndef DING_WORKER_COLLECTOR_SERIAL_EPISODE_SERIAL_COLLECTOR_H_
#define DING_WORKER_COLLECTOR_SERIAL_EPISODE_SERIAL_COLLECTOR_H_

#include <cstdint>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ding_worker/collector/core/collect_core.h"
#include "ding_worker/collector/core/collect_episodes.h"
#include "ding_worker/collector/core/reward_shaping.h"
#include "ding_worker/collector/serial_collector.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/state.h"
#include "ding_worker/env/env_manager.h"
#include "ding_worker/metrics/component.h"
#include "ding_worker/policy/policy.h"

namespace ding {

class EpisodeSerialCollector : public ISerialCollector {
 public:
  struct Options : SerialCollectorOptions {
    // Whether to pass the episodes through GetTrainSample() of the policy.
    bool get_train_sample = false;
    // If set, changes the rewards of each finished episode.
    RewardShaping reward_shaping;
  };

  // Launches `env` if it is not launched.
  //   kInvalidArgument  lists all problems: options, a null env or policy, or ones that do not fit
  static absl::StatusOr<std::unique_ptr<EpisodeSerialCollector>> Create(Options options,
                                                                        EnvManager* env,
                                                                        CollectMode* policy,
                                                                        ComponentDeps deps);

  // SampleSerialCollector has these declarations, too: a class declares its overrides itself. What both do is
  // written once, in CollectCore.
  absl::Status ResetEnv(EnvManager* env) override;
  absl::Status ResetPolicy(CollectMode* policy) override;
  absl::Status Reset(CollectMode* policy, EnvManager* env) override;
  absl::Status DropEpisodes(absl::Span<const int> env_ids) override;
  absl::StatusOr<SegmentBatch> Collect(const CollectOptions& options) override;

  int64_t envstep() const override { return core_->envstep(); }
  void set_envstep(int64_t envstep) override { core_->set_envstep(envstep); }
  int64_t total_episode_count() const override { return core_->total_episode_count(); }
  std::optional<double> recent_return() const override { return core_->recent_return(); }

  absl::Status SaveState(StateWriter* writer) const override;
  absl::Status LoadState(StateReader* reader) override;

 private:
  EpisodeSerialCollector(Options options, std::unique_ptr<CollectCore> core);

  const std::unique_ptr<CollectCore> core_;
  EpisodeCollection collection_;
};

}  // namespace ding

#endif  // DING_WORKER_COLLECTOR_SERIAL_EPISODE_SERIAL_COLLECTOR_H_
