#include "ding_worker/interaction/testing/rank_threads.h"

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ding_worker/base/check.h"
#include "ding_worker/base/clock.h"

namespace ding {

absl::Status LocalRendezvous::Set(const std::string& key, const std::string& value) {
  MutexLock lock(&mutex_);
  values_[key] = value;
  changed_.SignalAll();
  return absl::OkStatus();
}

absl::StatusOr<std::string> LocalRendezvous::Get(const std::string& key, absl::Duration timeout) {
  const Deadline deadline = Deadline::After(timeout);
  MutexLock lock(&mutex_);
  while (values_.count(key) == 0 && changed_.WaitUntil(&mutex_, deadline)) {
  }
  const auto found = values_.find(key);
  if (found != values_.end()) return found->second;
  return absl::DeadlineExceededError(absl::StrCat("no rank set '", key, "'"));
}

void RunRanks(const AllReduceCreator& connect, int world_size, absl::Duration timeout,
              const std::function<void(AllReduce*)>& run) {
  static std::atomic<int> groups{0};
  LocalRendezvous rendezvous;
  AllReduceOptions options;
  options.group = absl::StrCat("ranks-", ++groups);
  options.world_size = world_size;
  options.timeout = timeout;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < world_size; ++rank) {
    options.rank = rank;
    threads.emplace_back([&, options] {
      const absl::StatusOr<std::unique_ptr<AllReduce>> group = connect(options, &rendezvous);
      DING_CHECK(group.ok()) << group.status();
      run(group->get());
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace ding
