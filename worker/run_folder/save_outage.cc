#include "ding_worker/worker/run_folder/save_outage.h"

#include <cerrno>
#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "ding_worker/base/log.h"

namespace ding {
namespace {

constexpr absl::Duration kStopPeriod = absl::Milliseconds(50);

}  // namespace

bool SaveOutage::MayPass(const absl::Status& error) {
  // The process's own limit, whose code is that of a full disk.
  if (absl::StrContains(error.message(), std::strerror(EFBIG))) return false;
  switch (error.code()) {
    case absl::StatusCode::kResourceExhausted:  // ENOSPC, EDQUOT
    case absl::StatusCode::kPermissionDenied:   // EROFS
    case absl::StatusCode::kInternal:           // EIO, ESTALE
    case absl::StatusCode::kUnavailable:
      return true;
    default:
      return false;
  }
}

absl::Status SaveOutage::Note(const std::string& what, const absl::Status& saved) {
  const MutexLock lock(&mutex_);
  if (saved.ok()) {
    End(what, /*saved=*/true);
    return absl::OkStatus();
  }
  if (missing_.empty()) {
    since_ = Timer(clock_);
    DING_LOG(WARNING) << what << " could not be written: " << saved.message()
                      << ". The run goes on and tries again; if that fails for "
                      << absl::FormatDuration(kPatience) << ", it ends and can be resumed";
  }
  missing_.insert(what);
  if (since_.Elapsed() < kPatience) return absl::OkStatus();
  return absl::Status(saved.code(),
                      absl::StrCat(what, " could not be written for ",
                                   absl::FormatDuration(kPatience), ": ", saved.message()));
}

void SaveOutage::Forget(const std::string& what) {
  const MutexLock lock(&mutex_);
  End(what, /*saved=*/false);
}

void SaveOutage::End(const std::string& what, bool saved) {
  if (missing_.erase(what) == 0 || !missing_.empty()) return;
  DING_LOG_IF(INFO, saved) << what << " is written, after "
                           << absl::FormatDuration(since_.Elapsed()) << " in which it could not be";
}

absl::Status SaveOutage::Wait(const std::string& what, const std::function<absl::Status()>& save,
                              const std::function<bool()>& stop) {
  while (true) {
    const absl::Status saved = save();
    if (saved.ok() || !MayPass(saved) || stop()) {
      saved.ok() ? Note(what, saved).IgnoreError() : Forget(what);
      return saved;
    }
    if (absl::Status too_long = Note(what, saved); !too_long.ok()) return too_long;
    const Timer pause(clock_);
    while (!stop() && pause.Elapsed() < kRetryPeriod) absl::SleepFor(kStopPeriod);
  }
}

}  // namespace ding
