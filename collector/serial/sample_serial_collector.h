// Collects a given number of samples: steps all ready envs until it has enough of them. For off-policy
// algorithms and on-policy ones like PPO.
//
//     env manager ──ready_obs──► TrajBuffer's next rows ──► policy writes its outputs into them
//          ▲                           │                                    │
//          └────────── Step(actions: a view of those rows) ◄────────────────┘
//
// Every row is returned by the Collect() that made it. A segment whose episode continues ends as kCut, and
// buffers link it to its successor later. With CollectAttributes::traj_len_inf the rows of an episode are
// returned when it is over; if the policy is on_policy, the rest is dropped at the end of Collect().
// CollectAttributes::unroll_len is the length of a sample, and so says when there are enough rows
// (collector/core/collect_rows.h). It does not cut segments: GetTrainSample() of the policy does, or a
// buffer draws sequences along the links.
//
// An abnormal step is not counted and drops the rows of its episode that were not returned yet.
//
// Metrics, every collect_print_freq train iterations if an episode has finished: those of
// docs/collector.md, as "<name>_iter/<metric>" and "<name>_step/<metric>", and a line in the log.
//
// Ownership, threads, errors: as ISerialCollector.
//
// Example:
//   DING_ASSIGN_OR_RETURN(auto collector,
//                         SampleSerialCollector::Create({}, &envs, policy->collect_mode(), deps));
//   CollectOptions options;
//   options.target = 64;
//   DING_ASSIGN_OR_RETURN(const SegmentBatch data, collector->Collect(options));
#ifndef DING_WORKER_COLLECTOR_SERIAL_SAMPLE_SERIAL_COLLECTOR_H_
#define DING_WORKER_COLLECTOR_SERIAL_SAMPLE_SERIAL_COLLECTOR_H_

#include <cstdint>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ding_worker/collector/core/collect_core.h"
#include "ding_worker/collector/core/collect_rows.h"
#include "ding_worker/collector/serial_collector.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/state.h"
#include "ding_worker/env/env_manager.h"
#include "ding_worker/metrics/component.h"
#include "ding_worker/policy/policy.h"

namespace ding {

class SampleSerialCollector : public ISerialCollector {
 public:
  using Options = SerialCollectorOptions;

  // Launches `env` if it is not launched.
  //   kInvalidArgument  lists all problems: options, a null env or policy, or ones that do not fit
  static absl::StatusOr<std::unique_ptr<SampleSerialCollector>> Create(Options options,
                                                                       EnvManager* env,
                                                                       CollectMode* policy,
                                                                       ComponentDeps deps);

  // EpisodeSerialCollector has these declarations, too: a class declares its overrides itself. What both do is
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
  // The number of samples returned so far; with an unroll_len of 1, of rows.
  int64_t total_train_sample_count() const { return core_->total_train_sample_count(); }

  absl::Status SaveState(StateWriter* writer) const override;
  absl::Status LoadState(StateReader* reader) override;

 private:
  explicit SampleSerialCollector(std::unique_ptr<CollectCore> core);

  const std::unique_ptr<CollectCore> core_;
  RowCollection collection_;
};

}  // namespace ding

#endif  // DING_WORKER_COLLECTOR_SERIAL_SAMPLE_SERIAL_COLLECTOR_H_
