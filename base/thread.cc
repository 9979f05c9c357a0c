#include "ding_worker/base/thread.h"

#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "ding_worker/base/mutex.h"

namespace ding {

absl::StatusOr<std::thread> StartThread(absl::string_view purpose, std::function<void()> body) {
  try {
    return std::thread(std::move(body));
  } catch (const std::system_error& error) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "cannot start a thread for ", purpose, ": ", error.code().message(),
        "; raise the limit of processes (ulimit -u, pids.max of a container) or of memory "
        "(ulimit -v)"));
  }
}

absl::Status CheckThreads(int count) {
  Mutex mutex;
  CondVar changed;
  bool done = false;
  std::vector<std::thread> threads;
  absl::Status status;
  while (status.ok() && static_cast<int>(threads.size()) < count) {
    absl::StatusOr<std::thread> thread = StartThread("the libraries of this program", [&] {
      MutexLock lock(&mutex);
      while (!done) changed.WaitFor(&mutex, absl::InfiniteDuration());
    });
    if (thread.ok()) threads.push_back(*std::move(thread));
    status = thread.status();
  }
  {
    MutexLock lock(&mutex);
    done = true;
    changed.SignalAll();
  }
  for (std::thread& thread : threads) thread.join();
  if (status.ok()) return status;
  return absl::Status(status.code(), absl::StrCat("this process needs ", count,
                                                  " more threads, but could start only ",
                                                  threads.size(), ": ", status.message()));
}

}  // namespace ding
