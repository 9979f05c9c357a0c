// A log in memory, for tests: a naive model of a log, which can be made to fail.
// The content of `MemLogData` outlives the log, as a file does.
//
// Threads: set_status() is thread-safe; one thread at a time calls the rest.
#ifndef DING_WORKER_COORDINATOR_TESTING_MEM_LOG_H_
#define DING_WORKER_COORDINATOR_TESTING_MEM_LOG_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ding_worker/base/mutex.h"
#include "ding_worker/interaction/store/store.h"

namespace ding {

struct MemLogData {
  std::map<int64_t, std::string> records;
  Log::Snapshot snapshot;
  int64_t next = 1;
  int64_t epoch = 0;
  bool lost = false;  // whether something that was committed is gone
};

class MemLog : public Log {
 public:
  explicit MemLog(MemLogData* data) : data_(*data), epoch_(++data->epoch) {}

  absl::StatusOr<int64_t> Commit(const Change& change) override {
    MutexLock lock(&mutex_);
    if (epoch_ < data_.epoch)
      return absl::AbortedError("another coordinator goes on with this run");
    if (std::exchange(repeats_, false) && made_) {
      return data_.next - static_cast<int64_t>(change.append.size());
    }
    if (!status_.ok()) {
      repeats_ = absl::IsUnavailable(status_);
      made_ = repeats_ && makes_;
      if (made_) Make(change);
      // Not the status itself: ThreadSanitizer cannot see how Debian's Abseil counts its owners.
      return absl::Status(status_.code(), std::string(status_.message()));
    }
    if (data_.lost && !change.anew) return absl::DataLossError("the log has lost something");
    return Make(change);
  }
  absl::Status Read(const Visitor& visit) override {
    for (const auto& [index, record] : data_.records) {
      const absl::Status status = visit(index, record);
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }
  absl::StatusOr<Snapshot> ReadSnapshot() override { return data_.snapshot; }
  absl::Status Sync() override { return absl::OkStatus(); }
  int64_t size_bytes() override {
    int64_t bytes = 0;
    for (const auto& [index, record] : data_.records) bytes += static_cast<int64_t>(record.size());
    for (const auto& [name, part] : data_.snapshot) bytes += static_cast<int64_t>(part.size());
    return bytes;
  }
  bool may_lose() const override { return true; }

  // From now on Commit() fails with this; if it is kUnavailable, `makes` says whether it makes the
  // change nevertheless.
  void set_status(absl::Status status, bool makes = false) {
    MutexLock lock(&mutex_);
    status_ = std::move(status);
    makes_ = makes;
  }

 private:
  int64_t Make(const Change& change) {
    if (change.anew) {
      data_.records.clear();
      data_.snapshot.clear();
      data_.lost = false;
    }
    const int64_t first = data_.next;
    for (const int64_t index : change.remove) data_.records.erase(index);
    for (const absl::string_view record : change.append) {
      data_.records[data_.next++] = std::string(record);
    }
    for (const auto& [name, part] : change.snapshot) {
      data_.snapshot[std::string(name)] = std::string(part);
      if (part.empty()) data_.snapshot.erase(std::string(name));
    }
    return first;
  }

  MemLogData& data_;
  const int64_t epoch_;
  Mutex mutex_;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  bool makes_ ABSL_GUARDED_BY(mutex_) = false;
  bool repeats_ = false;  // whether the next change is a repetition of the last call
  bool made_ = false;     // whether the change of the last call was made
};

}  // namespace ding

#endif  // DING_WORKER_COORDINATOR_TESTING_MEM_LOG_H_
