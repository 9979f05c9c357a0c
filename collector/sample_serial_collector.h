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
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ding_worker/collector/serial_collector.h"
#include "ding_worker/collector/traj_buffer.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/state.h"
#include "ding_worker/env/env_manager.h"
#include "ding_worker/metrics/component.h"
#include "ding_worker/policy/policy.h"

namespace ding {

class SampleSerialCollector : public ISerialCollector {
 public:
  struct Options {
    // Train iterations between two log lines, at least 1.
    int64_t collect_print_freq = 100;
    // Abnormal steps of one env, without a row or an episode of it handed over in between, after
    // which Collect() fails; at least 1.
    int max_abnormal = 10;
    // Stream of env 0; env i is stream_base + i. Several collectors that feed one buffer need
    // streams of their own.
    int64_t stream_base = 0;

    // What is wrong with them; empty if nothing is.
    std::vector<std::string> Problems() const;
  };

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

  int64_t envstep() const override { return envstep_; }
  void set_envstep(int64_t envstep) override { envstep_ = envstep; }
  int64_t total_episode_count() const override { return total_episode_count_; }
  // Rows handed over so far.
  int64_t total_train_sample_count() const { return total_train_sample_count_; }

  absl::Status SaveState(StateWriter* writer) const override;
  absl::Status LoadState(StateReader* reader) override;

 private:
  struct Episode {
    double episode_return = 0;
    int64_t length = 0;
    int64_t samples = 0;    // rows of it that were handed over
    int64_t last_step = 0;  // its last row's number in the stream
  };
  struct EnvStatistics {
    int64_t samples = 0;  // of the running episode, as of the last hand-over
    int64_t abnormal = 0;
    std::vector<Episode> finished;  // since the last hand-over
  };
  // What happened since the last log, for the rates; not saved, so that time is in no checkpoint.
  struct Window {
    double seconds = 0;
    int64_t envsteps = 0;
    int64_t samples = 0;
    int64_t episodes = 0;
  };

  SampleSerialCollector(Options options, ComponentDeps deps);

  // Works with these from now on: checks that they fit together, launches the env manager if need
  // be, and keeps the rows of traj_ if they are laid out as before.
  absl::Status Use(EnvManager* env, CollectMode* policy);
  // All envs begin new episodes.
  void ForgetEpisodes();
  void ForgetStatistics();
  absl::Status ForgetRecurrentState();
  bool with_level_seed() const { return traj_.has_value() && traj_->layout().level_seed >= 0; }
  absl::StatusOr<TrajBuffer> MakeTrajBuffer(const EnvManager& env, const CollectMode& policy,
                                            bool with_level_seed) const;
  void UseTrajBuffer(TrajBuffer fresh);
  absl::StatusOr<int64_t> Target(const CollectOptions& options);
  absl::Status PrepareLevelSeeds(const std::vector<int64_t>& level_seeds);
  absl::Status Gather(int64_t target, const CollectOptions& options);
  absl::Status StepEnvs(const CollectOptions& options);
  absl::Status Account(const Timesteps& timesteps);
  absl::Status NoteAbnormal(int env_id, const std::string& cause);
  // The rows of these segments are handed over.
  void CountSamples(const std::vector<Segment>& segments);
  void CollectEpisodes(bool record);
  void Log(int64_t train_iter);

  const Options options_;
  const ComponentDeps deps_;
  EnvManager* env_ = nullptr;
  CollectMode* policy_ = nullptr;
  CollectAttributes attributes_;
  std::optional<TrajBuffer> traj_;

  std::vector<EnvStatistics> env_statistics_;
  std::vector<Episode> episodes_;  // to be logged
  Window window_;
  int64_t envstep_ = 0;
  int64_t total_episode_count_ = 0;
  int64_t total_train_sample_count_ = 0;
  int64_t last_log_iter_ = 0;
  std::set<int64_t> warned_targets_;  // those that are no multiple of the number of envs
  std::vector<int> ended_envs_;       // scratch of Account()
};

}  // namespace ding

#endif  // DING_WORKER_COLLECTOR_SAMPLE_SERIAL_COLLECTOR_H_
