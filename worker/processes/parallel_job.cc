#include "ding_worker/worker/processes/parallel_job.h"

#include <signal.h>
#include <sys/types.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/log.h"
#include "ding_worker/base/mutex.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/base/thread.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/interaction/transport/transport.h"
#include "ding_worker/worker/coordination/parallel_run.h"
#include "ding_worker/worker/coordination/run_memory.h"
#include "ding_worker/worker/processes/ask_operator.h"
#include "ding_worker/worker/processes/supervisor.h"
#include "ding_worker/worker/run_folder/run_folder.h"

namespace ding {
namespace {

constexpr char kCoordinator[] = "coordinator";
// Pauses between two checks of the processes, and between two questions for the coordinator's
// status.
constexpr absl::Duration kWatchPeriod = absl::Milliseconds(20);
constexpr absl::Duration kAskPeriod = absl::Milliseconds(250);
constexpr absl::Duration kAskTimeout = absl::Seconds(2);
// A coordinator that has answered before and then leaves so many questions in a row unanswered
// hangs: 10 seconds, including the pauses. Questions are counted instead of time, since the time in
// which nobody asked says nothing.
constexpr absl::Duration kAnswerTimeout = absl::Seconds(1);
constexpr int kMaxUnanswered = 8;
// Time for the coordinator to end a run whose processes cannot be kept alive, and for all of them
// to leave it.
constexpr absl::Duration kEndTimeout = absl::Seconds(30);
// After an interrupt, the time in which workers may leave because the coordinator asks them to.
// Then they are interrupted, too: one that is in something that takes long, such as a step of an
// env, ends all the same.
constexpr absl::Duration kWorkersPatience = absl::Seconds(1);
// Time for the processes to end after the run has ended.
constexpr absl::Duration kStopTimeout = absl::Seconds(5);

// Asks the coordinator for its status again and again, on a thread of its own.
class StatusWatch {
 public:
  StatusWatch(std::string address, Transport* transport)
      : address_(std::move(address)), transport_(transport) {}
  StatusWatch(const StatusWatch&) = delete;
  StatusWatch& operator=(const StatusWatch&) = delete;
  // Returns soon, also when the coordinator disappears in the middle of a question.
  ~StatusWatch() {
    done_.store(true);
    {
      MutexLock lock(&mutex_);
      changed_.SignalAll();
    }
    if (thread_.joinable()) thread_.join();
  }
  // To be called once.
  absl::Status Start() {
    DING_ASSIGN_OR_RETURN(thread_,
                          StartThread("asking the coordinator for its status", [this] { Run(); }));
    return absl::OkStatus();
  }

  // Returns the newest status that has arrived since the last call.
  std::optional<RunStatus> Take() {
    MutexLock lock(&mutex_);
    return std::exchange(newest_, std::nullopt);
  }
  // The number of questions in a row that got no reaction at all. A coordinator that closes the
  // connection, as at the end of the run, or refuses it, does react.
  int unanswered() {
    MutexLock lock(&mutex_);
    return unanswered_;
  }

 private:
  void Run() {
    MutexLock lock(&mutex_);
    while (!done_.load()) {
      absl::StatusOr<RunStatus> status = Ask();
      const bool silent =
          absl::IsDeadlineExceeded(status.status()) && !IsConnectRefused(status.status());
      unanswered_ = silent ? unanswered_ + 1 : 0;
      if (status.ok()) newest_ = *std::move(status);
      if (!done_.load()) changed_.WaitFor(&mutex_, kAskPeriod);
    }
  }
  // Asks while the lock is released.
  absl::StatusOr<RunStatus> Ask() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    mutex_.Unlock();
    absl::StatusOr<RunStatus> status = AskStatus(address_, "supervisor", kAnswerTimeout, transport_,
                                                 [this] { return done_.load(); });
    mutex_.Lock();
    return status;
  }

  const std::string address_;
  Transport* const transport_;
  Mutex mutex_;
  CondVar changed_;
  std::atomic<bool> done_{false};
  int unanswered_ ABSL_GUARDED_BY(mutex_) = 0;
  std::optional<RunStatus> newest_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;  // last, since it uses the other members
};

class Job {
 public:
  Job(const ParallelJobOptions& options, Transport* transport)
      : options_(options),
        transport_(transport),
        supervisor_({options.program, options.program_name}) {}

  absl::StatusOr<int> Run();
  // Lets the coordinator end the run, if the coordinator is running.
  void End();
  // Cleans up after a run without an orderly end: removes useless data, and keeps the data from
  // which the run can continue.
  void Settle();

 private:
  absl::Status StartCoordinator();
  // Waits until the coordinator listens. Returns false if the run is over before that.
  absl::StatusOr<bool> WaitForAddress();
  absl::Status StartWorker(const std::string& role, int number,
                           const std::vector<std::string>& more = {});
  absl::Status EnsureLearners();
  absl::Status EnsureCollectors(int wanted);
  absl::Status LookAfter(const RunStatus& status);
  void KillIfItHangs(int unanswered);
  // Checks on the processes once. Returns the coordinator's exit status; none while it is running.
  absl::StatusOr<std::optional<int>> Watch();
  // Returns the exit status of a coordinator that is done.
  absl::StatusOr<int> CoordinatorStatus() const;
  void PassOnInterrupt();

  const ParallelJobOptions& options_;
  Transport* const transport_;
  Supervisor supervisor_;
  std::optional<pid_t> interrupted_pid_;  // the coordinator that was told
  std::optional<Timer> since_interrupt_;
  bool has_interrupted_workers_ = false;
  std::string address_;
  std::unique_ptr<RunMemoryHold> memory_;
  MissingWorkerDetector away_{kMissingTimeout, Clock::Real()};
  bool began_ = false;                   // whether a coordinator was started
  int incarnation_ = 0;                  // of the coordinator
  std::optional<int64_t> answered_pid_;  // of the coordinator that answered last
};

absl::Status Job::StartCoordinator() {
  Supervisor::Worker coordinator;
  coordinator.name = kCoordinator;
  coordinator.arguments = {"--role=coordinator", absl::StrCat("--exp_dir=", options_.exp_dir),
                           absl::StrCat("--supervised_by=", getpid())};
  coordinator.arguments.insert(coordinator.arguments.end(), options_.coordinator_arguments.begin(),
                               options_.coordinator_arguments.end());
  coordinator.arguments.insert(coordinator.arguments.end(), options_.link_arguments.begin(),
                               options_.link_arguments.end());
  coordinator.arguments_again = coordinator.arguments;
  coordinator.arguments_again.push_back("--again");
  if (options_.resume) coordinator.arguments.push_back("--resume");
  coordinator.done = Supervisor::Worker::Done::kWithAnyStatus;
  return supervisor_.Start(coordinator);
}

void Job::PassOnInterrupt() {
  const int signal = options_.interrupted();
  const std::optional<pid_t> pid = supervisor_.PidOf(kCoordinator);
  if (signal == 0) return;
  if (!since_interrupt_.has_value()) since_interrupt_.emplace(Clock::Real());
  if (!has_interrupted_workers_ && since_interrupt_->Elapsed() >= kWorkersPatience) {
    has_interrupted_workers_ = true;
    supervisor_.Interrupt(SIGTERM, kCoordinator);
  }
  if (pid == interrupted_pid_) return;
  // Each coordinator is told once. If it dies because it did not catch signals yet, its successor
  // must be told as well.
  interrupted_pid_ = pid;
  if (pid.has_value()) kill(*pid, signal);
}

absl::StatusOr<std::optional<int>> Job::Watch() {
  PassOnInterrupt();
  DING_RETURN_IF_ERROR(supervisor_.Restart());
  if (const std::optional<int> status = supervisor_.DoneWith(kCoordinator)) return status;
  absl::SleepFor(kWatchPeriod);
  return std::nullopt;
}

absl::Status Job::StartWorker(const std::string& role, int number,
                              const std::vector<std::string>& more) {
  const std::string name = absl::StrCat(role, "-", number);
  Supervisor::Worker worker;
  worker.name = name;
  worker.arguments = {absl::StrCat("--role=", role), absl::StrCat("--name=", name),
                      absl::StrCat("--coordinator=", address_),
                      absl::StrCat("--supervised_by=", getpid()),
                      absl::StrCat("--gpus=", options_.gpus)};
  worker.arguments.insert(worker.arguments.end(), more.begin(), more.end());
  worker.arguments.insert(worker.arguments.end(), options_.link_arguments.begin(),
                          options_.link_arguments.end());
  // A worker that the coordinator lets go has done its work.
  worker.done = Supervisor::Worker::Done::kWithGoodbye;
  return supervisor_.Start(worker);
}

absl::Status Job::EnsureLearners() {
  const bool grouped = options_.learners > 1;
  for (int task = 0; task < options_.learner_tasks; ++task) {
    if (supervisor_.Has(absl::StrCat(grouped ? "aggregator-" : "learner-", task))) continue;
    DING_RETURN_IF_ERROR(
        grouped ? StartWorker("aggregator", task, {absl::StrCat("--learners=", options_.learners)})
                : StartWorker("learner", task));
  }
  return absl::OkStatus();
}

absl::Status Job::EnsureCollectors(int wanted) {
  const auto name = [](int number) { return absl::StrCat("collector-", number); };
  int there = 0;
  for (const std::string& worker : supervisor_.names()) {
    if (worker.rfind("collector-", 0) == 0) ++there;
  }
  for (int number = 0; there < wanted; ++number) {
    if (supervisor_.Has(name(number))) continue;
    DING_RETURN_IF_ERROR(StartWorker("collector", number));
    ++there;
  }
  return absl::OkStatus();
}

absl::Status Job::LookAfter(const RunStatus& status) {
  answered_pid_ = status.coordinator_pid();
  if (status.incarnation() != incarnation_) {
    incarnation_ = status.incarnation();
    away_.Forgive();
  }
  for (const int64_t pid : away_.Update(status.worker())) {
    DING_RETURN_IF_ERROR(supervisor_.Replace(static_cast<pid_t>(pid)));
  }
  // When the run is over, nobody is wanted.
  if (!status.has_end_reason()) DING_RETURN_IF_ERROR(EnsureLearners());
  return EnsureCollectors(status.wanted_collectors());
}

// A coordinator that has not answered yet may have much to read.
void Job::KillIfItHangs(int unanswered) {
  const std::optional<pid_t> pid = supervisor_.PidOf(kCoordinator);
  if (unanswered < kMaxUnanswered || !pid.has_value() || pid != answered_pid_) return;
  DING_LOG(WARNING) << "the coordinator (process " << *pid << ") does not answer: " << unanswered
                    << " questions in a row, each for " << absl::FormatDuration(kAnswerTimeout)
                    << "; it is killed";
  answered_pid_.reset();
  kill(*pid, SIGKILL);
}

absl::StatusOr<bool> Job::WaitForAddress() {
  while (true) {
    DING_ASSIGN_OR_RETURN(const std::optional<int> ended, Watch());
    if (ended.has_value()) return false;
    const absl::StatusOr<std::string> address = ReadRunAddress(options_.exp_dir);
    if (!address.ok()) continue;
    address_ = LocalAddress(*address);
    // A resumed run may still have its old address, where another program listens now. A
    // coordinator that dies meanwhile must be noticed at once, since only then can it be seen that
    // it died soon after its start.
    const absl::StatusOr<RunStatus> status =
        AskStatus(address_, "supervisor", kAskTimeout, transport_,
                  [this] { return supervisor_.SomebodyHasEnded() || options_.interrupted() != 0; });
    if (status.ok() && status->coordinator_pid() == supervisor_.PidOf(kCoordinator)) return true;
  }
}

absl::StatusOr<int> Job::Run() {
  // From here on, an existing folder was made by a coordinator of this run.
  if (!options_.resume) DING_RETURN_IF_ERROR(RunFolder::CheckFree(options_.exp_dir));
  DING_RETURN_IF_ERROR(StartCoordinator());
  began_ = true;
  DING_ASSIGN_OR_RETURN(const bool listens, WaitForAddress());
  if (!listens) return CoordinatorStatus();
  const absl::StatusOr<ParallelRunInfo> info = ReadRunInfo(options_.exp_dir);
  if (info.ok()) memory_ = std::make_unique<RunMemoryHold>(info->memory());
  DING_RETURN_IF_ERROR(EnsureLearners());
  DING_RETURN_IF_ERROR(EnsureCollectors(options_.collectors));
  StatusWatch watch(address_, transport_);
  DING_RETURN_IF_ERROR(watch.Start());
  while (true) {
    DING_ASSIGN_OR_RETURN(const std::optional<int> ended, Watch());
    if (ended.has_value()) break;
    if (const std::optional<RunStatus> status = watch.Take(); status && !has_interrupted_workers_) {
      DING_RETURN_IF_ERROR(LookAfter(*status));
    }
    KillIfItHangs(watch.unanswered());
  }
  supervisor_.Stop(kStopTimeout);
  return CoordinatorStatus();
}

absl::StatusOr<int> Job::CoordinatorStatus() const {
  const int status = *supervisor_.DoneWith(kCoordinator);
  if (status != 0 || PathExists(ResultPath(options_.exp_dir))) return status;
  return absl::InternalError(absl::StrCat(
      "the coordinator ended with exit status 0 and left no result in '", options_.exp_dir,
      "': something in it called _exit(), as an env or another module may"));
}

void Job::End() {
  const std::optional<pid_t> pid = supervisor_.PidOf(kCoordinator);
  if (pid.has_value()) kill(*pid, SIGTERM);
  supervisor_.Stop(kEndTimeout);
}

void Job::Settle() {
  if (!began_) return;  // The folder belongs to another run.
  memory_.reset();
  const absl::StatusOr<std::string> left = SettleDeadRun(options_.exp_dir);
  if (!left.ok()) {
    DING_LOG(WARNING) << left.status().message();
  } else if (!left->empty()) {
    DING_LOG(WARNING) << *left;
  }
}

}  // namespace

absl::StatusOr<int> RunParallelJob(const ParallelJobOptions& options, Transport* transport) {
  Job job(options, transport);
  absl::StatusOr<int> status = job.Run();
  if (!status.ok()) job.End();
  // A coordinator that was interrupted before the run began leaves what it has made.
  const bool began = status.ok() && (*status <= 128 || PathExists(ResultPath(options.exp_dir)));
  if (!began) job.Settle();
  return status;
}

}  // namespace ding
