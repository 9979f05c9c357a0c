#include "ding_worker/worker/testing/in_process_run.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "ding_worker/collector/comm/comm_collector_registry.h"
#include "ding_worker/learner/comm/comm_learner_registry.h"
#include "ding_worker/worker/coordination/parallel_setup.h"
#include "ding_worker/worker/tasks/configured_collector.h"
#include "ding_worker/worker/tasks/configured_learner.h"
#include "ding_worker/worker/tasks/parallel_envs.h"
#include "ding_worker/worker/tasks/parallel_problems.h"

namespace ding {

CommCoordinator::Options InProcessCommOptions() {
  CommCoordinator::Options options;
  options.address = kInProcessAddress;
  options.session.lease = absl::Minutes(1);
  options.welcome.set_lease_seconds(60);
  options.welcome.set_run("run-1");
  return options;
}

absl::Status EndInProcessRun(Coordinator* coordinator, CommCoordinator* comm) {
  coordinator->RequestEnd("the test is over");
  const bool left = comm->WaitForWorkersToLeave(kInProcessPatience);
  comm->Close("the test is over");
  absl::Status closed = coordinator->Close("the test is over");
  if (!left) closed.Update(absl::DeadlineExceededError("some workers have not left"));
  return closed;
}

InProcessRun RunInProcess(const ExperimentConfig& config, const ComponentDeps& deps, Store* store,
                          InProcessTransport* transport, Transport* workers, int collectors) {
  InProcessRun run;
  absl::StatusOr<std::unique_ptr<CommCoordinator>> comm =
      CommCoordinator::Create(InProcessCommOptions(), transport);
  run.end = comm.status();
  if (!run.end.ok()) return run;
  absl::StatusOr<CoordinatorParts> parts =
      MakeCoordinator(config, "run-1", deps, store, comm->get(), /*journal=*/nullptr);
  run.end = parts.status();
  if (!run.end.ok()) return run;
  Coordinator* const coordinator = parts->coordinator.get();
  coordinator->Start();
  run.end = (*comm)->Start(coordinator);
  if (!run.end.ok()) return run;
  const auto make_collector = [&](WorkerSession* session) {
    return create_comm_collector(CommCollectorConfig(config), session, store,
                                 MakeTaskCollectorFactory(config, deps))
        .value();
  };
  const auto make_learner = [&](WorkerSession* session) {
    return create_comm_learner(CommLearnerConfig(config), MakeCommLearnerOptions(config), session,
                               store, MakeTaskLearnerFactory(config, deps))
        .value();
  };
  std::vector<std::unique_ptr<WorkerThread>> threads;
  for (int i = 0; i < collectors; ++i) {
    threads.push_back(std::make_unique<WorkerThread>(
        Hello::COLLECTOR, absl::StrCat("collector-", i), workers, make_collector));
  }
  for (int i = 0; i < LearnerTasksOf(config); ++i) {
    threads.push_back(std::make_unique<WorkerThread>(Hello::LEARNER, absl::StrCat("learner-", i),
                                                     workers, make_learner));
  }
  run.end = coordinator->WaitUntilDone(kInProcessPatience);
  run.before_close = coordinator->status();
  run.end.Update(EndInProcessRun(coordinator, comm->get()));
  for (const auto& worker : threads) run.workers.Update(worker->Join());
  run.status = coordinator->status();
  run.counters = coordinator->counters();
  return run;
}

}  // namespace ding
