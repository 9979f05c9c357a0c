// What a serial collector counts: env steps, episodes, the rows that it handed over, and the
// metrics that come of them. Knows games too: an episode then has one return per player.
//
// Ownership: a value.   Threads: thread-compatible.
#ifndef DING_WORKER_COLLECTOR_COLLECT_STATISTICS_H_
#define DING_WORKER_COLLECTOR_COLLECT_STATISTICS_H_

#include <cstdint>
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
#include "ding_worker/metrics/component.h"

namespace ding {

// An episode that has finished.
struct CollectedEpisode {
  int env_id = 0;
  absl::InlinedVector<double, 2> returns;  // of each player
  int64_t length = 0;
  int64_t samples = 0;    // rows of it that were handed over, of all players
  int64_t last_step = 0;  // its last row's number in the stream
  NamedValues info;       // as the env gave it
};

class CollectStatistics {
 public:
  struct Options {
    int env_num = 0;
    int players = 1;
    // Stream of player p in env i: stream_base + i * players + p.
    int64_t stream_base = 0;
    int64_t collect_print_freq = 100;
    int max_abnormal = 10;
    // Metrics of the rows handed over; else of the time.
    bool log_samples = true;
  };

  explicit CollectStatistics(Options options);

  int64_t envstep() const { return envstep_; }
  void set_envstep(int64_t envstep) { envstep_ = envstep; }
  int64_t total_episode_count() const { return total_episode_count_; }
  int64_t total_train_sample_count() const { return total_train_sample_count_; }

  // All envs, of which there may be another number now, begin new episodes.
  void ForgetEpisodes(int env_num);
  void ForgetEpisode(int env_id) { envs_[env_id].samples = 0; }

  // The answer to a vector step; `next_step` is TrajBuffer's. Fills `ended_envs` with those whose
  // episode is over. kResourceExhausted, all the same, if an env is abnormal too often.
  absl::Status Account(const Timesteps& timesteps, absl::Span<const int64_t> next_step,
                       const ComponentDeps& deps, std::vector<int>* ended_envs);
  // The rows of these segments are handed over.
  void CountSamples(const std::vector<Segment>& segments);
  // Collecting is over, or has failed: returns the episodes that finished since the last call, env
  // by env, and remembers them for the log if `record`.
  std::vector<CollectedEpisode> TakeFinished(bool record);
  // Counts the time; logs if it is time to, or forgets what there is to log if not `record`.
  void FinishCollect(bool record, double seconds, int64_t train_iter, const ComponentDeps& deps);

  absl::Status SaveState(StateWriter* writer) const;
  // These statistics as they were saved, by as many envs and players.
  absl::StatusOr<CollectStatistics> LoadState(StateReader* reader) const;

 private:
  struct EnvStatistics {
    int64_t samples = 0;  // of the running episode, as of the last hand-over
    int64_t abnormal = 0;
    std::vector<CollectedEpisode> finished;  // since the last hand-over
  };
  // What the log wants of a finished episode.
  struct LoggedEpisode {
    absl::InlinedVector<double, 2> returns;
    int64_t length = 0;
    int64_t samples = 0;
  };
  // What happened since the last log, for the rates; not saved, so that time is in no checkpoint.
  struct Window {
    double seconds = 0;
    int64_t envsteps = 0;
    int64_t samples = 0;
    int64_t episodes = 0;
  };

  absl::Status NoteAbnormal(int env_id, const std::string& cause, const ComponentDeps& deps);
  NamedValues Metrics() const;
  void AddReturns(NamedValues* metrics) const;

  Options options_;
  std::vector<EnvStatistics> envs_;
  std::vector<LoggedEpisode> episodes_;  // to be logged
  Window window_;
  int64_t envstep_ = 0;
  int64_t total_episode_count_ = 0;
  int64_t total_train_sample_count_ = 0;
  int64_t last_log_iter_ = 0;
  double total_seconds_ = 0;  // since the beginning, or the last resume
};

}  // namespace ding

#endif  // DING_WORKER_COLLECTOR_COLLECT_STATISTICS_H_
