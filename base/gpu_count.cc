#include "ding_worker/base/gpu_count.h"

#include <atomic>

#include "ding_worker/base/check.h"

namespace ding {
namespace {

std::atomic<int (*)()>& Counter() {
  static std::atomic<int (*)()> counter{nullptr};
  return counter;
}

}  // namespace

void SetGpuCounter(int (*counter)()) {
  DING_CHECK(Counter().exchange(counter) == nullptr) << "there are two counters of GPUs";
}

int CountGpus() {
  const auto counter = Counter().load();
  return counter == nullptr ? 0 : counter();
}

}  // namespace ding
