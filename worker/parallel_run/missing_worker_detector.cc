#include "ding_worker/worker/parallel_run/missing_worker_detector.h"

#include <algorithm>

namespace ding {

std::vector<int64_t> MissingWorkerDetector::Update(
    const google::protobuf::RepeatedPtrField<WorkerStatus>& present) {
  for (const WorkerStatus& worker : present) {
    seen_.insert_or_assign(worker.pid(), Timer(clock_));
  }
  std::vector<int64_t> away;
  for (auto it = seen_.begin(); it != seen_.end();) {
    const bool there = std::any_of(present.begin(), present.end(),
                                   [&it](const auto& worker) { return worker.pid() == it->first; });
    if (there || it->second.Elapsed() < timeout_) {
      ++it;
    } else {
      away.push_back(it->first);
      it = seen_.erase(it);
    }
  }
  return away;
}

void MissingWorkerDetector::Forgive() {
  for (auto& [pid, timer] : seen_) timer = Timer(clock_);
}

}  // namespace ding
