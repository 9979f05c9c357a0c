// Writes metrics to an event file that TensorBoard opens: `tensorboard --logdir <folder>`.
//
// Each sink creates a new file `events.out.tfevents.<unix seconds>.<host>.<pid>.<n>`; TensorBoard
// shows the files of a run and of its resumption as one. The file is created at once and written
// when a buffer is full, on an event that comes `flush_interval` after the last write, on Flush()
// and on destruction.
//
// Format: TFRecord (length, masked CRC-32C of the length, data, masked CRC-32C of the data, little
//         endian) of Event messages (tensorboard.proto).
// Values: scalars are stored as float32, as TensorBoard requires, including NaN and infinities. A
//         histogram has the finite values only, in 30 buckets; the number of other values, if there
//         are any, is the scalar "<tag>_non_finite".
// Runs:   BeginRun() and EndRun() write a row of the HParams dashboard: the run's hyperparameters,
//         and its results, which are scalars "result/<name>". Numbers are stored as numbers, so
//         that they can be sorted and plotted.
// Ownership, threads, errors: as MetricSink. The clock must outlive the sink.
#ifndef DING_WORKER_METRICS_TENSORBOARD_H_
#define DING_WORKER_METRICS_TENSORBOARD_H_

#include <cstdint>
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
#include "ding_worker/metrics/file_sink.h"
#include "ding_worker/metrics/sink.h"

namespace ding {

namespace tensorboard {
class HParamsPluginData;
}  // namespace tensorboard

class TensorBoardSink : public MetricSink {
 public:
  struct Options {
    // Created with its parents if needed.
    std::string folder;
    // If it is empty, the sink uses the name described above.
    std::string file_name;
    absl::Duration flush_interval = absl::Seconds(5);
    const Clock* clock = Clock::Real();
  };

  //   kPermissionDenied, kNotFound, kResourceExhausted, ...  the folder or file cannot be created
  static absl::StatusOr<std::unique_ptr<TensorBoardSink>> Create(const Options& options);

  void Scalar(absl::string_view tag, int64_t step, double value) override
      ABSL_LOCKS_EXCLUDED(mutex_);
  void Histogram(absl::string_view tag, int64_t step, absl::Span<const float> values) override
      ABSL_LOCKS_EXCLUDED(mutex_);
  void Text(absl::string_view tag, int64_t step, absl::string_view text) override
      ABSL_LOCKS_EXCLUDED(mutex_);
  void EncodedImage(absl::string_view tag, int64_t step, int width, int height,
                    absl::string_view file) override ABSL_LOCKS_EXCLUDED(mutex_);
  void BeginRun(const RunDescription& run) override ABSL_LOCKS_EXCLUDED(mutex_);
  void EndRun(RunEnd end, int64_t step, const RunResults& results) override
      ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status Flush() override ABSL_LOCKS_EXCLUDED(mutex_);

  const std::string& path() const { return path_; }

 private:
  TensorBoardSink(std::string path, const Clock* clock,
                  std::unique_ptr<internal_metrics::AppendFile> file);
  void WriteHParams(absl::string_view tag, const tensorboard::HParamsPluginData& data);
  void WriteRecord(absl::string_view event) ABSL_LOCKS_EXCLUDED(mutex_);

  const std::string path_;
  const Clock* const clock_;
  Mutex mutex_;
  const std::unique_ptr<internal_metrics::AppendFile> file_ ABSL_PT_GUARDED_BY(mutex_);
};

}  // namespace ding

#endif  // DING_WORKER_METRICS_TENSORBOARD_H_
