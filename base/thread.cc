#include "ding_worker/base/thread.h"

#include <system_error>
#include <utility>
#include <vector>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "ding_worker/base/check.h"
#include "ding_worker/base/cpu.h"
#include "ding_worker/base/mutex.h"
#include "ding_worker/base/status_macros.h"

namespace ding {
namespace {

// A thread of a team that waits looks so often before it sleeps, some half a millisecond on an EPYC
// at 2.6 GHz: between two pieces of work of a network come the rest of an update and some steps of
// an env. After the first looks it lets other threads have the core in between, because the one
// that it waits for may have been woken there.
constexpr int kLooks = 1000;
constexpr int kLooksAlone = 100;
constexpr int kPausesPerLook = 16;

}  // namespace

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
    status = thread.status();
    if (thread.ok()) threads.push_back(*std::move(thread));
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

absl::StatusOr<std::unique_ptr<ThreadTeam>> ThreadTeam::Create(int size,
                                                               absl::string_view purpose) {
  DING_CHECK(size >= 1) << size;
  auto team = absl::WrapUnique(new ThreadTeam());
  team->threads_.reserve(static_cast<size_t>(size - 1));
  for (int member = 1; member < size; ++member) {
    DING_ASSIGN_OR_RETURN(std::thread thread, StartThread(purpose, [self = team.get(), member] {
                            self->Serve(member);
                          }));
    team->threads_.push_back(std::move(thread));
  }
  return team;
}

ThreadTeam::~ThreadTeam() {
  work_ = nullptr;
  pieces_.fetch_add(1);
  Wake();
  for (std::thread& thread : threads_) thread.join();
}

void ThreadTeam::Run(absl::FunctionRef<void(int member)> work) {
  if (threads_.empty() || busy_.exchange(true)) {
    for (int member = 0; member < size(); ++member) work(member);
    return;
  }
  work_ = &work;
  unfinished_.store(size() - 1);
  pieces_.fetch_add(1);
  Wake();
  work(0);
  for (int64_t left = unfinished_.load(); left > 0; left = unfinished_.load()) {
    WaitForChange(unfinished_, left);
  }
  busy_.store(false);
}

void ThreadTeam::Serve(int member) {
  for (int64_t done = 0;; ++done) {
    WaitForChange(pieces_, done);
    if (work_ == nullptr) return;
    (*work_)(member);
    unfinished_.fetch_sub(1);
    Wake();
  }
}

void ThreadTeam::WaitForChange(const std::atomic<int64_t>& value, int64_t old) {
  for (int look = 0; look < kLooks; ++look) {
    for (int i = 0; i < kPausesPerLook; ++i) {
      if (value.load() != old) return;
      Pause();
    }
    if (look > kLooksAlone) std::this_thread::yield();
  }
  // All of these operations have one order for all threads: either Wake() sees that this thread is
  // about to sleep, or this thread sees the new value.
  MutexLock lock(&mutex_);
  sleeping_.fetch_add(1);
  while (value.load() == old) changed_.WaitFor(&mutex_, absl::InfiniteDuration());
  sleeping_.fetch_sub(1);
}

void ThreadTeam::Wake() {
  if (sleeping_.load() == 0) return;
  MutexLock lock(&mutex_);
  changed_.SignalAll();
}

}  // namespace ding
