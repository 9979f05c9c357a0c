// The threads of the coordinator: turns calls into events, and lets a RunDriver apply them one after the other.
//
//     Handle(), Admit(), ... ──► queue ──► RunDriver: Apply() all that wait, Commit() ──► the calls return
//
// At any moment at most one thread drives. A thread that brings an event drives until its own event is done, unless
// another one does so already. Events that come meanwhile share one write of the journal. While the run pauses, because
// the journal cannot be written, events stay in the queue; only questions and the end of the run are served.
#include "ding_worker/coordinator/coordinator.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "ding_worker/base/call_user.h"
#include "ding_worker/base/check.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/mutex.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/base/thread.h"
#include "ding_worker/coordinator/core/events.pb.h"
#include "ding_worker/coordinator/core/run_driver.h"
#include "ding_worker/coordinator/core/run_state.h"
#include "ding_worker/data/state.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/metrics/component.h"
#include "ding_worker/replay_buffer/selection/replay_ratio_limiter.h"
#include "ding_worker/replay_buffer/used_data_remover.h"

namespace ding {
namespace {

using internal_coordinator::RunDriver;
using internal_coordinator::StatusOf;
using internal_coordinator::TimeToNextEvent;

// The time between two attempts to write a journal, if the first one failed.
constexpr absl::Duration kWriteRetry = absl::Milliseconds(20);

// An event or a question, and what became of it.
struct Request {
  Event event;
  std::function<void()> ask;  // not null: a question instead of an event

  RunDriver::Result result;
  std::optional<RunStatus> run_status;  // of an operator's request
  bool done = false;
  CondVar changed;
};

class CoordinatorImpl : public Coordinator {
 public:
  // `remover` is what parts.delete_key calls.
  CoordinatorImpl(const Options& options, Parts parts, const ComponentDeps& deps,
                  std::unique_ptr<UsedDataRemover> remover)
      : clock_(deps.clock),
        remover_(std::move(remover)),
        driver_(options, std::move(parts), deps.clock->MonotonicNanos()) {}
  ~CoordinatorImpl() override { Close("the coordinator is closed").IgnoreError(); }

  // As RunDriver::Recover().
  absl::Status Recover() { return driver_.Recover(); }

  void Start() override;
  absl::StatusOr<uint32_t> Admit(const Hello& hello) override;
  void WorkerJoined(uint32_t worker, const Hello& hello, const std::string& peer) override;
  void WorkerLost(uint32_t worker, const absl::Status& why) override;
  absl::Status Handle(uint32_t worker, const WorkerMessage& message) override;
  absl::Status WaitUntilDone(absl::Duration timeout) override;
  void RequestEnd(const std::string& reason) override;
  absl::Status CloseJournal() override;
  void KeepData() override;
  absl::Status Close(const std::string& reason) override;
  OperatorReply Operate(const OperatorRequest& request) override;
  // It does not change after Recover().
  int32_t incarnation() const override { return driver_.state().incarnation; }
  RunStatus status() const override;
  Counters counters() const override;

 private:
  // Queues the request, and returns when it is done.
  void Await(Request* request) const ABSL_LOCKS_EXCLUDED(mutex_);
  // Calls `ask` on the thread that drives, also while the run pauses.
  void Ask(std::function<void()> ask) const ABSL_LOCKS_EXCLUDED(mutex_);
  // Serves what is queued. Releases the lock meanwhile.
  void Drive() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool IsServed(const Request& request) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return !paused_ || request.ask != nullptr;
  }
  void RunTimer() ABSL_LOCKS_EXCLUDED(mutex_);
  void JoinTimer();
  RunStatus FullStatus() const;
  // Serves a request, on the thread that drives.
  void Serve(Request* request) const;

  const Clock* const clock_;
  const std::unique_ptr<UsedDataRemover> remover_;
  std::thread timer_thread_;

  // Held by Close(), which joins threads. mutex_ may be taken while it is held.
  Mutex close_mutex_;
  // Calls that do not change the run are served by the thread that drives, too, so all of this is mutable.
  mutable Mutex mutex_;
  mutable CondVar timer_;  // timer_changed_, paused_, ended_
  mutable CondVar over_;   // ended_
  mutable std::vector<Request*> queue_ ABSL_GUARDED_BY(mutex_);
  mutable bool driving_ ABSL_GUARDED_BY(mutex_) = false;
  mutable bool timer_changed_ ABSL_GUARDED_BY(mutex_) = false;
  mutable absl::Duration wait_ ABSL_GUARDED_BY(mutex_) = absl::ZeroDuration();
  mutable bool paused_ ABSL_GUARDED_BY(mutex_) = false;
  mutable bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  mutable absl::Status final_status_ ABSL_GUARDED_BY(mutex_);

  // These belong to the thread that drives.
  mutable RunDriver driver_;
  mutable std::map<uint32_t, Request*> held_;  // requests whose data wait, by worker
  mutable std::vector<Request*> served_;       // done once their effects are carried out
};

void CoordinatorImpl::Await(Request* request) const {
  MutexLock lock(&mutex_);
  queue_.push_back(request);
  while (!request->done) {
    if (!driving_ && IsServed(*request)) {
      Drive();
    } else {
      request->changed.WaitFor(&mutex_, absl::InfiniteDuration());
    }
  }
}

void CoordinatorImpl::Ask(std::function<void()> ask) const {
  Request request;
  request.ask = std::move(ask);
  Await(&request);
}

void CoordinatorImpl::Drive() const {
  driving_ = true;
  std::vector<Request*> now;
  now.swap(queue_);
  if (paused_) {
    const auto later = std::stable_partition(
        now.begin(), now.end(),
        [this](const Request* request)
            ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return IsServed(*request); });
    queue_.assign(later, now.end());
    now.erase(later, now.end());
  }
  mutex_.Unlock();
  for (Request* const request : now) Serve(request);
  const bool written = driver_.Commit(clock_->MonotonicNanos()).ok();
  for (const auto& [worker, status] : driver_.TakeHandled()) {
    const auto found = held_.find(worker);
    if (found == held_.end()) continue;
    found->second->result.status = status;
    served_.push_back(found->second);
    held_.erase(found);
  }
  const bool timer_changed = driver_.TakeTimerChanged();
  const absl::Duration wait =
      timer_changed ? TimeToNextEvent(driver_.state()) : absl::ZeroDuration();
  mutex_.Lock();
  std::vector<Request*> done;
  if (written) done.swap(served_);
  for (Request* const request : now) {
    if (request->ask != nullptr) done.push_back(request);
  }
  for (Request* const request : done) {
    request->done = true;
    request->changed.Signal();
  }
  if (timer_changed) wait_ = wait;
  timer_changed_ = timer_changed_ || timer_changed || paused_ == written;
  paused_ = !written;
  if (driver_.state().ended && !ended_) {
    ended_ = true;
    final_status_ = driver_.state().final_status;
    over_.SignalAll();
  }
  if (timer_changed_ || ended_) timer_.Signal();
  driving_ = false;
  // One of those that wait drives next.
  const auto next =
      std::find_if(queue_.begin(), queue_.end(),
                   [this](const Request* request)
                       ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return IsServed(*request); });
  if (next != queue_.end()) (*next)->changed.Signal();
}

void CoordinatorImpl::Serve(Request* request) const {
  if (request->ask != nullptr) {
    driver_.mutable_state()->clock.Set(clock_->MonotonicNanos());
    request->ask();
    return;
  }
  request->result = driver_.Apply(clock_->MonotonicNanos(), &request->event);
  if (request->event.has_request()) request->run_status = FullStatus();
  if (request->result.waits) {
    held_[request->event.worker()] = request;
  } else {
    served_.push_back(request);
  }
}

void CoordinatorImpl::Start() {
  Request start;
  start.event.set_start(true);
  Await(&start);
  absl::StatusOr<std::thread> timer =
      StartThread("the timer of the coordinator", [this] { RunTimer(); });
  if (timer.ok()) {
    timer_thread_ = *std::move(timer);
    return;
  }
  Request end;
  end.event.mutable_end()->set_code(static_cast<int>(timer.status().code()));
  end.event.mutable_end()->set_message(std::string(timer.status().message()));
  end.event.mutable_end()->set_reason("the coordinator has no timer");
  Await(&end);
}

void CoordinatorImpl::RunTimer() {
  while (true) {
    {
      MutexLock lock(&mutex_);
      if (ended_) return;
      timer_changed_ = false;
      timer_.WaitFor(&mutex_, paused_ ? kWriteRetry : wait_);
      if (ended_) return;
      if (timer_changed_) continue;
      if (paused_) {
        if (!driving_) Drive();
        continue;
      }
    }
    Request timer;
    timer.event.set_timer(true);
    Await(&timer);
  }
}

void CoordinatorImpl::JoinTimer() {
  if (timer_thread_.joinable()) timer_thread_.join();
}

absl::StatusOr<uint32_t> CoordinatorImpl::Admit(const Hello& hello) {
  Request request;
  *request.event.mutable_admit() = hello;
  Await(&request);
  DING_RETURN_IF_ERROR(request.result.status);
  return request.result.admitted;
}

void CoordinatorImpl::WorkerJoined(uint32_t worker, const Hello& hello, const std::string& peer) {
  Request request;
  request.event.set_worker(worker);
  Event::Joined* const joined = request.event.mutable_joined();
  *joined->mutable_hello() = hello;
  joined->set_peer(peer);
  for (std::string& key : driver_.PreviousKeys(hello)) joined->add_previous_key(std::move(key));
  Await(&request);
}

void CoordinatorImpl::WorkerLost(uint32_t worker, const absl::Status& why) {
  Request request;
  request.event.set_worker(worker);
  request.event.mutable_lost()->set_code(static_cast<int>(why.code()));
  request.event.mutable_lost()->set_why(std::string(why.message()));
  Await(&request);
}

absl::Status CoordinatorImpl::Handle(uint32_t worker, const WorkerMessage& message) {
  Request request;
  request.event.set_worker(worker);
  // The event borrows the message, which may be large, while this call lasts.
  request.event.unsafe_arena_set_allocated_message(const_cast<WorkerMessage*>(&message));
  Await(&request);
  request.event.unsafe_arena_release_message();
  return Annotate(request.result.status, absl::StrCat("worker ", worker));
}

OperatorReply CoordinatorImpl::Operate(const OperatorRequest& request) {
  Request asked;
  *asked.event.mutable_request() = request;
  bool pauses = false;
  Ask([this, &pauses, &asked] {
    pauses = !driver_.paused().ok();
    if (!pauses) return;
    asked.run_status = FullStatus();
    asked.result.status = absl::UnavailableError(absl::StrCat(
        "the run pauses, because its journal cannot be written: ", driver_.paused().message()));
  });
  if (pauses && request.has_inspect()) asked.result.status = absl::OkStatus();
  if (!pauses) Await(&asked);
  const absl::Status& status = asked.result.status;
  OperatorReply reply;
  reply.set_code(static_cast<int>(status.code()));
  reply.set_message(status.ok() ? asked.result.reply : std::string(status.message()));
  *reply.mutable_status() = *std::move(asked.run_status);
  if (status.ok()) internal_coordinator::KeepNamed(request.inspect(), reply.mutable_status());
  return reply;
}

RunStatus CoordinatorImpl::FullStatus() const {
  RunStatus status = StatusOf(driver_.state());
  if (!driver_.paused().ok()) {
    status.add_warning(absl::StrCat("the run pauses, because its journal cannot be written: ",
                                    driver_.paused().message()));
  }
  return status;
}

RunStatus CoordinatorImpl::status() const {
  RunStatus status;
  Ask([this, &status] { status = FullStatus(); });
  return status;
}

Coordinator::Counters CoordinatorImpl::counters() const {
  Counters counters;
  Ask([this, &counters] { counters = driver_.state().counters; });
  return counters;
}

absl::Status CoordinatorImpl::WaitUntilDone(absl::Duration timeout) {
  const Timer waited(Clock::Real());
  MutexLock lock(&mutex_);
  while (!ended_) {
    const absl::Duration left = timeout - waited.Elapsed();
    if (left <= absl::ZeroDuration()) {
      return absl::DeadlineExceededError(
          absl::StrCat("the run goes on after ", absl::FormatDuration(timeout)));
    }
    over_.WaitFor(&mutex_, left);
  }
  return final_status_;
}

void CoordinatorImpl::RequestEnd(const std::string& reason) {
  Ask([this, &reason] { driver_.End(driver_.state().now(), reason); });
}

absl::Status CoordinatorImpl::CloseJournal() {
  {
    MutexLock lock(&mutex_);
    DING_CHECK(ended_) << "the run goes on";
  }
  JoinTimer();
  absl::Status closed;
  Ask([this, &closed] { closed = driver_.CloseJournal(driver_.state().now()); });
  return closed;
}

void CoordinatorImpl::KeepData() {
  Ask([this] { driver_.KeepData(); });
}

absl::Status CoordinatorImpl::Close(const std::string& reason) {
  MutexLock only_one(&close_mutex_);
  RequestEnd(reason);
  JoinTimer();
  Ask([this] { driver_.Close(driver_.state().now()); });
  return remover_->Close();
}

// Their product does not overflow.
constexpr int64_t kMaxRoundRows = int64_t{1} << 40;
constexpr int64_t kMaxRoundsAhead = int64_t{1} << 20;

}  // namespace

std::vector<std::string> Coordinator::Problems(const Options& options) {
  std::vector<std::string> problems;
  if (options.collector_task_timeout <= absl::ZeroDuration()) {
    problems.push_back(absl::StrCat("collector_task_timeout is ",
                                    absl::FormatDuration(options.collector_task_timeout),
                                    ", expected more than 0"));
  }
  if (options.learner_task_timeout <= absl::ZeroDuration()) {
    problems.push_back(absl::StrCat("learner_task_timeout is ",
                                    absl::FormatDuration(options.learner_task_timeout),
                                    ", expected more than 0"));
  }
  if (options.collectors < 0) {
    problems.push_back(absl::StrCat("collectors is ", options.collectors, ", expected at least 0"));
  }
  if (options.wanted_collectors < 0) {
    problems.push_back(
        absl::StrCat("wanted_collectors is ", options.wanted_collectors, ", expected at least 0"));
  }
  if (options.max_collectors < 1) {
    problems.push_back(
        absl::StrCat("max_collectors is ", options.max_collectors, ", expected at least 1"));
  }
  if (options.max_task_failures < 1) {
    problems.push_back(
        absl::StrCat("max_task_failures is ", options.max_task_failures, ", expected at least 1"));
  }
  if (!(options.min_return <= options.max_return)) {
    problems.push_back(absl::StrCat("min_return is ", options.min_return, ", expected at most ",
                                    options.max_return, ", which is max_return"));
  }
  if (options.stall_timeout <= absl::ZeroDuration()) {
    problems.push_back(absl::StrCat("stall_timeout is ",
                                    absl::FormatDuration(options.stall_timeout),
                                    ", expected more than 0"));
  }
  if (options.replay_ratio.has_value()) {
    ReplayRatioLimiter::AppendProblems(*options.replay_ratio, /*draw_rows=*/0, &problems);
  }
  if (options.rounds.has_value() &&
      (options.rounds->rows < 1 || options.rounds->hand_over_rows < 1 ||
       options.rounds->ahead < 0 || options.rounds->rows > kMaxRoundRows ||
       options.rounds->hand_over_rows > kMaxRoundRows || options.rounds->ahead > kMaxRoundsAhead)) {
    problems.push_back(absl::StrCat("rounds are of ", options.rounds->rows, " rows, hand-overs of ",
                                    options.rounds->hand_over_rows, ", and ", options.rounds->ahead,
                                    " rounds are collected ahead, expected 1 to ", kMaxRoundRows,
                                    " rows, and 0 to ", kMaxRoundsAhead, " rounds"));
  }
  if (options.first_env_step < 0 || options.first_env_step > kMaxSavedCount) {
    problems.push_back(absl::StrCat("first_env_step is ", options.first_env_step,
                                    ", expected 0 to ", kMaxSavedCount));
  }
  if (options.random_collect_size < 0) {
    problems.push_back(absl::StrCat("random_collect_size is ", options.random_collect_size,
                                    ", expected at least 0"));
  }
  if (options.max_env_step < 0 || options.max_train_iter < 0 ||
      options.max_time < absl::ZeroDuration()) {
    problems.push_back("a budget is below 0, expected 0 for none");
  }
  return problems;
}

absl::StatusOr<std::unique_ptr<Coordinator>> Coordinator::Create(const Options& options,
                                                                 Parts parts,
                                                                 const ComponentDeps& deps) {
  std::vector<std::string> problems = Problems(options);
  if (parts.commander == nullptr) problems.push_back("no commander");
  if (parts.make_buffer == nullptr) problems.push_back("nothing that makes buffers");
  if (parts.delete_key == nullptr) problems.push_back("nothing that deletes data");
  if (parts.sender == nullptr) problems.push_back("no sender");
  if (!problems.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("coordinator: ", absl::StrJoin(problems, "; ")));
  }
  auto remover = absl::make_unique<UsedDataRemover>(
      [deletes = std::move(parts.delete_key)](const std::string& key) {
        return CallUser("delete_key", [&] { return deletes(key); });
      });
  parts.delete_key = [to = remover.get()](const std::string& key) {
    to->Add(key);
    return absl::OkStatus();
  };
  internal_coordinator::GuardParts(&parts);
  auto coordinator =
      absl::make_unique<CoordinatorImpl>(options, std::move(parts), deps, std::move(remover));
  DING_RETURN_IF_ERROR(Annotate(coordinator->Recover(), "going on with the run of the journal"));
  return coordinator;
}

}  // namespace ding
