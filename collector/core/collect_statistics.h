// The statistics of a serial collector: env steps, episodes, returned samples, and metrics of them.
// In games an episode has one return per player. A sample has unroll_len rows of the policy
// (CollectAttributes), so that with 1 the samples are the rows.
//
// Ownership: a value.   Threads: thread-compatible.
#ifndef DING_WORKER_COLLECTOR_CORE_COLLECT_STATISTICS_H_
#define DING_WORKER_COLLECTOR_CORE_COLLECT_STATISTICS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ding_worker/data/named_values.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/state.h"
#include "ding_worker/env/env_manager.h"
#include "ding_worker/metrics/averages.h"
#include "ding_worker/metrics/sink.h"

namespace ding {

// A finished episode.
struct CollectedEpisode {
  int env_id = 0;
  absl::InlinedVector<double, 2> returns;  // of each player
  int64_t length = 0;
  // Its returned samples, of all players. With an unroll_len of 1 a sample is a row.
  int64_t samples = 0;
  int64_t last_step = 0;                  // step of its last row in the stream
  NamedValues info;                       // StepResult::info
  std::vector<double> component_returns;  // FinishedEpisode::component_returns
};

class CollectStatistics {
 public:
  struct Options {
    int env_num = 0;
    int players = 1;
    // The stream of player p in env i is stream_base + i * players + p.
    int64_t stream_base = 0;
    int64_t collect_print_freq = 100;
    int max_abnormal = 10;
    // Whether to log metrics of the returned samples; else of the time.
    bool log_samples = true;
  };

  explicit CollectStatistics(Options options);

  int64_t envstep() const { return envstep_; }
  void set_envstep(int64_t envstep) { envstep_ = envstep; }
  int64_t total_episode_count() const { return total_episode_count_; }
  int64_t total_train_sample_count() const { return total_train_sample_count_; }
  // The mean return of the last 20 episodes that were recorded since the start or the last resume;
  // in games the mean return of the first player. Not set: there are no such episodes.
  std::optional<double> recent_return() const { return recent_returns_.Average(); }

  // Notes that all envs begin new episodes; their number may have changed.
  void ForgetEpisodes(int env_num);
  void ForgetEpisode(int env_id) { envs_[env_id].samples = 0; }

  // Accounts for a vector step; `next_step` is TrajBuffer::next_step(). Fills `ended_envs` with the
  // envs whose episode is over, also if it returns kResourceExhausted because an env was abnormal
  // too often.
  absl::Status Account(const Timesteps& timesteps, absl::Span<const int64_t> next_step,
                       const ComponentDeps& deps, std::vector<int>* ended_envs);
  // Counts these segments as returned, with the numbers of samples that were completed in each of
  // them.
  void CountSamples(const std::vector<Segment>& segments,
                    absl::Span<const int64_t> samples_of_segments);
  // Returns the episodes that finished since the last call, env by env, at the end of a collect.
  // Keeps them for the log if `record`.
  std::vector<CollectedEpisode> TakeFinished(bool record);
  // Counts the time and logs if it is due, with the policy's settings among the metrics; without
  // `record` it drops the values to log instead.
  void FinishCollect(bool record, double seconds, int64_t train_iter, const NamedValues& settings,
                     const ComponentDeps& deps);
  // Logs the episodes that wait for the next log, as of the last collect.
  void LogRest(const ComponentDeps& deps);

  absl::Status SaveState(StateWriter* writer) const;
  // Returns the saved statistics, which must be of as many envs and players.
  absl::StatusOr<CollectStatistics> LoadState(StateReader* reader) const;

 private:
  struct EnvStatistics {
    int64_t samples = 0;  // returned samples of the running episode
    int64_t abnormal = 0;
    std::vector<CollectedEpisode> finished;  // episodes since the last TakeFinished()
  };
  // The logged values of a finished episode.
  struct LoggedEpisode {
    absl::InlinedVector<double, 2> returns;
    int64_t length = 0;
    int64_t samples = 0;
  };
  // Counts since the last log, for the rates. Not saved, so that checkpoints do not depend on time.
  struct Window {
    double seconds = 0;
    int64_t envsteps = 0;
    int64_t samples = 0;
    int64_t episodes = 0;
  };

  absl::Status NoteAbnormal(int env_id, const std::string& cause, const ComponentDeps& deps);
  void Log(int64_t train_iter, const NamedValues& settings, const ComponentDeps& deps);
  NamedValues Metrics() const;
  void AddReturns(NamedValues* metrics) const;

  Options options_;
  std::vector<EnvStatistics> envs_;
  size_t finished_num_ = 0;              // the episodes in envs_
  int64_t abnormal_episodes_ = 0;        // dropped since the last log
  std::vector<LoggedEpisode> episodes_;  // not yet logged
  Window window_;
  int64_t envstep_ = 0;
  int64_t total_episode_count_ = 0;
  int64_t total_train_sample_count_ = 0;
  int64_t last_log_iter_ = 0;
  int64_t last_iter_ = 0;     // of the last collect
  double total_seconds_ = 0;  // since the start or the last resume
  WindowAverage recent_returns_{20};
};

}  // namespace ding

#endif  // DING_WORKER_COLLECTOR_CORE_COLLECT_STATISTICS_H_
