// Writes metrics to a folder in the format of MLflow's file store, which `mlflow ui --backend-store-uri <folder>` shows:
//
//   <folder>/<experiment id>/meta.yaml                   the experiment, which may have many runs
//   <folder>/<experiment id>/<run id>/meta.yaml          name, status, times
//                                     params/<name>      a hyperparameter
//                                     metrics/<tag>      lines "<milliseconds since 1970> <value> <step>"
//                                     artifacts/         empty
//
// The format is that which mlflow/store/tracking/file_store.py (MLflow 2) reads. Characters of names that MLflow
// refuses become '_'. Only scalars, hyperparameters and results (metrics "result/<name>") are written.
//
// The run id is kept in a file of the run's folder, so that a resumed run is the same run there. Two metrics of which one is
// the beginning of the other's path ("a" and "a/b") cannot both be files: the later one is an error of Flush().
//
// Ownership, threads, errors: as MetricSink. The clock must outlive the sink. Files are written when a buffer is full, on a
// value that comes `flush_interval` after the last write of its tag, on Flush() and on destruction.
#ifndef DING_WORKER_METRICS_MLFLOW_H_
#define DING_WORKER_METRICS_MLFLOW_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/mutex.h"
#include "ding_worker/metrics/append_file.h"
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

  int64_t NowMillis() const { return absl::ToUnixMillis(options_.clock->Now()); }
  absl::Status WriteExperiment() const;
  absl::Status WriteRun(Status status, int64_t end_millis) const;
  // Returns the file of a metric; null, with an error kept for Flush(), if it cannot be opened.
  internal_metrics::AppendFile* FileOf(absl::string_view tag) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Options options_;
  const std::string experiment_id_;
  const std::string run_id_;
  const std::string experiment_folder_;
  const std::string run_folder_;
  const int64_t start_millis_;
  Mutex mutex_;
  // By tag; null: it could not be opened.
  std::map<std::string, std::unique_ptr<internal_metrics::AppendFile>, std::less<>> files_
      ABSL_GUARDED_BY(mutex_);
  absl::Status error_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace ding

#endif  // DING_WORKER_METRICS_MLFLOW_H_
