// The fixture of tests that run the programs of a parallel run: real processes are started in a
// folder of the test's own and asked for their status. Each test ends with no process, no folder
// and no memory of its runs left.
//
// Ownership: a test owns the programs that it starts; they must end before the fixture does.
// Threads:   thread-compatible.
// Errors:    waiting for something that does not happen fails the test.
#ifndef DING_WORKER_WORKER_TESTING_PARALLEL_FIXTURE_H_
#define DING_WORKER_WORKER_TESTING_PARALLEL_FIXTURE_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "ding_worker/interaction/grpc/grpc_transport.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/worker/coordination/run_memory.h"
#include "ding_worker/worker/testing/child_program.h"
#include "gtest/gtest.h"

namespace ding {

class ParallelTest : public testing::Test {
 protected:
  static constexpr char kProgram[] = "worker/parallel";
  static constexpr char kConfig[] = "worker/configs/cartpole_dqn_parallel_fast.textproto";
  static constexpr char kSoakConfig[] = "worker/configs/cartpole_dqn_soak.textproto";
  // Makes a run continue until the test ends it.
  static constexpr char kForever[] = "--set=system.max_seconds=0";
  // Keeps workers from losing their lease on a machine with much else to do.
  static constexpr char kLongLease[] = "--set=system.coordinator.lease_seconds=60";
  static constexpr char kFewPolicies[] = "--set=policy.learn.send_policy_freq=100";
  // Only a broken program needs that long.
  static constexpr absl::Duration kPatience = absl::Minutes(2);

  ParallelTest();
  ~ParallelTest() override;

  std::string Path(absl::string_view name) const;
  // Names of this test's runs begin with the name of its folder, so that they differ from the names
  // of other tests.
  std::string RunPath(absl::string_view run) const;
  // Folders of this test's runs in the memory of this machine.
  std::vector<std::string> MemoryOfRuns() const;
  // Keeps the memory of this test's only run while none of its processes is alive; otherwise runs
  // of other tests that begin meanwhile would remove it.
  std::unique_ptr<RunMemoryHold> HoldMemory() const;

  std::vector<std::string> Args(absl::string_view config, absl::string_view run,
                                const std::vector<std::string>& more) const;
  std::unique_ptr<ChildProgram> Start(absl::string_view name, const std::vector<std::string>& args,
                                      const std::function<void()>& before = {}) const;
  // Starts a program that must end by itself, and waits for it.
  std::unique_ptr<ChildProgram> Run(absl::string_view name,
                                    const std::vector<std::string>& args) const;
  // The pid of the process that the program has started as its coordinator; 0: there is none. The
  // program has other children: workers, and at times processes of a sanitizer.
  static pid_t CoordinatorOf(const ChildProgram& program);
  // Ends the program as a person would.
  static void Interrupt(ChildProgram* program);

  std::string WaitForAddress(const ChildProgram& program) const;
  absl::StatusOr<RunStatus> Ask(const std::string& address);
  // Waits for the first status that `wanted` accepts.
  RunStatus WaitForStatus(const ChildProgram& program,
                          const std::function<bool(const RunStatus&)>& wanted);
  // Whether there is a learner that trains and collectors that have collected.
  static bool IsTraining(const RunStatus& status);
  static const WorkerStatus* Find(const RunStatus& status, absl::string_view name);
  // Returns 0 if there is no such worker.
  static int64_t PidOf(const RunStatus& status, absl::string_view name);
  std::string Log(absl::string_view run, absl::string_view process) const;
  // The events of the run, or of one of its workers ("learner-0_").
  std::string Events(absl::string_view run, absl::string_view worker = "") const;
  // Expects that a run that trains continues to train.
  void ExpectGoesOn(const ChildProgram& program);

  std::string folder_;
  std::string program_ = kProgram;
  GrpcTransport transport_;
};

// The fixture of tests in which a store that is away, read-only or full pauses the run.
class PausesTest : public ParallelTest {
 protected:
  void ExpectPauses(const ChildProgram& program);
  void ExpectIsOver(const ChildProgram& program);
};

}  // namespace ding

#endif  // DING_WORKER_WORKER_TESTING_PARALLEL_FIXTURE_H_
