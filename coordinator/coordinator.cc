// The thread of the coordinator: lets a RunDriver apply the events that calls make, one after the
// other.
//
//     Handle(), Admit(), ... ──► queue ──► RunDriver: Apply() all that wait, Commit() ──► the callbacks
//
// Events that wait share one write of the journal. The queue is bounded: it has at most a few
// events of each worker, because a worker's next message comes when the one before is done. While
// the run pauses, because the journal cannot be written, events stay in the queue; only questions
// and the end of the run are served.
#include "ding_worker/coordinator/coordinator.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <iterator>
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
#include "absl/time/time.h"
#include "ding_worker/base/call_user.h"
#include "ding_worker/base/check.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/mutex.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/base/thread.h"
#include "ding_worker/coordinator/commander/base_commander.h"
#include "ding_worker/coordinator/core/events.pb.h"
#include "ding_worker/coordinator/core/run_driver.h"
#include "ding_worker/coordinator/core/run_state.h"
#include "ding_worker/coordinator/core/timed_sender.h"
#include "ding_worker/coordinator/state/worker_roster.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/metrics/sink.h"
#include "ding_worker/metrics/time_histogram.h"
#include "ding_worker/replay_buffer/used_data_remover.h"

namespace ding {
namespace {

using internal_coordinator::RunDriver;
using internal_coordinator::StatusOf;
using internal_coordinator::TimedSender;
using internal_coordinator::TimeToNextEvent;
using internal_coordinator::Worker;

// The time between two attempts to write a journal, if the first one failed.
constexpr absl::Duration kWriteRetry = absl::Milliseconds(20);

// Something to do on the coordinator's thread.
struct Job {
  std::function<void()> run;
  bool while_paused = false;  // whether it may run while the run pauses
  // If it is not null, it becomes true when this job has run and the effects of all jobs up to it
  // are carried out.
  bool* done = nullptr;
};

class CoordinatorImpl : public Coordinator {
 public:
  // `remover` is what parts.delete_key calls.
  CoordinatorImpl(const Options& options, Parts parts, const ComponentDeps& deps,
                  std::unique_ptr<UsedDataRemover> remover)
      : clock_(deps.clock),
        remover_(std::move(remover)),
        sender_(std::exchange(parts.sender, &sender_), deps.clock),
        driver_(options, std::move(parts), deps.clock->MonotonicNanos()) {}
  ~CoordinatorImpl() override;

  // As RunDriver::Recover(). Then the coordinator's thread begins.
  absl::Status Recover();

  void Start() override;
  void Admit(const Hello& hello, Admitted admitted) override;
  void WorkerJoined(uint32_t worker, const Hello& hello, const std::string& peer) override;
  void WorkerLost(uint32_t worker, const absl::Status& why) override;
  void Handle(uint32_t worker, WorkerMessage message, Done done) override;
  bool DealWithCollectorJudgeFinish(const CollectorFinished& info) const override {
    return Judge(&BaseCommander::JudgeCollectorFinish, info);
  }
  bool DealWithLearnerJudgeFinish(const LearnerInfo& info) const override {
    return Judge(&BaseCommander::JudgeLearnerFinish, info);
  }
  absl::Status WaitUntilDone(absl::Duration timeout) override;
  void RequestEnd(const std::string& reason) override;
  absl::Status CloseJournal() override;
  void KeepData() override;
  absl::Status Close(const std::string& reason) override;
  // It does not change after Recover().
  int32_t incarnation() const override { return driver_.state().incarnation; }
  RunStatus status() const override;
  Counters counters() const override;
  StageTimes stage_times() const override { return sender_.stage_times(); }

 private:
  void Post(Job job) const ABSL_LOCKS_EXCLUDED(mutex_);
  void PostEvent(Event event);
  // Runs `ask` on the coordinator's thread, also while the run pauses, and waits for it.
  void Ask(const std::function<void()>& ask) const ABSL_LOCKS_EXCLUDED(mutex_);

  template <typename Info>
  bool Judge(bool (BaseCommander::*judge)(const Info&) const, const Info& info) const {
    bool finished = false;
    Ask([&] {
      finished = driver_.state().workers.Runs(info.task_id()) &&
                 driver_.state().commander.Call(judge, info);
    });
    return finished;
  }

  // The body of the thread.
  void Run() ABSL_LOCKS_EXCLUDED(mutex_);
  // Waits for jobs that may run now, or for the timer, or for the end of the pause. Returns false
  // if the thread must end.
  bool TakeJobs(std::vector<Job>* jobs) ABSL_LOCKS_EXCLUDED(mutex_);
  // Commits what was applied, and calls back those whose events are written.
  void Finish() ABSL_LOCKS_EXCLUDED(mutex_);

  // These run on the coordinator's thread.
  void Answer(uint32_t worker, const WorkerMessage& message, const Done& done);
  OperatorReply Operate(const OperatorRequest& request);
  RunStatus FullStatus() const;

  const Clock* const clock_;
  const std::unique_ptr<UsedDataRemover> remover_;
  std::thread thread_;

  Mutex close_mutex_;  // held by Close()
  mutable Mutex mutex_;
  mutable CondVar work_;   // the thread waits for it
  mutable CondVar asked_;  // Ask() waits for it
  CondVar over_;           // ended_
  mutable std::vector<Job> queue_ ABSL_GUARDED_BY(mutex_);
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status final_status_ ABSL_GUARDED_BY(mutex_);

  // These belong to the coordinator's thread. A question sets the driver's clock.
  mutable TimedSender sender_;
  mutable RunDriver driver_;
  Deadline timer_ = Deadline::Never();  // when the next timer event is due
  bool started_ = false;
  std::vector<std::function<void()>> written_;  // called once everything applied so far is written
  std::map<uint32_t, Done> held_;               // of messages whose data wait, by worker
};

absl::Status CoordinatorImpl::Recover() {
  DING_RETURN_IF_ERROR(Annotate(driver_.Recover(), "going on with the run of the journal"));
  DING_ASSIGN_OR_RETURN(thread_, StartThread("coordinator", [this] { Run(); }));
  return absl::OkStatus();
}

CoordinatorImpl::~CoordinatorImpl() {
  if (!thread_.joinable()) return;  // Recover() has failed.
  CoordinatorImpl::Close("the coordinator is closed").IgnoreError();
  {
    MutexLock lock(&mutex_);
    stop_ = true;
    work_.Signal();
  }
  thread_.join();
}

void CoordinatorImpl::Post(Job job) const {
  MutexLock lock(&mutex_);
  queue_.push_back(std::move(job));
  work_.Signal();
}

void CoordinatorImpl::Ask(const std::function<void()>& ask) const {
  bool done = false;
  Post({[this, &ask] {
          driver_.mutable_state()->clock.Set(clock_->MonotonicNanos());
          ask();
        },
        /*while_paused=*/true, &done});
  MutexLock lock(&mutex_);
  while (!done) asked_.WaitFor(&mutex_, absl::InfiniteDuration());
}

void CoordinatorImpl::Run() {
  std::vector<Job> jobs;
  while (TakeJobs(&jobs)) {
    for (const Job& job : jobs) job.run();
    if (driver_.paused().ok() && !driver_.state().ended && timer_.Passed()) {
      Event event;
      event.set_timer(true);
      driver_.Apply(clock_->MonotonicNanos(), &event);
      timer_ = Deadline::After(TimeToNextEvent(driver_.state()));
    }
    Finish();
    MutexLock lock(&mutex_);
    for (const Job& job : jobs) {
      if (job.done != nullptr) *job.done = true;
    }
    asked_.SignalAll();
  }
}

bool CoordinatorImpl::TakeJobs(std::vector<Job>* jobs) {
  jobs->clear();
  const bool paused = !driver_.paused().ok();
  const auto may_run = [paused](const Job& job) { return !paused || job.while_paused; };
  const Deadline due = paused                  ? Deadline::After(kWriteRetry)
                       : driver_.state().ended ? Deadline::Never()
                                               : timer_;
  MutexLock lock(&mutex_);
  while (!stop_ && std::none_of(queue_.begin(), queue_.end(), may_run) &&
         work_.WaitUntil(&mutex_, due)) {
  }
  if (stop_) return false;
  jobs->swap(queue_);
  const auto later = std::stable_partition(jobs->begin(), jobs->end(), may_run);
  queue_.assign(std::make_move_iterator(later), std::make_move_iterator(jobs->end()));
  jobs->erase(later, jobs->end());
  return true;
}

void CoordinatorImpl::Finish() {
  const bool written = driver_.Commit(clock_->MonotonicNanos()).ok();
  for (const auto& [worker, status] : driver_.TakeHandled()) {
    const auto found = held_.find(worker);
    if (found == held_.end()) continue;
    written_.push_back([done = std::move(found->second), status = status] { done(status); });
    held_.erase(found);
  }
  if (started_ && driver_.TakeTimerChanged()) {
    timer_ = Deadline::After(TimeToNextEvent(driver_.state()));
  }
  if (driver_.state().ended) {
    MutexLock lock(&mutex_);
    if (!std::exchange(ended_, true)) final_status_ = driver_.state().final_status;
    over_.SignalAll();
  }
  if (!written) return;
  for (const std::function<void()>& call : std::exchange(written_, {})) call();
}

void CoordinatorImpl::Start() {
  Ask([this] {
    started_ = true;
    timer_ = Deadline::After(absl::ZeroDuration());
    Event event;
    event.set_start(true);
    driver_.Apply(clock_->MonotonicNanos(), &event);
  });
}

void CoordinatorImpl::Admit(const Hello& hello, Admitted admitted) {
  const auto admit = [this, hello] {
    Event event;
    *event.mutable_admit() = hello;
    const RunDriver::Result result = driver_.Apply(clock_->MonotonicNanos(), &event);
    return result.status.ok() ? absl::StatusOr<uint32_t>(result.admitted) : result.status;
  };
  // Nothing of an operator is written, so that one may come while the run pauses.
  if (hello.role() == Hello::OPERATOR) {
    return Post({[admit, admitted = std::move(admitted)] { admitted(admit()); },
                 /*while_paused=*/true});
  }
  Post({[this, admit, admitted = std::move(admitted)] {
    written_.push_back([number = admit(), admitted] { admitted(number); });
  }});
}

void CoordinatorImpl::WorkerJoined(uint32_t worker, const Hello& hello, const std::string& peer) {
  Event event;
  event.set_worker(worker);
  Event::Joined* const joined = event.mutable_joined();
  *joined->mutable_hello() = hello;
  joined->set_peer(peer);
  for (std::string& key : driver_.PreviousKeys(hello)) joined->add_previous_key(std::move(key));
  PostEvent(std::move(event));
}

void CoordinatorImpl::WorkerLost(uint32_t worker, const absl::Status& why) {
  Event event;
  event.set_worker(worker);
  event.mutable_lost()->set_code(static_cast<int>(why.code()));
  event.mutable_lost()->set_why(std::string(why.message()));
  PostEvent(std::move(event));
  Post({[this, worker] { sender_.ForgetWorker(worker); }});
}

void CoordinatorImpl::PostEvent(Event event) {
  Post({[this, event = std::move(event)]() mutable {
    driver_.Apply(clock_->MonotonicNanos(), &event);
  }});
}

void CoordinatorImpl::Handle(uint32_t worker, WorkerMessage message, Done done) {
  if (message.has_status_request() || message.has_operator_request()) {
    return Post({[this, worker, message = std::move(message), done = std::move(done)] {
                   Answer(worker, message, done);
                 },
                 /*while_paused=*/true});
  }
  Event event;
  event.set_worker(worker);
  event.mutable_message()->Swap(&message);
  Post({[this, event = std::move(event), done = std::move(done),
         begun = clock_->MonotonicNanos()]() mutable {
    const uint32_t worker = event.worker();
    const Worker* const sender = driver_.state().workers.Find(worker);
    const std::function<void()> measure = sender_.Measure(event.message(), sender, begun);
    Done annotated = [worker, measure, done = std::move(done)](const absl::Status& status) {
      if (status.ok()) measure();
      done(Annotate(status, absl::StrCat("worker ", worker)));
    };
    const RunDriver::Result result = driver_.Apply(clock_->MonotonicNanos(), &event);
    if (result.waits) {
      held_[worker] = std::move(annotated);
    } else {
      written_.push_back(
          [annotated = std::move(annotated), status = result.status] { annotated(status); });
    }
  }});
}

void CoordinatorImpl::Answer(uint32_t worker, const WorkerMessage& message, const Done& done) {
  driver_.mutable_state()->clock.Set(clock_->MonotonicNanos());
  CoordinatorMessage answer;
  const bool pauses = !driver_.paused().ok();
  if (message.has_status_request()) {
    *answer.mutable_run_status() = FullStatus();
  } else if (driver_.state().workers.Find(worker) != nullptr) {
    return done(absl::PermissionDeniedError(
        absl::StrCat("worker ", worker, " sent a request that only an operator may send")));
  } else {
    *answer.mutable_operator_reply() = Operate(message.operator_request());
  }
  const auto send = [this, worker, answer = std::move(answer), done] {
    sender_.Send(worker, answer);
    done(absl::OkStatus());
  };
  if (pauses) {
    send();
  } else {
    written_.push_back(send);
  }
}

OperatorReply CoordinatorImpl::Operate(const OperatorRequest& request) {
  RunDriver::Result result;
  if (driver_.paused().ok()) {
    Event event;
    *event.mutable_request() = request;
    result = driver_.Apply(clock_->MonotonicNanos(), &event);
  } else if (!request.has_inspect()) {
    result.status = absl::UnavailableError(absl::StrCat(
        "the run pauses, because its journal cannot be written: ", driver_.paused().message()));
  }
  OperatorReply reply;
  reply.set_code(static_cast<int>(result.status.code()));
  reply.set_message(result.status.ok() ? result.reply : std::string(result.status.message()));
  *reply.mutable_status() = FullStatus();
  if (result.status.ok())
    internal_coordinator::KeepNamed(request.inspect(), reply.mutable_status());
  return reply;
}

RunStatus CoordinatorImpl::FullStatus() const {
  RunStatus status = StatusOf(driver_.state());
  for (WorkerStatus& worker : *status.mutable_worker()) {
    const std::optional<absl::Duration> left = sender_.LeaseLeft(worker.worker());
    if (left.has_value()) worker.set_lease_seconds_left(absl::ToDoubleSeconds(*left));
  }
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
  Ask([this] { driver_.Close(driver_.state().now()); });
  return remover_->Close();
}

}  // namespace

void Coordinator::DealWithCollectorSendData(uint32_t worker, CollectorData data, Done done) {
  WorkerMessage message;
  *message.mutable_collector_data() = std::move(data);
  Handle(worker, std::move(message), std::move(done));
}

void Coordinator::DealWithCollectorFinishTask(uint32_t worker, CollectorFinished info, Done done) {
  WorkerMessage message;
  *message.mutable_collector_finished() = std::move(info);
  Handle(worker, std::move(message), std::move(done));
}

void Coordinator::DealWithLearnerGetData(uint32_t worker, LearnerDemand demand, Done done) {
  WorkerMessage message;
  *message.mutable_learner_demand() = std::move(demand);
  Handle(worker, std::move(message), std::move(done));
}

void Coordinator::DealWithLearnerSendInfo(uint32_t worker, LearnerInfo info, Done done) {
  WorkerMessage message;
  *message.mutable_learner_info() = std::move(info);
  Handle(worker, std::move(message), std::move(done));
}

void Coordinator::DealWithLearnerFinishTask(uint32_t worker, LearnerInfo info, Done done) {
  info.set_learner_done(true);
  DealWithLearnerSendInfo(worker, std::move(info), std::move(done));
}

absl::StatusOr<std::unique_ptr<Coordinator>> Coordinator::Create(const Options& options,
                                                                 Parts parts,
                                                                 const ComponentDeps& deps) {
  std::vector<std::string> problems = Problems(options);
  if (parts.commander == nullptr) problems.push_back("no commander");
  if (parts.make_buffer == nullptr) problems.push_back("nothing that makes buffers");
  if (parts.delete_key == nullptr) problems.push_back("nothing that deletes data");
  if (parts.sender == nullptr) problems.push_back("no sender");
  DING_RETURN_IF_ERROR(ProblemsToStatus(problems, "coordinator"));
  auto remover = absl::make_unique<UsedDataRemover>(
      [deletes = std::move(parts.delete_key)](const std::string& key) {
        return CallUser("delete_key", [&] { return deletes(key); });
      });
  parts.delete_key = [to = remover.get()](const std::string& key) {
    to->Add(key);
    return absl::OkStatus();
  };
  auto coordinator =
      absl::make_unique<CoordinatorImpl>(options, std::move(parts), deps, std::move(remover));
  DING_RETURN_IF_ERROR(coordinator->Recover());
  return coordinator;
}

}  // namespace ding
