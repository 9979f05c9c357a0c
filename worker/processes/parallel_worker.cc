#include "ding_worker/worker/processes/parallel_worker.h"

#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "ding_worker/adapter/learner_aggregator.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/log.h"
#include "ding_worker/base/log_event.h"
#include "ding_worker/base/process_resources.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/base/thread.h"
#include "ding_worker/collector/comm/comm_collector_registry.h"
#include "ding_worker/interaction/control/worker_session.h"
#include "ding_worker/interaction/store/store_registry.h"
#include "ding_worker/learner/comm/comm_learner_registry.h"
#include "ding_worker/learner/hooks.h"
#include "ding_worker/metrics/sink.h"
#include "ding_worker/worker/config/experiment_config.h"
#include "ding_worker/worker/coordination/parallel_setup.h"
#include "ding_worker/worker/coordination/run_files.h"
#include "ding_worker/worker/coordination/run_memory.h"
#include "ding_worker/worker/processes/ask_operator.h"
#include "ding_worker/worker/processes/supervisor.h"
#include "ding_worker/worker/run_folder/process_logs.h"
#include "ding_worker/worker/setup/experiment_setup.h"
#include "ding_worker/worker/tasks/configured_collector.h"
#include "ding_worker/worker/tasks/configured_learner.h"
#include "ding_worker/worker/tasks/parallel_problems.h"
#include "ding_worker/worker/tasks/recording.h"

namespace ding {
namespace {

// Timeout of one attempt to join again, and pause between two attempts.
constexpr absl::Duration kRejoinTimeout = absl::Seconds(2);
constexpr absl::Duration kRejoinPause = absl::Milliseconds(50);
constexpr absl::Duration kInterruptPeriod = absl::Milliseconds(50);
// How long to try to open a store that is away, and pause between two attempts.
constexpr absl::Duration kStorePatience = absl::Minutes(1);
constexpr absl::Duration kStoreRetry = absl::Milliseconds(200);
// Time for learners to notice that their generation is over, after they have waited for its
// timeout.
constexpr absl::Duration kBeyondAllReduceTimeout = absl::Seconds(15);
// How long a worker that ends tries to send its last files.
constexpr absl::Duration kEndPatience = absl::Seconds(10);
// Time for processes to end when their run is over.
constexpr absl::Duration kStopTimeout = absl::Seconds(5);

Hello MakeHello(Hello::Role role, const ParallelWorkerOptions& options) {
  Hello hello;
  hello.set_role(role);
  hello.set_name(options.name);
  hello.set_config_digest(options.config_digest);
  hello.set_pid(getpid());
  const ProcessResources resources = ReadProcessResources();
  hello.mutable_resources()->set_cpus(resources.cpus);
  hello.mutable_resources()->set_memory_bytes(resources.memory_bytes);
  hello.mutable_resources()->set_gpus(options.gpus);
  return hello;
}

// Opens the store. A store that is away or full for a moment, or whose password is being changed,
// should not make the worker end, since its successor would only come back to the same store.
absl::StatusOr<std::unique_ptr<Store>> OpenStore(const std::string& url,
                                                 const std::function<bool()>& interrupted) {
  const Deadline deadline = Deadline::After(kStorePatience);
  bool told = false;
  while (true) {
    absl::StatusOr<std::unique_ptr<Store>> store = create_store(url);
    const bool worth_trying_again = absl::IsUnavailable(store.status()) ||
                                    absl::IsResourceExhausted(store.status()) ||
                                    absl::IsUnauthenticated(store.status());
    DING_LOG_IF(WARNING, worth_trying_again && !told)
        << "waits for the store: " << store.status().message();
    told = true;
    if (!worth_trying_again || deadline.Passed() || interrupted()) return store;
    absl::SleepFor(kStoreRetry);
  }
}

// Where a worker writes its files: the folder of the run, or a folder of its own, from which they
// go to the store.
class WorkerFolder {
 public:
  static absl::StatusOr<std::unique_ptr<WorkerFolder>> Open(const ExperimentConfig& config,
                                                            const Welcome& welcome,
                                                            const ParallelWorkerOptions& options) {
    auto folder = std::make_unique<WorkerFolder>();
    folder->path_ = welcome.exp_dir();
    if (!FilesAreInStore(config)) return folder;
    const char* const temporary = std::getenv("TMPDIR");
    const std::string base = JoinPath(temporary == nullptr ? "/tmp" : temporary,
                                      absl::StrCat("ding_worker_files-", geteuid()));
    RemoveDeadRuns(base);  // folders of workers that were killed
    DING_ASSIGN_OR_RETURN(
        folder->memory_,
        RunMemory::Create(base, absl::StrCat(welcome.run(), "-", welcome.worker(), "-", getpid())));
    folder->path_ = folder->memory_->path();
    DING_ASSIGN_OR_RETURN(std::unique_ptr<Store> store,
                          OpenStore(RunFilesUrl(welcome.store_url()), options.interrupted));
    folder->files_ = std::make_unique<RunFiles>(std::move(store), folder->path_, options.name);
    // An earlier process of this name has begun these logs.
    for (const char* end : {".csv", ".jsonl", "_events.jsonl", "_logger.txt"}) {
      folder->Bring(absl::StrCat("log/", options.name, end));
    }
    if (config.metrics().sink_size() > 0) {  // Only they know the names of their files.
      const absl::Status brought = folder->files_->Fetch([&](const StoredFile& file) {
        return absl::StartsWith(file.path(), "log/") &&
               absl::StrContains(Basename(file.path()), options.name);
      });
      DING_LOG_IF(WARNING, !brought.ok()) << "logs are begun anew: " << brought.message();
    }
    DING_RETURN_IF_ERROR(folder->files_->Start());
    return folder;
  }

  const std::string& path() const { return path_; }
  // Brings a file or a checkpoint that another process may have written since this one did. Does
  // nothing in the folder of the run. If the store is away, the caller goes on without it.
  void Bring(const std::string& file) {
    if (files_ == nullptr) return;
    absl::Status brought = files_->Publish();
    brought.Update(files_->FetchPath(file));
    DING_LOG_IF(WARNING, !brought.ok()) << "'" << file << "' is begun anew: " << brought.message();
  }
  // Sends the last files. The folder stays if this fails.
  void Finish(const std::function<bool()>& interrupted) {
    if (files_ == nullptr) return;
    const Timer waited(Clock::Real());
    const absl::Status sent =
        files_->Finish([&] { return interrupted() || waited.Elapsed() >= kEndPatience; });
    if (sent.ok()) return;
    DING_LOG(WARNING) << sent.message();
    memory_->Keep();
    KeepRunMemory(path_).IgnoreError();
  }

 private:
  std::string path_;
  std::unique_ptr<RunMemory> memory_;  // null: the folder of the run
  std::unique_ptr<RunFiles> files_;    // null: the same
};

// Leaves the run when the process is interrupted.
class InterruptWatch {
 public:
  ~InterruptWatch() {
    done_.store(true);
    if (thread_.joinable()) thread_.join();
  }
  // To be called once.
  absl::Status Start(std::function<bool()> interrupted, std::function<void()> leave) {
    DING_ASSIGN_OR_RETURN(thread_,
                          StartThread("interrupts", [this, interrupted = std::move(interrupted),
                                                     leave = std::move(leave)] {
                            while (!done_.load() && !interrupted())
                              absl::SleepFor(kInterruptPeriod);
                            if (!done_.load()) leave();
                          }));
    return absl::OkStatus();
  }

 private:
  std::atomic<bool> done_{false};
  std::thread thread_;
};

template <typename Worker>
absl::Status RunUntilTheEnd(const ParallelWorkerOptions& options, Worker* worker) {
  absl::StatusOr<EndRun> end = absl::UnknownError("");
  {
    InterruptWatch watch;
    DING_RETURN_IF_ERROR(watch.Start(options.interrupted, [worker] { worker->Close(); }));
    end = worker->Run();
  }
  if (end.ok()) {
    DING_LOG(INFO) << options.name << ": the run is over: " << end->reason();
    return absl::OkStatus();
  }
  if (absl::IsCancelled(end.status())) return absl::OkStatus();  // It was told to leave.
  return Annotate(end.status(), absl::StrCat(options.name, " has lost the coordinator"));
}

template <typename Worker>
absl::Status ShowAndRun(const ParallelWorkerOptions& options, const std::string& run,
                        Worker* worker) {
  if (options.show == nullptr) return RunUntilTheEnd(options, worker);
  ParallelWorkerOptions watching = options;
  watching.interrupted = [&] {
    options.show(run, worker->stage_times());
    return options.interrupted();
  };
  return RunUntilTheEnd(watching, worker);
}

// Works for the run of a session that has been welcomed, until the session ends.
absl::Status Serve(Hello::Role role, const ParallelWorkerOptions& options, WorkerSession* session) {
  const Welcome& welcome = session->welcome();
  DING_ASSIGN_OR_RETURN(const ExperimentConfig config,
                        ParseExperimentConfig(welcome.config(), "the coordinator's config", {}));
  DING_ASSIGN_OR_RETURN(const std::unique_ptr<Store> store,
                        OpenStore(welcome.store_url(), options.interrupted));
  DING_ASSIGN_OR_RETURN(const std::unique_ptr<WorkerFolder> folder,
                        WorkerFolder::Open(config, welcome, options));
  DING_ASSIGN_OR_RETURN(
      const std::unique_ptr<ProcessLogs> logs,
      ProcessLogs::Open(folder->path(), options.name, ProcessLogs::Of::kWorker, Clock::Real()));
  DING_LOG(INFO) << options.name << " is worker " << welcome.worker() << " of run "
                 << welcome.run();
  ComponentDeps deps;
  deps.metrics = logs->metrics();
  deps.exp_dir = folder->path();
  DING_RETURN_IF_ERROR(AddSinks(config, deps.exp_dir, options.name, &deps.metrics));

  const int place = static_cast<int>(welcome.place());
  absl::Status status;
  if (role == Hello::LEARNER) {
    DING_RETURN_IF_ERROR(CheckCanGroupLearners(config));
    CommLearnerOptions learner_options = MakeCommLearnerOptions(config);
    learner_options.group_host = options.all_reduce_host;
    DING_ASSIGN_OR_RETURN(
        const std::unique_ptr<BaseCommLearner> learner,
        create_comm_learner(CommLearnerConfig(config), learner_options, session, store.get(),
                            [&, make = MakeTaskLearnerFactory(config, deps, place, welcome.run())](
                                const LearnerTask& task, GroupMember* group) {
                              const std::string name =
                                  task.name().empty() ? "ckpt" : absl::StrCat("ckpt_", task.name());
                              folder->Bring(JoinPath(name, kResumeCheckpoint));
                              return make(task, group);
                            }));
    status = ShowAndRun(options, welcome.run(), learner.get());
  } else {
    if (config.system().record_bytes() > 0) {
      DING_RETURN_IF_ERROR(NameRecordedWorker(deps.exp_dir, welcome.worker(), options.name));
    }
    DING_ASSIGN_OR_RETURN(
        const std::unique_ptr<BaseCommCollector> collector,
        create_comm_collector(CommCollectorConfig(config), session, store.get(),
                              [&, make = MakeTaskCollectorFactory(config, deps, place)](
                                  const CollectorTask& task, CollectorLink* link) {
                                // An evaluator continues what others have counted.
                                if (task.eval_flag() &&
                                    config.policy().eval().evaluator().has_params()) {
                                  folder->Bring("evaluator");
                                }
                                return make(task, link);
                              }));
    status = ShowAndRun(options, welcome.run(), collector.get());
  }
  const RunEnd how = !status.ok()            ? RunEnd::kFailed
                     : options.interrupted() ? RunEnd::kInterrupted
                                             : RunEnd::kFinished;
  deps.metrics->EndRun(how, /*step=*/0, /*results=*/{});
  absl::Status flushed = deps.metrics->Flush();
  flushed.Update(logs->Flush());
  if (!flushed.ok()) DING_LOG(WARNING) << "some logs could not be written: " << flushed.message();
  // The coordinator waits for the files until the session is closed.
  folder->Finish(options.interrupted);
  session->Close(status.ok() ? "done" : status.message());
  return status;
}

// Tries to join again for `timeout`, in which the coordinator may be restarted.
absl::StatusOr<std::unique_ptr<WorkerSession>> Rejoin(const ParallelWorkerOptions& options,
                                                      const Hello& hello, absl::Duration timeout,
                                                      Transport* transport) {
  const Timer waited(Clock::Real());
  absl::Status why = absl::UnavailableError("there was no time to join again");
  while (waited.Elapsed() < timeout && !options.interrupted() && options.may_rejoin()) {
    WorkerSession::Options session_options;
    session_options.join_timeout = std::min(kRejoinTimeout, timeout);
    absl::StatusOr<std::unique_ptr<WorkerSession>> session =
        WorkerSession::Join(transport, options.coordinator, hello, session_options);
    if (session.ok() || absl::IsFailedPrecondition(session.status())) return session;
    why = session.status();
    absl::SleepFor(kRejoinPause);
  }
  return why;
}

// Joins the run and calls `serve` with the session. Does so again whenever the coordinator is lost.
absl::Status JoinAndServe(const ParallelWorkerOptions& options, Hello hello, Transport* transport,
                          const std::function<absl::Status(WorkerSession*)>& serve) {
  OrphanWatch orphan_watch;
  OrphanWatch::Options watch_options;
  watch_options.supervisor_lives = options.may_rejoin;
  DING_RETURN_IF_ERROR(orphan_watch.Start(std::move(watch_options)));
  WorkerSession::Options session_options;
  session_options.join_timeout = options.join_timeout;
  DING_ASSIGN_OR_RETURN(
      std::unique_ptr<WorkerSession> session,
      WorkerSession::Join(transport, options.coordinator, hello, session_options));
  // While the coordinator is away, the data are still those of a run that has workers.
  std::optional<RunMemoryHold> memory;
  while (true) {
    memory.emplace(FolderOfStore(session->welcome().store_url()));
    orphan_watch.SetSession([&session] { return session->status().ok(); });
    const absl::Status status = serve(session.get());
    orphan_watch.SetSession(nullptr);
    // Only a broken session may mean that the coordinator has died; other ends are intended.
    if (status.ok() || !absl::IsUnavailable(session->status())) return status;
    const Welcome welcome = session->welcome();
    session.reset();
    hello.set_previous_worker(welcome.worker());
    hello.set_previous_incarnation(welcome.incarnation());
    hello.set_previous_place(welcome.place());
    absl::StatusOr<std::unique_ptr<WorkerSession>> again =
        Rejoin(options, hello, absl::Seconds(welcome.rejoin_seconds()), transport);
    if (!again.ok()) {
      return absl::Status(again.status().code(),
                          absl::StrCat(status.message(), "; and: ", again.status().message()));
    }
    if ((*again)->welcome().run() != welcome.run()) {
      (*again)->Close("this is another run");
      return absl::FailedPreconditionError(
          absl::StrCat(status.message(), "; and at ", options.coordinator, " is another run"));
    }
    session = *std::move(again);
  }
}

// Works as one learner on behalf of those that join it, until the session ends.
absl::Status Aggregate(const ParallelAggregatorOptions& options, WorkerSession* session,
                       Transport* transport) {
  const Welcome& welcome = session->welcome();
  DING_ASSIGN_OR_RETURN(const ExperimentConfig config,
                        ParseExperimentConfig(welcome.config(), "the coordinator's config", {}));
  DING_ASSIGN_OR_RETURN(const std::unique_ptr<WorkerFolder> folder,
                        WorkerFolder::Open(config, welcome, options.worker));
  DING_ASSIGN_OR_RETURN(const std::unique_ptr<ProcessLogs> logs,
                        ProcessLogs::Open(folder->path(), options.worker.name,
                                          ProcessLogs::Of::kWorker, Clock::Real()));
  DING_RETURN_IF_ERROR(CheckCanGroupLearners(config));  // Its learners are this program, too.
  LearnerAggregator::Options aggregator_options;
  aggregator_options.learner_num = config.policy().learn().learner_num();
  aggregator_options.form_timeout =
      absl::Seconds(config.policy().learn().all_reduce_timeout()) + kBeyondAllReduceTimeout;
  aggregator_options.server.address = options.listen;
  aggregator_options.server.config_digest = ConfigDigest(config);
  aggregator_options.server.report = [](const std::string& what) {
    DING_LOG_EVENT(WARNING, {EventKind::kRefusal}) << what;
  };
  DING_ASSIGN_OR_RETURN(
      const std::unique_ptr<LearnerAggregator> aggregator,
      LearnerAggregator::Create(std::move(aggregator_options), session, transport));
  DING_LOG(INFO) << options.worker.name << " is worker " << welcome.worker() << " of run "
                 << welcome.run() << ", for learners at " << aggregator->address();

  Supervisor supervisor({options.program, options.program_name});
  for (int i = 0; i < options.learners; ++i) {
    const std::string name = absl::StrCat("learner-", i);
    Supervisor::Worker learner;
    learner.name = name;
    learner.arguments = {"--role=learner",
                         absl::StrCat("--name=", name),
                         absl::StrCat("--coordinator=", LocalAddress(aggregator->address())),
                         absl::StrCat("--supervised_by=", getpid()),
                         absl::StrCat("--gpus=", options.worker.gpus),
                         absl::StrCat("--all_reduce_host=", options.worker.all_reduce_host)};
    learner.arguments.insert(learner.arguments.end(), options.link_arguments.begin(),
                             options.link_arguments.end());
    DING_RETURN_IF_ERROR(supervisor.Start(learner));
  }
  MissingWorkerDetector away(kMissingTimeout, Clock::Real());
  const auto look_after = [&]() -> absl::Status {
    DING_RETURN_IF_ERROR(supervisor.Restart());
    for (const int64_t pid : away.Update(aggregator->status().worker())) {
      DING_RETURN_IF_ERROR(supervisor.Replace(static_cast<pid_t>(pid)));
    }
    return absl::OkStatus();
  };
  absl::Status watched;
  ParallelWorkerOptions watching = options.worker;
  watching.interrupted = [&] {
    if (watched.ok() && !aggregator->ended()) watched = look_after();
    return !watched.ok() || options.worker.interrupted();
  };
  absl::Status status = RunUntilTheEnd(watching, aggregator.get());
  if (options.worker.interrupted()) supervisor.Interrupt(SIGTERM, /*except=*/"");
  supervisor.Stop(kStopTimeout);
  if (status.ok()) status = watched;
  const absl::Status flushed = logs->Flush();
  if (!flushed.ok()) DING_LOG(WARNING) << "some logs could not be written: " << flushed.message();
  folder->Finish(options.worker.interrupted);
  session->Close(status.ok() ? "done" : status.message());
  return status;
}

}  // namespace

absl::Status RunParallelWorker(Hello::Role role, const ParallelWorkerOptions& options,
                               Transport* transport) {
  return JoinAndServe(options, MakeHello(role, options), transport,
                      [&](WorkerSession* session) { return Serve(role, options, session); });
}

absl::Status RunParallelAggregator(const ParallelAggregatorOptions& options, Transport* transport) {
  Hello hello = MakeHello(Hello::LEARNER, options.worker);
  // The aggregator's resources are those of its learners, once they have joined.
  hello.clear_resources();
  return JoinAndServe(options.worker, hello, transport, [&](WorkerSession* session) {
    return Aggregate(options, session, transport);
  });
}

}  // namespace ding
