// What a page shows of a run's folder: curves, histograms, state, config, logs and videos. It reads
// the files only, while the run writes them or afterwards.
//
// Ownership: owns what it has read: some megabytes of curves.
// Threads:   thread-compatible.
#ifndef DING_WORKER_WORKER_WATCH_WATCHED_RUN_H_
#define DING_WORKER_WORKER_WATCH_WATCHED_RUN_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "ding_worker/worker/watch/run_curves.h"
#include "ding_worker/worker/watch/run_histograms.h"

namespace ding {

// The fields of a config in text format, by their paths: {"policy.params.DqnConfig.gamma", "0.99"}.
// Values of a repeated field are in one entry.
std::map<std::string, std::string> FlattenConfig(absl::string_view text);

class WatchedRun {
 public:
  WatchedRun(std::string folder, std::string name);

  // Reads what is new, up to `max_bytes` of metrics. Returns whether something has changed.
  bool Refresh(int64_t max_bytes);

  const std::string& folder() const { return folder_; }
  const std::string& name() const { return name_; }
  // What is wrong with the folder, in a sentence; empty: nothing.
  const std::string& damage() const { return damage_; }
  // "running", "silent for 5 minutes", or why the run has ended.
  std::string State(absl::Time now) const;
  bool ended() const { return !end_.empty(); }
  // See FlattenConfig().
  const std::map<std::string, std::string>& config() const { return config_; }
  // The config without what may differ between the seeds of one experiment.
  const std::string& experiment() const { return experiment_; }

  // Calls `visit` with each tag and its curve. In a parallel run the curves of the coordinator come
  // first, then those of the learners.
  template <typename Visit>
  void ForEachCurve(const Visit& visit) const {
    for (const MetricsFile& file : files_) {
      for (const auto& [tag, curve] : file.curves()) visit(tag, curve);
    }
  }
  CurveOfRun FindCurve(absl::string_view tag) const;

  // Reads what is new of its histograms; see RunHistograms::ReadMore().
  absl::StatusOr<bool> ReadHistograms(int64_t max_bytes);
  const std::map<std::string, std::vector<RunHistogram>>& histograms() const {
    return histograms_.by_tag();
  }

  // The names of the logs: all files of log/ that are text.
  std::vector<std::string> ListLogs() const;
  // The last lines of a log that have all words of `filter`, in any case; at most `max_lines`, from
  // the last MiB.
  //   kNotFound  there is no such log
  absl::StatusOr<std::string> TailLog(const std::string& log, absl::string_view filter,
                                      int max_lines) const;

  // The names of the videos, the newest first.
  std::vector<std::string> ListVideos() const;
  //   kNotFound  there is no such video
  absl::StatusOr<std::string> ReadVideo(const std::string& video) const;

 private:
  void ReadConfig();
  void ReadResult(std::string* damage);

  const std::string folder_;
  const std::string name_;
  std::vector<MetricsFile> files_;
  RunHistograms histograms_;
  std::string damage_;
  std::string end_;                            // why the run has ended; empty: it has not
  absl::Time written_ = absl::InfinitePast();  // the newest of its metrics
  std::map<std::string, std::string> config_;
  std::string config_text_;
  std::string experiment_;
};

// The folders of the runs that `path` names: itself, or the folders in it that are runs. A run has
// a folder log/ or a file total_config.textproto.
//   kNotFound  there is no run
absl::StatusOr<std::vector<std::string>> FindRuns(const std::string& path);

// Short names for folders: the ends of their paths that tell them apart.
std::vector<std::string> NameRuns(const std::vector<std::string>& folders);

}  // namespace ding

#endif  // DING_WORKER_WORKER_WATCH_WATCHED_RUN_H_
