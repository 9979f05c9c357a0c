// Collects a given number of rows: steps all envs that are ready, one vector step after the other,
// until it has them. The collector for off-policy algorithms and for PPO-like ones.
//
//     env manager ──ready_obs──► TrajBuffer's next rows ──► policy writes its outputs into them
//          ▲                           │                                    │
//          └────────── Step(actions: a view of those rows) ◄────────────────┘
//
// Every row is handed over by the Collect() that gathered it; a segment whose episode goes on ends
// as kCut, and buffers link its successor when that comes. With CollectAttributes::traj_len_inf the
// rows of an episode wait until it is over, and are forgotten at the end of Collect() if the policy
// is on_policy. unroll_len needs no cutting: sequences are drawn along the links.
//
// An abnormal step drops those rows of its episode that were not handed over, and is not counted.
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
#ifndef DING_WORKER_COLLECTOR_SAMPLE_SERIAL_COLLECTOR_H_
#define DING_WORKER_COLLECTOR_SAMPLE_SERIAL_COLLECTOR_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ding_worker/collector/collect_core.h"
#include "ding_worker/collector/collect_rows.h"
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
  //   kInvalidArgument  options (all problems at once), env or policy null or not fitting together
  static absl::StatusOr<std::unique_ptr<SampleSerialCollector>> Create(Options options,
                                                                       EnvManager* env,
                                                                       CollectMode* policy,
                                                                       ComponentDeps deps);

  absl::Status ResetEnv(EnvManager* env) override;
  absl::Status ResetPolicy(CollectMode* policy) override;
  absl::Status Reset(CollectMode* policy, EnvManager* env) override;
  absl::Status DropEpisodes(absl::Span<const int> env_ids) override;
  absl::StatusOr<SegmentBatch> Collect(const CollectOptions& options) override;

  int64_t envstep() const override { return core_->statistics().envstep(); }
  void set_envstep(int64_t envstep) override { core_->statistics().set_envstep(envstep); }
  int64_t total_episode_count() const override { return core_->statistics().total_episode_count(); }
  // Rows handed over so far.
  int64_t total_train_sample_count() const {
    return core_->statistics().total_train_sample_count();
  }

  absl::Status SaveState(StateWriter* writer) const override;
  absl::Status LoadState(StateReader* reader) override;

 private:
  explicit SampleSerialCollector(std::unique_ptr<CollectCore> core);

  const std::unique_ptr<CollectCore> core_;
  RowCollection collection_;
};

}  // namespace ding

#endif  // DING_WORKER_COLLECTOR_SAMPLE_SERIAL_COLLECTOR_H_
