// What tests of the programs of a parallel run have in common: real processes are started in a folder of
// the test's own, and asked for their status. Each test ends with no process, no folder and no memory of
// its runs left.
//
// Ownership: a test owns the programs that it starts; those are to end before the fixture does.
// Threads:   thread-compatible.
// Errors:    what is waited for in vain is a failure of the test.
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
#include "ding_worker/worker/run_memory.h"
#include "ding_worker/worker/testing/child_program.h"
#include "gtest/gtest.h"

namespace ding {

class ParallelTest : public testing::Test {
 protected:
  static constexpr char kProgram[] = "worker/parallel";
  static constexpr char kConfig[] = "worker/configs/cartpole_dqn_parallel.textproto";
  static constexpr char kSoakConfig[] = "worker/configs/cartpole_dqn_soak.textproto";
  // A run that goes on until the test is done with it.
  static constexpr char kForever[] = "--set=system.max_seconds=0";
  // A machine with much else to do is no reason to lose a worker.
  static constexpr char kLongLease[] = "--set=system.coordinator.lease_seconds=60";
  static constexpr char kFewPolicies[] = "--set=policy.learn.send_policy_freq=100";
  // Only a broken program needs that long.
  static constexpr absl::Duration kPatience = absl::Minutes(2);

  ParallelTest();
  ~ParallelTest() override;

  std::string Path(absl::string_view name) const;
  // Runs of this test are called like its folder.
  std::string RunPath(absl::string_view run) const;
  // Folders in the memory of this machine.
  std::vector<std::string> MemoryOfRuns() const;
  // Keeps the memory of this test's only run while none of its processes lives: runs of other tests,
  // which begin meanwhile, would remove it.
  std::unique_ptr<RunMemoryHold> HoldMemory() const;

  std::vector<std::string> Args(absl::string_view config, absl::string_view run,
                                const std::vector<std::string>& more) const;
  std::unique_ptr<ChildProgram> Start(absl::string_view name, const std::vector<std::string>& args,
                                      const std::function<void()>& before = {}) const;
  // One that is to end by itself.
  std::unique_ptr<ChildProgram> Run(absl::string_view name,
                                    const std::vector<std::string>& args) const;
  // The process that the program has started as its coordinator; 0: there is none. It has other
  // children: workers, and for moments those of a sanitizer.
  static pid_t CoordinatorOf(const ChildProgram& program);
  // Ends it as a person would.
  static void Interrupt(ChildProgram* program);

  std::string WaitForAddress(const ChildProgram& program) const;
  absl::StatusOr<RunStatus> Ask(const std::string& address);
  // The first status that is as wanted.
  RunStatus WaitForStatus(const ChildProgram& program,
                          const std::function<bool(const RunStatus&)>& wanted);
  // A learner that trains and collectors that have collected.
  static bool IsTraining(const RunStatus& status);
  static const WorkerStatus* Find(const RunStatus& status, absl::string_view name);
  // 0: there is no such worker.
  static int64_t PidOf(const RunStatus& status, absl::string_view name);
  std::string Log(absl::string_view run, absl::string_view process) const;
  // A run that trains goes on to train.
  void ExpectGoesOn(const ChildProgram& program);

  std::string folder_;
  std::string program_ = kProgram;
  GrpcTransport transport_;
};

// A store that is away, read-only or full pauses the run.
class PausesTest : public ParallelTest {
 protected:
  void ExpectPauses(const ChildProgram& program);
  void ExpectIsOver(const ChildProgram& program);
};

}  // namespace ding

#endif  // DING_WORKER_WORKER_TESTING_PARALLEL_FIXTURE_H_
