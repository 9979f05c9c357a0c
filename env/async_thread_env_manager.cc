#include "ding_worker/env/async_thread_env_manager.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/mutex.h"
#include "ding_worker/base/process_resources.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/base/thread.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/image.h"
#include "ding_worker/data/state.h"
#include "ding_worker/env/env_host.h"
#include "ding_worker/env/env_workers.h"

namespace ding {
namespace {

// The request to an env and its answer, on a cache line of its own: other threads write to the
// neighbouring seats.
struct alignas(64) Seat {
  EpisodeStart start;
  EnvAnswer answer;
};

// The data that the caller shares with its threads. They live as long as the last thread, so that a
// thread that hangs can be left behind.
class Pool {
 public:
  Pool(std::unique_ptr<LocalEnvs> envs, BatchBuilder actions, int num_threads, const Clock* clock)
      : envs_(std::move(envs)),
        actions_(std::move(actions)),
        num_threads_(num_threads),
        clock_(clock),
        seats_(static_cast<size_t>(envs_->size())),
        running_(static_cast<size_t>(num_threads), -1) {
    queue_.reserve(seats_.size());
    answered_.reserve(seats_.size());
  }

  LocalEnvs* envs() { return envs_.get(); }
  MutableColumnsView actions() const { return actions_.view(); }
  Seat& seat(int env_id) { return seats_[static_cast<size_t>(env_id)]; }

  // Does what the seats of these envs ask for, one after the other. Nanoseconds it took.
  int64_t Run(absl::Span<const int> env_ids) {
    const int64_t begin = clock_->MonotonicNanos();
    for (const int env_id : env_ids) RunOne(env_id);
    return clock_->MonotonicNanos() - begin;
  }

  void Push(absl::Span<const int> env_ids) {
    const MutexLock lock(&mutex_);
    queue_.insert(queue_.end(), env_ids.begin(), env_ids.end());
    queued_.SignalAll();
  }

  // Appends who has answered; waits for `at_least` of them. kDeadlineExceeded names who is busy.
  absl::Status Take(int at_least, absl::Duration timeout, std::vector<int>* answered) {
    const MutexLock lock(&mutex_);
    const Deadline deadline = Deadline::After(timeout);
    absl::Status status;
    wanted_ = at_least;
    while (status.ok() && static_cast<int>(answered_.size()) < at_least) {
      if (!answered_any_.WaitUntil(&mutex_, deadline) && deadline.Passed()) {
        status = absl::DeadlineExceededError(
            absl::StrCat(Running(), " for more than ", absl::FormatDuration(timeout)));
      }
    }
    wanted_ = 0;
    answered->insert(answered->end(), answered_.begin(), answered_.end());
    answered_.clear();
    return status;
  }
  // The mean of what the threads measured since the last call, of resets (1) and steps (0).
  std::array<double, 2> TakeMeans(std::array<double, 2> known) {
    const MutexLock lock(&mutex_);
    for (size_t i = 0; i < 2; ++i) {
      if (counts_[i] > 0) known[i] = nanos_[i] / static_cast<double>(counts_[i]);
      nanos_[i] = 0;
      counts_[i] = 0;
    }
    return known;
  }

  void Work(size_t thread) {
    std::vector<int> mine;
    MutexLock lock(&mutex_);
    while (true) {
      while (queue_.empty() && !stopped_) queued_.WaitFor(&mutex_, absl::Hours(1));
      if (stopped_) break;
      // Enough to be worth the lock, and few enough that all threads end about together.
      const size_t share = queue_.size() / static_cast<size_t>(2 * num_threads_);
      const size_t count = std::clamp<size_t>(share, 1, 16);
      mine.assign(queue_.end() - static_cast<ptrdiff_t>(count), queue_.end());
      queue_.resize(queue_.size() - count);
      for (const int env_id : mine) {
        running_[thread] = env_id;
        const bool reset = seat(env_id).answer.reset;
        mutex_.Unlock();
        const int64_t nanos = Run({env_id});
        mutex_.Lock();
        nanos_[reset] += static_cast<double>(nanos);
        ++counts_[reset];
      }
      running_[thread] = -1;
      answered_.insert(answered_.end(), mine.begin(), mine.end());
      if (static_cast<int>(answered_.size()) >= wanted_) answered_any_.Signal();
    }
    ++ended_;
    answered_any_.Signal();
  }

  // Has the threads end. False if one does not in time.
  bool Stop(int threads, absl::Duration timeout) {
    const MutexLock lock(&mutex_);
    stopped_ = true;
    queue_.clear();
    queued_.SignalAll();
    const Deadline deadline = Deadline::After(timeout);
    while (ended_ < threads) {
      if (!answered_any_.WaitUntil(&mutex_, deadline) && deadline.Passed()) return false;
    }
    stopped_ = false;
    ended_ = 0;
    answered_.clear();
    return true;
  }

 private:
  void RunOne(int env_id) {
    Seat& seat = this->seat(env_id);
    EnvAnswer& answer = seat.answer;
    EnvHost& host = envs_->host(env_id);
    const RowRef obs = envs_->rows().row(env_id);
    if (answer.reset) {
      answer.status = host.Reset(seat.start, obs);
      return;
    }
    ClearStepResult(envs_->spec(), &answer.result);
    answer.status = host.Step(ColumnsView(actions_.view()).row(env_id), obs, &answer.result);
    if (answer.result.abnormal) answer.void_cause = host.TakeVoidCause();
  }

  // "env 3, env 5: busy".
  std::string Running() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    std::vector<std::string> names;
    for (const int env_id : running_) {
      if (env_id >= 0) names.push_back(absl::StrCat("env ", env_id));
    }
    return absl::StrCat(absl::StrJoin(names, ", "), " (", envs_->spec().name, "): busy");
  }

  const std::unique_ptr<LocalEnvs> envs_;
  const BatchBuilder actions_;  // row i: what env i is to do
  const int num_threads_;
  const Clock* const clock_;
  std::vector<Seat> seats_;  // of an env that is queued or running: its thread's, else the caller's

  Mutex mutex_;
  CondVar queued_;
  CondVar answered_any_;
  std::vector<int> queue_ ABSL_GUARDED_BY(mutex_);
  std::vector<int> answered_ ABSL_GUARDED_BY(mutex_);
  std::vector<int> running_ ABSL_GUARDED_BY(mutex_);  // per thread: its env, or -1
  int wanted_ ABSL_GUARDED_BY(mutex_) = 0;
  int ended_ ABSL_GUARDED_BY(mutex_) = 0;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  std::array<double, 2> nanos_ ABSL_GUARDED_BY(mutex_) = {};
  std::array<int64_t, 2> counts_ ABSL_GUARDED_BY(mutex_) = {};
};

class ThreadEnvWorkers : public EnvWorkers {
 public:
  ThreadEnvWorkers(const AsyncThreadEnvManagerOptions& options, std::shared_ptr<Pool> pool,
                   int num_threads)
      : pool_(std::move(pool)),
        num_threads_(num_threads),
        inline_below_(absl::ToDoubleNanoseconds(options.inline_below)),
        hang_timeout_(options.hang_timeout) {
    asked_.reserve(static_cast<size_t>(env_num()));
  }
  ~ThreadEnvWorkers() override { End(); }

  int env_num() const override { return pool_->envs()->size(); }
  const EnvSpec& spec() const override { return pool_->envs()->spec(); }
  MutableColumnsView rows() const override { return pool_->envs()->rows(); }

  MutableColumnsView actions() const override { return pool_->actions(); }

  void AskStep(int env_id) override { Ask(env_id, /*reset=*/false); }
  void AskReset(int env_id, const EpisodeStart& start) override {
    if (hang_.ok()) pool_->seat(env_id).start = start;
    Ask(env_id, /*reset=*/true);
  }

  absl::Status Wait(int at_least, std::vector<int>* answered) override {
    DING_RETURN_IF_ERROR(hang_);
    const bool all_at_once = at_least == busy_ && busy_ == static_cast<int>(asked_.size());
    if (all_at_once && busy_ > 0 && IsCheap()) {
      RunInline(answered);
      return absl::OkStatus();
    }
    if (!asked_.empty()) {
      DING_RETURN_IF_ERROR(StartThreads());
      pool_->Push(asked_);
      asked_.clear();
      asked_resets_ = 0;
      means_known_ = false;
    }
    const size_t before = answered->size();
    hang_ = pool_->Take(std::min(at_least, busy_), hang_timeout_, answered);
    busy_ -= static_cast<int>(answered->size() - before);
    return hang_;
  }
  EnvAnswer& answer(int env_id) override { return pool_->seat(env_id).answer; }

  absl::StatusOr<Image> Render(int env_id) override { return pool_->envs()->host(env_id).Render(); }
  absl::Status SaveState(int env_id, StateWriter* writer) override {
    return pool_->envs()->host(env_id).SaveState(writer);
  }
  absl::Status LoadState(int env_id, StateReader* reader) override {
    return pool_->envs()->host(env_id).LoadState(reader);
  }

  void End() override {
    asked_.clear();
    asked_resets_ = 0;
    busy_ = 0;
    if (!threads_.empty()) {
      const absl::Duration patience = hang_.ok() ? hang_timeout_ : absl::ZeroDuration();
      if (!pool_->Stop(static_cast<int>(threads_.size()), patience)) {
        hang_.Update(absl::DeadlineExceededError("an env hangs"));
        for (std::thread& thread : threads_) thread.detach();
        threads_.clear();
        return;  // The thread that hangs owns the pool from now on.
      }
      for (std::thread& thread : threads_) thread.join();
      threads_.clear();
    }
    if (hang_.ok()) pool_->envs()->End();
  }

 private:
  void Ask(int env_id, bool reset) {
    // The seats may belong to a thread that was left behind; Wait() says so.
    if (!hang_.ok()) return;
    pool_->seat(env_id).answer.reset = reset;
    asked_.push_back(env_id);
    asked_resets_ += reset ? 1 : 0;
    ++busy_;
  }

  absl::Status StartThreads() {
    if (!threads_.empty()) return absl::OkStatus();
    for (int i = 0; i < num_threads_; ++i) {
      DING_ASSIGN_OR_RETURN(std::thread thread,
                            StartThread(absl::StrCat("envs (", i, " of ", num_threads_, ")"),
                                        [pool = pool_, i] { pool->Work(static_cast<size_t>(i)); }));
      threads_.push_back(std::move(thread));
    }
    return absl::OkStatus();
  }

  // Whether threads would save less than it takes to use them.
  bool IsCheap() {
    if (inline_below_ <= 0) return false;
    if (!means_known_) {
      means_ = pool_->TakeMeans(means_);
      means_known_ = true;
    }
    const double work = means_[0] * static_cast<double>(asked_.size() - asked_resets_) +
                        means_[1] * static_cast<double>(asked_resets_);
    return work * (1 - 1.0 / num_threads_) < inline_below_;
  }

  void RunInline(std::vector<int>* answered) {
    const double nanos = static_cast<double>(pool_->Run(asked_));
    // Steps and resets seldom come together; where they do, the share of each stays as it was.
    if (asked_resets_ == 0 || asked_resets_ == asked_.size()) {
      double& mean = means_[asked_resets_ > 0];
      mean += (nanos / static_cast<double>(asked_.size()) - mean) / 16;
    }
    answered->insert(answered->end(), asked_.begin(), asked_.end());
    busy_ = 0;
    asked_.clear();
    asked_resets_ = 0;
  }

  const std::shared_ptr<Pool> pool_;
  const int num_threads_;
  const double inline_below_;  // nanoseconds
  const absl::Duration hang_timeout_;
  std::vector<std::thread> threads_;
  std::vector<int> asked_;  // and not yet begun
  size_t asked_resets_ = 0;
  int busy_ = 0;  // those of asked_ included
  absl::Status hang_;
  // Nanoseconds of a step and of a reset. Infinite, so that the first ones are done by threads.
  std::array<double, 2> means_ = {1e18, 1e18};
  bool means_known_ = false;
};

int NumThreads(int num_threads) { return num_threads > 0 ? num_threads : UsableCores(); }

}  // namespace

absl::StatusOr<std::unique_ptr<EnvManager>> CreateAsyncThreadEnvManager(
    AsyncThreadEnvManagerOptions options, std::vector<EnvFactory> factories) {
  std::vector<std::string> problems;
  if (options.num_threads < 0) {
    problems.push_back(absl::StrCat("num_threads is ", options.num_threads,
                                    ", expected 0 (one per core) or more"));
  }
  if (options.hang_timeout <= absl::ZeroDuration()) {
    problems.push_back(absl::StrCat("hang_timeout is ", absl::FormatDuration(options.hang_timeout),
                                    ", expected more than 0"));
  }
  DING_RETURN_IF_ERROR(
      AsyncEnvManager::Check(options, static_cast<int>(factories.size()), std::move(problems)));
  DING_ASSIGN_OR_RETURN(std::unique_ptr<LocalEnvs> envs,
                        LocalEnvs::Create(options, std::move(factories)));
  DING_ASSIGN_OR_RETURN(BatchBuilder actions, ZeroedRows(envs->spec().action, envs->size()));
  // More threads than envs have nothing to do.
  const int num_threads = std::min(NumThreads(options.num_threads), envs->size());
  auto pool =
      std::make_shared<Pool>(std::move(envs), std::move(actions), num_threads, options.clock);
  return AsyncEnvManager::Create(
      options, std::make_unique<ThreadEnvWorkers>(options, std::move(pool), num_threads));
}

}  // namespace ding
