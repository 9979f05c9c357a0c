#include "ding_worker/worker/parallel_run/orphan_watch.h"

#include <unistd.h>

#include <cstdlib>
#include <utility>

#include "ding_worker/base/clock.h"
#include "ding_worker/base/log.h"
#include "ding_worker/base/mutex.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/base/thread.h"

namespace ding {
namespace {

constexpr absl::Duration kPeriod = absl::Milliseconds(200);

}  // namespace

OrphanWatch::~OrphanWatch() {
  {
    MutexLock lock(&mutex_);
    done_ = true;
    changed_.SignalAll();
  }
  if (thread_.joinable()) thread_.join();
}

absl::Status OrphanWatch::Start(Options options) {
  options_ = std::move(options);
  DING_ASSIGN_OR_RETURN(thread_, StartThread("orphan watch", [this] { Watch(); }));
  return absl::OkStatus();
}

void OrphanWatch::SetSession(std::function<bool()> is_open) {
  MutexLock lock(&mutex_);
  session_is_open_ = std::move(is_open);
}

bool OrphanWatch::IsOrphan() {
  if (options_.supervisor_lives()) return false;
  MutexLock lock(&mutex_);
  return session_is_open_ == nullptr || !session_is_open_();
}

void OrphanWatch::Watch() {
  Timer since(Clock::Real());
  while (true) {
    {
      MutexLock lock(&mutex_);
      if (!done_) changed_.WaitFor(&mutex_, kPeriod);
      if (done_) return;
    }
    if (!IsOrphan()) {
      since = Timer(Clock::Real());
    } else if (since.Elapsed() >= options_.patience) {
      DING_LOG(WARNING) << "the supervisor of process " << getpid() << " is gone and it has not "
                        << "ended within " << absl::FormatDuration(options_.patience)
                        << ": it is ended now";
      _exit(EXIT_FAILURE);  // Not exit(): destructors could wait for the same thing.
    }
  }
}

}  // namespace ding
