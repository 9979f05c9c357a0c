// A file that grows by whole records (lines, framed events) through a buffer. What the file sinks
// have in common; not for use outside this package.
//
// A full disk costs nothing that fits the buffer: a failed write takes back what it had written of
// the buffer and keeps it all for the next try, so that the file holds whole records only. Once the
// buffer is at its limit, new records are lost and counted in the next error.
//
// Ownership: the file is open from Open to destruction; the clock must live longer.
// Threads:   thread-compatible.
// Errors:    name the path. The first since the last Flush is remembered.
#ifndef DING_WORKER_METRICS_APPEND_FILE_H_
#define DING_WORKER_METRICS_APPEND_FILE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "ding_worker/base/clock.h"

namespace ding::internal_metrics {

class AppendFile {
 public:
  struct Options {
    const Clock* clock = Clock::Real();
    // An Append that comes this long after the last write to the file writes. 0: every Append.
    absl::Duration flush_interval = absl::Seconds(5);
    // If not 0, what an existing file holds after the last of these characters is cut off: a record
    // that a crash tore.
    char record_end = '\0';
  };

  // Opens `path`, made if there is none, for appending. The folder must exist.
  static absl::StatusOr<std::unique_ptr<AppendFile>> Open(const std::string& path,
                                                          const Options& options);
  AppendFile(const AppendFile&) = delete;
  AppendFile& operator=(const AppendFile&) = delete;
  // Writes what is buffered; nobody hears of an error any more.
  ~AppendFile();

  void Append(absl::string_view record);

  // Writes what is buffered. The first error since the last Flush.
  //   kResourceExhausted  disk full, quota, file too large, or records lost
  //   others              could not be written
  absl::Status Flush();

  bool empty() const { return size_bytes_ == 0 && buffer_.empty(); }

 private:
  AppendFile(int fd, const std::string& path, int64_t size_bytes, const Options& options);
  void WriteBuffer();
  void UndoPartialWrite(int64_t written_bytes);

  const int fd_;
  const std::string path_;
  const Options options_;
  int64_t size_bytes_;
  int64_t lost_records_ = 0;
  int64_t last_write_nanos_;
  bool failing_ = false;
  std::string buffer_;
  absl::Status error_;
};

}  // namespace ding::internal_metrics

#endif  // DING_WORKER_METRICS_APPEND_FILE_H_
