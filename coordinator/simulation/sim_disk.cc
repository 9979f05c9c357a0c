#include "ding_worker/coordinator/simulation/sim_disk.h"

namespace ding {

class SimLog : public Log {
 public:
  explicit SimLog(SimDisk* disk) : disk_(*disk), epoch_(++disk->epoch_) {}

  absl::StatusOr<int64_t> Commit(const Change& change) override {
    if (epoch_ < disk_.epoch_) {
      return absl::AbortedError("another coordinator goes on with this run");
    }
    if (disk_.full_) return absl::ResourceExhaustedError("the disk is full");
    SimDisk::Content* const content = &disk_.written_;
    if (change.anew) *content = SimDisk::Content{{}, {}, content->next};
    content->records.erase(content->records.begin(),
                           content->records.lower_bound(change.remove_below));
    for (const int64_t index : change.remove) content->records.erase(index);
    const int64_t first = content->next;
    for (const absl::string_view record : change.append) {
      content->records.emplace(content->next++, record);
    }
    if (change.snapshot.has_value()) {
      content->snapshot = {change.snapshot->begin(), change.snapshot->end()};
    }
    // With syncs_ nothing is ever lost, so that no copy is needed.
    // The first record, which identifies the run, is always synced.
    if (!disk_.syncs_ && (++disk_.unsynced_ % 8 == 0 || first == 1)) Sync().IgnoreError();
    return first;
  }
  absl::Status Read(int64_t from, const Visitor& visit) override {
    const std::map<int64_t, std::string>& records = disk_.written_.records;
    for (auto it = records.lower_bound(from); it != records.end(); ++it) {
      const absl::Status status = visit(it->first, it->second);
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }
  absl::StatusOr<std::vector<std::string>> ReadSnapshot() override {
    return disk_.written_.snapshot;
  }
  absl::Status Sync() override {
    disk_.synced_ = disk_.written_;
    disk_.unsynced_ = 0;
    return absl::OkStatus();
  }
  int64_t size_bytes() override { return static_cast<int64_t>(disk_.written_.records.size()); }
  int64_t epoch() const override { return epoch_; }

 private:
  SimDisk& disk_;
  const int64_t epoch_;
};

std::unique_ptr<Log> SimDisk::OpenLog() { return std::make_unique<SimLog>(this); }

bool SimDisk::LosePower() {
  if (syncs_ || unsynced_ == 0) return false;
  written_ = synced_;
  unsynced_ = 0;
  return true;
}

}  // namespace ding
