// Writes metrics to a folder in the format of MLflow's file store, which `mlflow ui
// --backend-store-uri <folder>` shows:
//
//   <folder>/<experiment id>/meta.yaml                   the experiment, which may have many runs
//   <folder>/<experiment id>/<run id>/meta.yaml          name, status, times
//                                     params/<name>      a hyperparameter
//                                     metrics/<tag>      lines "<milliseconds since 1970> <value>
//                                                        <step>"
//                                     artifacts/         empty
//
// The format is the one that mlflow/store/tracking/file_store.py (MLflow 2) reads. It refuses a
// whole experiment if one metric has no line, so a file of a metric appears with its first lines.
// Only scalars, hyperparameters and results (metrics "result/<name>") are written.
//
// Names. MLflow allows letters, digits and "_-. /" in names, which are paths. Every other byte is
// written as "-" and its two hexadecimal digits, "-E5"; so are bytes that would change the path
// (of "..", "//"), or that would look like such an escape. No two names share a file; names of 250
// bytes or more end with a digest. If "a" is a file, "a/b" is "a-2Fb".
//
// The run id is kept in a file of the run's folder, so that a resumed run is the same run in
// MLflow: its status is RUNNING again. A run that ends without EndRun(), because it could not
// begin, is FAILED.
//
// Ownership, threads, errors: as MetricSink. The clock must outlive the sink. All files are written
// when the buffer is full, on a value that comes `flush_interval` after the last write, on Flush()
// and on destruction. On a full disk up to 8 MiB wait.
#ifndef DING_WORKER_METRICS_MLFLOW_H_
#define DING_WORKER_METRICS_MLFLOW_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/mutex.h"
#include "ding_worker/metrics/sink.h"

namespace ding {

class MlflowSink : public MetricSink {
 public:
  struct Options {
    std::string folder;      // created if needed; runs share it
    std::string experiment;  // not empty
    std::string run_name;
    std::string run_id_file;  // its folder must exist
    absl::Duration flush_interval = absl::Seconds(5);
    const Clock* clock = Clock::Real();
  };

  //   kPermissionDenied, kResourceExhausted, ...  the folders or files cannot be written
  //   kDataLoss                                   run_id_file has something else than a run id
  static absl::StatusOr<std::unique_ptr<MlflowSink>> Create(const Options& options);
  ~MlflowSink() override;

  void Scalar(absl::string_view tag, int64_t step, double value) override
      ABSL_LOCKS_EXCLUDED(mutex_);
  void Histogram(absl::string_view, int64_t, absl::Span<const float>) override {}
  void Text(absl::string_view, int64_t, absl::string_view) override {}
  void BeginRun(const RunDescription& run) override ABSL_LOCKS_EXCLUDED(mutex_);
  void EndRun(RunEnd end, int64_t step, const RunResults& results) override
      ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status Flush() override ABSL_LOCKS_EXCLUDED(mutex_);

  const std::string& run_folder() const { return run_folder_; }

 private:
  // The numbers of MLflow's RunStatus.
  enum Status { kRunning = 1, kFinished = 3, kFailed = 4, kKilled = 5 };

  MlflowSink(const Options& options, std::string experiment_id, std::string run_id);

  // A metric: its file below metrics/, and the lines that are not written yet.
  struct Series {
    std::string file;
    std::string lines;
  };

  int64_t NowMillis() const { return absl::ToUnixMillis(options_.clock->Now()); }
  absl::Status WriteExperiment() const;
  absl::Status WriteRun(Status status, int64_t end_millis) const;
  // Keeps the start time of a run that is resumed.
  void KeepStartTime();
  // Writes the status alone, which needs no space on the disk.
  absl::Status OverwriteStatus(Status status) const;
  std::string PathOf(const Series& series) const;
  Series& SeriesOf(absl::string_view tag) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Writes the waiting lines. Lines that cannot be written stay.
  void WriteLines() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status AppendTo(const std::string& path, absl::string_view lines) const;
  // Puts a whole file into a folder that MLflow reads.
  absl::Status Place(const std::string& path, absl::string_view content) const;

  const Options options_;
  const std::string experiment_id_;
  const std::string run_id_;
  const std::string experiment_folder_;
  const std::string run_folder_;
  int64_t start_millis_;
  Mutex mutex_;
  std::map<std::string, Series, std::less<>> series_ ABSL_GUARDED_BY(mutex_);  // by tag
  std::set<std::string> files_ ABSL_GUARDED_BY(mutex_);  // the files of all series
  size_t waiting_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t lost_lines_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t last_write_nanos_ ABSL_GUARDED_BY(mutex_);
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status error_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace ding

#endif  // DING_WORKER_METRICS_MLFLOW_H_
