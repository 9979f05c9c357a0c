#include "ding_worker/worker/parallel_run.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/mutex.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/coordinator/comm_coordinator.h"
#include "ding_worker/coordinator/coordinator.h"
#include "ding_worker/interaction/store/store_registry.h"
#include "ding_worker/metrics/component.h"
#include "ding_worker/metrics/progress.h"
#include "ding_worker/worker/parallel_setup.h"
#include "ding_worker/worker/run_folder.h"
#include "ding_worker/worker/run_memory.h"
#include "ding_worker/worker/run_result.h"
#include "ding_worker/worker/status_text.h"
#include "ding_worker/worker/supervisor.h"
#include "ding_worker/worker/text_config.h"
#include "glog/logging.h"

namespace ding {
namespace {

// Between two looks after interrupts, processes and the status line.
constexpr absl::Duration kWatchPeriod = absl::Milliseconds(50);
// For workers to end their tasks (a learner saves a checkpoint) and leave.
constexpr absl::Duration kLeaveTimeout = absl::Seconds(20);
// For processes to end when their workers have left.
constexpr absl::Duration kStopTimeout = absl::Seconds(5);

// Processes whose sessions ended while they live, for whoever watches them.
class LostProcesses {
 public:
  void Add(int64_t pid) {
    MutexLock lock(&mutex_);
    pids_.push_back(pid);
  }
  std::vector<int64_t> Take() {
    MutexLock lock(&mutex_);
    return std::exchange(pids_, {});
  }

 private:
  Mutex mutex_;
  std::vector<int64_t> pids_ ABSL_GUARDED_BY(mutex_);
};

// Unique on this machine, and readable.
std::string RunName(const std::string& exp_dir) {
  return absl::StrCat(Basename(exp_dir), "-", absl::ToUnixMicros(absl::Now()), "-", getpid());
}

// Of runs whose config names no store.
std::string MemoryBase() { return absl::StrCat("/dev/shm/ding_worker-", geteuid()); }

// `base` with the folder `run` in it.
std::string StoreUrl(const std::string& base, const std::string& run) {
  const size_t settings = base.find('?');
  return settings == std::string::npos
             ? absl::StrCat(base, "/", run)
             : absl::StrCat(base.substr(0, settings), "/", run, base.substr(settings));
}

// The parts of one run, in the order of their making.
class Run {
 public:
  Run(const ExperimentConfig& config, const ParallelRunOptions& options)
      : config_(config), options_(options) {}

  absl::Status Start(Transport* transport);
  // Of a run that could not start: its folder goes, which holds nothing yet.
  void RemoveFolder();
  // Until it is over, whatever the reason, which is returned if it is no good one.
  absl::Status Watch();
  // Lets the workers leave, and cleans up.
  void Finish();
  // The result, which the folder gets, too.
  absl::StatusOr<RunResult> WriteResult();

 private:
  absl::StatusOr<std::string> MakeStore();
  absl::Status StartWorkers();
  absl::Status LookAfterWorkers();
  void EndWorkers();
  void LogRows() const;

  const ExperimentConfig& config_;
  const ParallelRunOptions& options_;
  const Timer timer_{Clock::Real()};
  LostProcesses lost_;
  std::unique_ptr<RunFolder> folder_;
  std::string run_;
  std::unique_ptr<RunMemory> memory_;
  std::unique_ptr<Store> store_;
  std::unique_ptr<CommCoordinator> comm_;
  CoordinatorParts parts_;
  std::optional<Supervisor> supervisor_;
};

absl::Status Run::Start(Transport* transport) {
  DING_ASSIGN_OR_RETURN(folder_, RunFolder::Create(options_.exp_dir, config_.exp_name(),
                                                   "coordinator", Clock::Real()));
  const std::string config_text = PrintTextConfig(config_);
  DING_RETURN_IF_ERROR(folder_->WriteText("total_config.textproto", config_text));
  run_ = RunName(folder_->path());
  DING_ASSIGN_OR_RETURN(const std::string store_url, MakeStore());

  CommCoordinator::Options comm;
  comm.address = options_.listen;
  comm.welcome.set_run(run_);
  comm.welcome.set_config(config_text);
  comm.welcome.set_store_url(store_url);
  comm.welcome.set_exp_dir(std::filesystem::absolute(folder_->path()).string());
  comm.welcome.set_lease_seconds(config_.system().coordinator().lease_seconds());
  comm.config_digest = ConfigDigest(config_);
  comm.session.lease = absl::Seconds(config_.system().coordinator().lease_seconds());
  comm.report = [](const std::string& what) { LOG(WARNING) << what; };
  comm.on_worker_lost = [this](const Hello& hello, const absl::Status& why) {
    // Who closes the session itself is about to end. Any other may be stopped, or hang.
    if (!absl::IsAborted(why)) lost_.Add(hello.pid());
  };
  DING_ASSIGN_OR_RETURN(comm_, CommCoordinator::Create(std::move(comm), transport));
  ComponentDeps deps;
  deps.metrics = folder_->metrics();
  deps.exp_dir = folder_->path();
  deps.seed = config_.seed();
  DING_ASSIGN_OR_RETURN(parts_, MakeCoordinator(config_, run_, deps, store_.get(), comm_.get()));
  parts_.coordinator->Start();
  comm_->Start(parts_.coordinator.get());
  std::fprintf(stderr, "run folder: %s\ncoordinator: %s\n", folder_->path().c_str(),
               comm_->address().c_str());
  return options_.program.empty() ? absl::OkStatus() : StartWorkers();
}

void Run::RemoveFolder() {
  if (folder_ == nullptr) return;
  const std::string path = folder_->path();
  folder_.reset();
  const absl::Status removed = RemoveRecursively(path);
  if (!removed.ok()) LOG(WARNING) << removed.message();
}

// The store's URL.
absl::StatusOr<std::string> Run::MakeStore() {
  std::string url = StoreUrl(config_.system().store_url(), run_);
  if (config_.system().store_url().empty()) {
    for (const std::string& dead : RemoveDeadRuns(MemoryBase())) {
      LOG(WARNING) << "removed what run " << dead << ", which was killed, left in " << MemoryBase();
    }
    DING_ASSIGN_OR_RETURN(memory_, RunMemory::Create(MemoryBase(), run_));
    url = absl::StrCat("file:", memory_->path());
  }
  DING_ASSIGN_OR_RETURN(store_, create_store(url));
  return url;
}

absl::Status Run::StartWorkers() {
  Supervisor::Options options;
  options.program = options_.program;
  options.program_name = options_.program_name;
  supervisor_.emplace(options);
  const auto start = [this](absl::string_view role, int number,
                            const std::vector<std::string>& more = {}) {
    const std::string name = absl::StrCat(role, "-", number);
    std::vector<std::string> arguments = {absl::StrCat("--role=", role),
                                          absl::StrCat("--name=", name),
                                          absl::StrCat("--coordinator=", comm_->address())};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return supervisor_->Start({name, std::move(arguments)});
  };
  const int learners = config_.policy().learn().learner_num();
  if (learners == 1) {
    DING_RETURN_IF_ERROR(start("learner", 0));
  } else {
    DING_RETURN_IF_ERROR(start("aggregator", 0, {absl::StrCat("--learners=", learners)}));
  }
  for (int i = 0; i < config_.policy().collect().collector_num(); ++i) {
    DING_RETURN_IF_ERROR(start("collector", i));
  }
  return absl::OkStatus();
}

absl::Status Run::Watch() {
  ProgressOptions progress_options = ProgressTo(stderr);
  if (config_.max_env_step() > 0) progress_options.max_env_step = config_.max_env_step();
  if (config_.max_train_iter() > 0) progress_options.max_train_iter = config_.max_train_iter();
  Progress progress(progress_options);
  while (!options_.interrupted()) {
    const absl::Status done = parts_.coordinator->WaitUntilDone(kWatchPeriod);
    progress.Update(ProgressOf(parts_.coordinator->status()));
    if (!absl::IsDeadlineExceeded(done)) return done;
    DING_RETURN_IF_ERROR(LookAfterWorkers());
  }
  return absl::OkStatus();
}

absl::Status Run::LookAfterWorkers() {
  if (!supervisor_.has_value()) return absl::OkStatus();
  for (const int64_t pid : lost_.Take()) {
    DING_RETURN_IF_ERROR(supervisor_->Replace(static_cast<pid_t>(pid)));
  }
  return supervisor_->Restart();
}

void Run::Finish() {
  if (parts_.coordinator != nullptr) EndWorkers();
  const absl::Status cleared = store_ == nullptr ? absl::OkStatus() : store_->Clear();
  if (!cleared.ok()) LOG(WARNING) << "the store is not clean: " << cleared.message();
  if (folder_ == nullptr) return;
  const absl::Status logs = folder_->FlushLogs();
  if (!logs.ok()) LOG(WARNING) << "some of the logs could not be written: " << logs.message();
}

void Run::EndWorkers() {
  parts_.coordinator->RequestEnd("the run is over");
  if (!comm_->WaitForWorkersToLeave(kLeaveTimeout)) {
    LOG(WARNING) << "some workers have not left within " << absl::FormatDuration(kLeaveTimeout);
  }
  if (supervisor_.has_value()) supervisor_->Stop(kStopTimeout);
  comm_->Close("the run is over");
  LogRows();
  const absl::Status closed = parts_.coordinator->Close("the run is over");
  if (!closed.ok()) LOG(WARNING) << "some data are not deleted: " << closed.message();
}

// Nothing that was acknowledged is lost: it is in the buffer, or has left it by its rules.
void Run::LogRows() const {
  const Coordinator::Counters counters = parts_.coordinator->counters();
  LOG(INFO) << "rows: " << counters.rows_pushed << " pushed, " << counters.rows_acknowledged
            << " acknowledged";
  const RunStatus status = parts_.coordinator->status();
  for (const BufferStatus& buffer : status.buffer()) {
    LOG(INFO) << buffer.buffer_id() << ": " << buffer.push_count() << " rows pushed, "
              << buffer.count() << " in it, " << buffer.removed_count() << " evicted";
  }
}

absl::StatusOr<RunResult> Run::WriteResult() {
  const RunStatus status = parts_.coordinator->status();
  RunResult result;
  result.stop = status.converged();
  result.env_step = status.envstep();
  result.train_iter = status.train_iter();
  if (status.has_eval_value()) result.eval_value = status.eval_value();
  result.eval_value_raw.assign(status.eval_return().begin(), status.eval_return().end());
  result.wall_seconds = timer_.Seconds();
  if (status.has_collecting_seconds()) result.collecting_seconds = status.collecting_seconds();
  result.finish_time = Clock::Real()->Now();
  DING_RETURN_IF_ERROR(folder_->WriteText("result.json", absl::StrCat(ToJson(result), "\n")));
  return result;
}

}  // namespace

absl::StatusOr<RunResult> RunParallel(const ExperimentConfig& config,
                                      const ParallelRunOptions& options, Transport* transport) {
  Run run(config, options);
  const absl::Status started = run.Start(transport);
  if (!started.ok()) {
    run.Finish();
    run.RemoveFolder();
    return started;
  }
  const absl::Status status = run.Watch();
  if (!status.ok()) LOG(INFO) << "the run failed: " << status.message();
  run.Finish();
  DING_RETURN_IF_ERROR(status);
  return run.WriteResult();
}

}  // namespace ding
