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
    for (const int64_t index : change.remove) content->records.erase(index);
    const int64_t first = content->next;
    for (const absl::string_view record : change.append) {
      content->records.emplace(content->next++, record);
    }
    for (const auto& [name, part] : change.snapshot) {
      content->snapshot[std::string(name)] = std::string(part);
      if (part.empty()) content->snapshot.erase(std::string(name));
    }
    // With syncs_ nothing is ever lost, so that no copy is needed.
    // The first change, which identifies the run, is always synced.
    if (!disk_.syncs_ && (++disk_.unsynced_ % 8 == 0 || disk_.synced_.snapshot.empty()))
      Sync().IgnoreError();
    return first;
  }
  absl::Status Read(const Visitor& visit) override {
    for (const auto& [index, record] : disk_.written_.records) {
      const absl::Status status = visit(index, record);
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }
  absl::StatusOr<Snapshot> ReadSnapshot() override { return disk_.written_.snapshot; }
  absl::Status Sync() override {
    disk_.synced_ = disk_.written_;
    disk_.unsynced_ = 0;
    return absl::OkStatus();
  }
  int64_t size_bytes() override { return static_cast<int64_t>(disk_.written_.records.size()); }

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
