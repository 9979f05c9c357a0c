#include "ding_worker/learner/async_data_loader.h"

#include <algorithm>
#include <deque>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/call_user.h"
#include "ding_worker/base/check.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/log.h"
#include "ding_worker/base/mutex.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/base/thread.h"

namespace ding {
namespace {

class ThreadedDataLoader : public AsyncDataLoader {
 public:
  ThreadedDataLoader(const Options& options, BatchSource source, std::function<void()> cancel)
      : options_(options),
        num_workers_(static_cast<size_t>(std::max(1, options.num_workers))),
        max_slots_(std::max(2 * num_workers_, static_cast<size_t>(options.batches_ahead))),
        source_(std::move(source)),
        cancel_(std::move(cancel)) {}
  ~ThreadedDataLoader() override { Close(); }

  // Once, before the others.
  absl::Status Start() ABSL_LOCKS_EXCLUDED(join_mutex_);

  absl::StatusOr<std::optional<TrainData>> Next() override ABSL_LOCKS_EXCLUDED(mutex_);
  void Close() override ABSL_LOCKS_EXCLUDED(mutex_, join_mutex_);

 private:
  // A batch between source and Next(). Its address stays the same while other slots are added.
  struct Slot {
    BatchLoader load;
    bool begun = false;
    std::optional<absl::StatusOr<TrainData>> loaded;
  };

  // The thread that calls the source.
  void Ask() ABSL_LOCKS_EXCLUDED(mutex_);
  // A thread that loads batches.
  void Load() ABSL_LOCKS_EXCLUDED(mutex_);
  // Waits for a slot to load; returns null when there will be no more.
  std::shared_ptr<Slot> NextToLoad() ABSL_LOCKS_EXCLUDED(mutex_);
  // Drops the batches that Next() has not returned; no more are loaded.
  void End() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Options options_;
  const size_t num_workers_;
  const size_t max_slots_;
  const BatchSource source_;
  const std::function<void()> cancel_;

  Mutex mutex_;
  // One condition per waiting function, so that a batch wakes only the threads that need it.
  CondVar room_;                                                     // for Ask()
  CondVar to_load_;                                                  // for Load()
  CondVar loaded_;                                                   // for Next()
  std::deque<std::shared_ptr<Slot>> slots_ ABSL_GUARDED_BY(mutex_);  // in the order of the source
  bool source_ended_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status source_status_ ABSL_GUARDED_BY(mutex_);  // returned once, by Next()
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;

  Mutex join_mutex_;
  std::vector<std::thread> threads_ ABSL_GUARDED_BY(join_mutex_);
  bool cancelled_ ABSL_GUARDED_BY(join_mutex_) = false;
};

absl::Status ThreadedDataLoader::Start() {
  const MutexLock lock(&join_mutex_);
  for (size_t i = 0; i < num_workers_; ++i) {
    DING_ASSIGN_OR_RETURN(std::thread loading, StartThread("loading batches", [this] { Load(); }));
    threads_.push_back(std::move(loading));
  }
  // The last one: it may wait for whoever draws, until it is cancelled.
  DING_ASSIGN_OR_RETURN(std::thread asking, StartThread("asking for batches", [this] { Ask(); }));
  threads_.push_back(std::move(asking));
  return absl::OkStatus();
}

void ThreadedDataLoader::Ask() {
  bool full = false;
  while (true) {
    {
      const MutexLock lock(&mutex_);
      // When all slots are full, pause until half of them are free: with few processors, threads
      // that alternate batch by batch mostly wait for each other.
      while (full && !ended_ && slots_.size() > max_slots_ / 2) {
        room_.WaitFor(&mutex_, absl::Hours(1));
      }
      if (ended_) return;
    }
    absl::StatusOr<std::optional<BatchLoader>> next = CallUser("the source of batches", source_);
    const MutexLock lock(&mutex_);
    if (ended_) return;
    if (next.ok() && next->has_value()) {
      slots_.push_back(std::make_shared<Slot>());
      slots_.back()->load = **std::move(next);
      full = slots_.size() >= max_slots_;
      to_load_.Signal();
      continue;
    }
    source_ended_ = true;
    source_status_ = next.status();
    to_load_.SignalAll();
    loaded_.Signal();
    return;
  }
}

std::shared_ptr<ThreadedDataLoader::Slot> ThreadedDataLoader::NextToLoad() {
  const MutexLock lock(&mutex_);
  while (!ended_) {
    for (const std::shared_ptr<Slot>& slot : slots_) {
      if (slot->begun) continue;
      slot->begun = true;
      return slot;
    }
    if (source_ended_) return nullptr;
    to_load_.WaitFor(&mutex_, absl::Hours(1));
  }
  return nullptr;
}

void ThreadedDataLoader::Load() {
  while (const std::shared_ptr<Slot> slot = NextToLoad()) {
    absl::StatusOr<TrainData> loaded = CallUser("loading a batch", slot->load);
    const MutexLock lock(&mutex_);
    slot->loaded = std::move(loaded);
    if (!slots_.empty() && slot == slots_.front()) loaded_.Signal();
  }
}

absl::StatusOr<std::optional<TrainData>> ThreadedDataLoader::Next() {
  const Deadline deadline = Deadline::After(options_.timeout);
  const MutexLock lock(&mutex_);
  while (!ended_) {
    if (!slots_.empty() && slots_.front()->loaded.has_value()) {
      absl::StatusOr<TrainData> data = *std::move(slots_.front()->loaded);
      slots_.pop_front();
      if (slots_.size() <= max_slots_ / 2) room_.Signal();
      if (data.ok()) return *std::move(data);
      End();
      return data.status();
    }
    if (slots_.empty() && source_ended_) {
      End();
      if (!source_status_.ok()) return source_status_;
      break;
    }
    if (!loaded_.WaitUntil(&mutex_, deadline) && deadline.Passed()) {
      return absl::DeadlineExceededError(
          absl::StrCat("no batch within ", absl::FormatDuration(options_.timeout), ": ",
                       slots_.empty() ? "the source returns none"
                                      : absl::StrCat(slots_.size(), " are being loaded")));
    }
  }
  return std::nullopt;
}

void ThreadedDataLoader::End() {
  ended_ = true;
  slots_.clear();
  room_.SignalAll();
  to_load_.SignalAll();
  loaded_.SignalAll();
}

void ThreadedDataLoader::Close() {
  {
    const MutexLock lock(&mutex_);
    End();
  }
  const MutexLock lock(&join_mutex_);
  if (!std::exchange(cancelled_, true) && cancel_) {
    const absl::Status status = CallUser("cancelling the source of batches", [this] {
      cancel_();
      return absl::OkStatus();
    });
    if (!status.ok()) DING_LOG(ERROR) << status.message();
  }
  for (std::thread& thread : threads_) {
    DING_CHECK(thread.get_id() != std::this_thread::get_id())
        << "the source of batches or a loader of one calls Close(), which waits for it";
    thread.join();
  }
  threads_.clear();
}

}  // namespace

absl::StatusOr<std::unique_ptr<AsyncDataLoader>> AsyncDataLoader::Create(
    const Options& options, BatchSource source, std::function<void()> cancel) {
  if (options.num_workers < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("data loader: num_workers is ", options.num_workers, ", expected 0 or more"));
  }
  if (options.batches_ahead < 0) {
    return absl::InvalidArgumentError(absl::StrCat("data loader: batches_ahead is ",
                                                   options.batches_ahead, ", expected 0 or more"));
  }
  if (source == nullptr)
    return absl::InvalidArgumentError("data loader: the source of batches is null");
  if (options.timeout <= absl::ZeroDuration()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "data loader: timeout is ", absl::FormatDuration(options.timeout), ", expected above 0"));
  }
  auto loader = std::make_unique<ThreadedDataLoader>(options, std::move(source), std::move(cancel));
  DING_RETURN_IF_ERROR(loader->Start());
  return loader;
}

}  // namespace ding
