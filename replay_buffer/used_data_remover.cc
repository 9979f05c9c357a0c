#include "ding_worker/replay_buffer/used_data_remover.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/thread.h"

namespace ding {
namespace {

// How long the thread collects ids before it deletes them, so that it is not woken for each.
constexpr absl::Duration kCollect = absl::Milliseconds(2);

bool StaysBelow(absl::string_view data_id) {
  const std::vector<absl::string_view> parts = absl::StrSplit(data_id, '/');
  return !data_id.empty() && !absl::StartsWith(data_id, "/") &&
         std::find(parts.begin(), parts.end(), "..") == parts.end();
}

}  // namespace

DataDeleter DeleteFilesIn(std::string folder) {
  return [folder = std::move(folder)](const std::string& data_id) -> absl::Status {
    if (StaysBelow(data_id)) return RemoveFile(JoinPath(folder, data_id));
    return absl::InvalidArgumentError(
        absl::StrCat("data_id '", data_id, "' is not a path below '", folder, "'"));
  };
}

UsedDataRemover::UsedDataRemover(DataDeleter deleter, size_t max_waiting)
    : deleter_(std::move(deleter)), max_waiting_(max_waiting) {
  absl::StatusOr<std::thread> thread = StartThread("deleting used data", [this] { Run(); });
  if (thread.ok()) {
    thread_ = *std::move(thread);
  } else {
    MutexLock lock(&mutex_);
    closing_ = true;  // Add() then deletes, as after Close().
  }
}

UsedDataRemover::~UsedDataRemover() { Close().IgnoreError(); }

void UsedDataRemover::Add(std::string data_id) {
  {
    MutexLock lock(&mutex_);
    if (!closing_ && waiting_.size() < max_waiting_) {
      waiting_.push_back(std::move(data_id));
      if (waiting_.size() == 1) changed_.Signal();
      return;
    }
  }
  Delete(data_id);
}

absl::Status UsedDataRemover::Close() {
  {
    MutexLock lock(&mutex_);
    closing_ = true;
    changed_.Signal();
  }
  if (thread_.joinable()) thread_.join();
  MutexLock lock(&mutex_);
  const int64_t failed = std::exchange(failed_since_close_, 0);
  const absl::Status first = std::exchange(first_error_, absl::OkStatus());
  if (failed == 0) return absl::OkStatus();
  return absl::Status(
      first.code(), absl::StrCat(failed, " of ", deleted_ + failed_,
                                 " used data could not be deleted, the first: ", first.message()));
}

int64_t UsedDataRemover::deleted() const {
  MutexLock lock(&mutex_);
  return deleted_;
}

int64_t UsedDataRemover::failed() const {
  MutexLock lock(&mutex_);
  return failed_;
}

void UsedDataRemover::Run() {
  while (true) {
    std::deque<std::string> data_ids;
    {
      MutexLock lock(&mutex_);
      while (waiting_.empty() && !closing_) changed_.WaitFor(&mutex_, absl::InfiniteDuration());
      if (waiting_.empty()) return;
      if (!closing_) changed_.WaitFor(&mutex_, kCollect);
      data_ids.swap(waiting_);
    }
    for (const std::string& data_id : data_ids) Delete(data_id);
  }
}

void UsedDataRemover::Delete(const std::string& data_id) {
  const absl::Status status = deleter_(data_id);
  MutexLock lock(&mutex_);
  if (status.ok()) {
    ++deleted_;
    return;
  }
  ++failed_;
  ++failed_since_close_;
  if (first_error_.ok()) first_error_ = status;
}

}  // namespace ding
