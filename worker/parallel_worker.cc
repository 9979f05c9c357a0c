#include "ding_worker/worker/parallel_worker.h"

#include <unistd.h>

#include <atomic>
#include <functional>
#include <memory>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "ding_worker/adapter/learner_aggregator.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/collector/comm/comm_collector_registry.h"
#include "ding_worker/interaction/store/store_registry.h"
#include "ding_worker/interaction/worker_session.h"
#include "ding_worker/learner/comm/comm_learner_registry.h"
#include "ding_worker/metrics/component.h"
#include "ding_worker/worker/experiment_config.h"
#include "ding_worker/worker/parallel_setup.h"
#include "ding_worker/worker/process_logs.h"
#include "ding_worker/worker/supervisor.h"
#include "glog/logging.h"

namespace ding {
namespace {

constexpr absl::Duration kInterruptPeriod = absl::Milliseconds(50);
// For learners to notice that their generation is over, when they have waited for its time-out.
constexpr absl::Duration kBeyondAllReduceTimeout = absl::Seconds(15);
// For processes to end when their run is over.
constexpr absl::Duration kStopTimeout = absl::Seconds(5);

Hello MakeHello(Hello::Role role, const ParallelWorkerOptions& options) {
  Hello hello;
  hello.set_role(role);
  hello.set_name(options.name);
  hello.set_config_digest(options.config_digest);
  hello.set_pid(getpid());
  hello.mutable_resources()->set_cpus(static_cast<double>(std::thread::hardware_concurrency()));
  hello.mutable_resources()->set_memory_bytes(static_cast<int64_t>(sysconf(_SC_AVPHYS_PAGES)) *
                                              sysconf(_SC_PAGESIZE));
  return hello;
}

// Leaves the run when the process is interrupted.
class InterruptWatch {
 public:
  InterruptWatch(std::function<bool()> interrupted, std::function<void()> leave)
      : thread_([this, interrupted = std::move(interrupted), leave = std::move(leave)] {
          while (!done_.load() && !interrupted()) absl::SleepFor(kInterruptPeriod);
          if (!done_.load()) leave();
        }) {}
  ~InterruptWatch() {
    done_.store(true);
    thread_.join();
  }

 private:
  std::atomic<bool> done_{false};
  std::thread thread_;
};

template <typename Worker>
absl::Status RunUntilTheEnd(const ParallelWorkerOptions& options, Worker* worker) {
  absl::StatusOr<EndRun> end = absl::UnknownError("");
  {
    const InterruptWatch watch(options.interrupted, [worker] { worker->Close(); });
    end = worker->Run();
  }
  if (end.ok()) {
    LOG(INFO) << options.name << ": the run is over: " << end->reason();
    return absl::OkStatus();
  }
  if (absl::IsCancelled(end.status())) return absl::OkStatus();  // It was to leave.
  return Annotate(end.status(), absl::StrCat(options.name, " has lost the coordinator"));
}

}  // namespace

absl::Status RunParallelWorker(Hello::Role role, const ParallelWorkerOptions& options,
                               Transport* transport) {
  WorkerSession::Options session_options;
  session_options.join_timeout = options.join_timeout;
  DING_ASSIGN_OR_RETURN(const std::unique_ptr<WorkerSession> session,
                        WorkerSession::Join(transport, options.coordinator,
                                            MakeHello(role, options), session_options));
  const Welcome& welcome = session->welcome();
  DING_ASSIGN_OR_RETURN(const ExperimentConfig config,
                        ParseExperimentConfig(welcome.config(), "the coordinator's config", {}));
  DING_ASSIGN_OR_RETURN(const std::unique_ptr<Store> store, create_store(welcome.store_url()));
  DING_ASSIGN_OR_RETURN(const std::unique_ptr<ProcessLogs> logs,
                        ProcessLogs::Open(welcome.exp_dir(), options.name,
                                          absl::StrCat(options.name, ".csv"), Clock::Real()));
  LOG(INFO) << options.name << " is worker " << welcome.worker() << " of run " << welcome.run();
  ComponentDeps deps;
  deps.metrics = logs->metrics();
  deps.exp_dir = welcome.exp_dir();

  absl::Status status;
  if (role == Hello::LEARNER) {
    CommLearnerOptions learner_options = MakeCommLearnerOptions(config);
    learner_options.group_host = options.all_reduce_host;
    DING_ASSIGN_OR_RETURN(
        const std::unique_ptr<BaseCommLearner> learner,
        create_comm_learner(config.system().comm_learner_type(), learner_options, session.get(),
                            store.get(), MakeTaskLearnerFactory(config, deps)));
    status = RunUntilTheEnd(options, learner.get());
  } else {
    DING_ASSIGN_OR_RETURN(
        const std::unique_ptr<BaseCommCollector> collector,
        create_comm_collector(config.system().comm_collector_type(), session.get(), store.get(),
                              MakeTaskCollectorFactory(config, deps)));
    status = RunUntilTheEnd(options, collector.get());
  }
  session->Close(status.ok() ? "done" : status.message());
  const absl::Status flushed = logs->Flush();
  if (!flushed.ok()) LOG(WARNING) << "some logs could not be written: " << flushed.message();
  return status;
}

absl::Status RunParallelAggregator(const ParallelAggregatorOptions& options, Transport* transport) {
  WorkerSession::Options session_options;
  session_options.join_timeout = options.worker.join_timeout;
  // Its resources are those of its learners, when they come.
  Hello hello;
  hello.set_role(Hello::LEARNER);
  hello.set_name(options.worker.name);
  hello.set_config_digest(options.worker.config_digest);
  hello.set_pid(getpid());
  DING_ASSIGN_OR_RETURN(
      const std::unique_ptr<WorkerSession> session,
      WorkerSession::Join(transport, options.worker.coordinator, hello, session_options));
  const Welcome& welcome = session->welcome();
  DING_ASSIGN_OR_RETURN(const ExperimentConfig config,
                        ParseExperimentConfig(welcome.config(), "the coordinator's config", {}));
  DING_ASSIGN_OR_RETURN(
      const std::unique_ptr<ProcessLogs> logs,
      ProcessLogs::Open(welcome.exp_dir(), options.worker.name,
                        absl::StrCat(options.worker.name, ".csv"), Clock::Real()));
  LearnerAggregator::Options aggregator_options;
  aggregator_options.learner_num = config.policy().learn().learner_num();
  aggregator_options.form_timeout =
      absl::Seconds(config.policy().learn().all_reduce_timeout()) + kBeyondAllReduceTimeout;
  aggregator_options.server.address = options.listen;
  aggregator_options.server.config_digest = ConfigDigest(config);
  aggregator_options.server.report = [](const std::string& what) { LOG(WARNING) << what; };
  DING_ASSIGN_OR_RETURN(
      const std::unique_ptr<LearnerAggregator> aggregator,
      LearnerAggregator::Create(std::move(aggregator_options), session.get(), transport));
  LOG(INFO) << options.worker.name << " is worker " << welcome.worker() << " of run "
            << welcome.run() << ", for learners at " << aggregator->address();

  Supervisor supervisor({options.program, options.program_name});
  for (int i = 0; i < options.learners; ++i) {
    const std::string name = absl::StrCat("learner-", i);
    DING_RETURN_IF_ERROR(
        supervisor.Start({name,
                          {"--role=learner", absl::StrCat("--name=", name),
                           absl::StrCat("--coordinator=", aggregator->address()),
                           absl::StrCat("--all_reduce_host=", options.worker.all_reduce_host)}}));
  }
  absl::Status watched;
  ParallelWorkerOptions watching = options.worker;
  watching.interrupted = [&] {
    if (watched.ok() && !aggregator->ended()) watched = supervisor.Restart();
    return !watched.ok() || options.worker.interrupted();
  };
  absl::Status status = RunUntilTheEnd(watching, aggregator.get());
  supervisor.Stop(kStopTimeout);
  if (status.ok()) status = watched;
  session->Close(status.ok() ? "done" : status.message());
  const absl::Status flushed = logs->Flush();
  if (!flushed.ok()) LOG(WARNING) << "some logs could not be written: " << flushed.message();
  return status;
}

}  // namespace ding
