// A program that a test starts, asks whether it runs and waits for, with its output.
//
// Ownership: kills its process, if that is alive, and reaps it. Does not own the children of
//            that process; see AdoptOrphans().
// Threads:   thread-compatible.
//
// Example:
//   AdoptOrphans();
//   ChildProgram program("worker/parallel", {"--config=..."}, folder + "/run", {});
//   ASSERT_TRUE(Eventually([&] { return !CoordinatorAddress(program).empty(); }));
//   EXPECT_EQ(program.Wait(absl::Seconds(60)), 0) << program.err();
//   EXPECT_TRUE(ReapOrphans().empty());
#ifndef DING_WORKER_WORKER_TESTING_CHILD_PROGRAM_H_
#define DING_WORKER_WORKER_TESTING_CHILD_PROGRAM_H_

#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"

namespace ding {

class ChildProgram {
 public:
  // Starts the program. Its output goes to `<log>.out` and `<log>.err`. `before` is called in the
  // new process, which has one thread, before the program is executed; it may be empty.
  ChildProgram(const std::string& path, const std::vector<std::string>& args, std::string log,
               const std::function<void()>& before);
  ChildProgram(const ChildProgram&) = delete;
  ChildProgram& operator=(const ChildProgram&) = delete;
  ~ChildProgram();

  pid_t pid() const { return pid_; }
  bool IsRunning() const;
  // Returns the exit code, or minus the signal that killed the process; nullopt if it still runs
  // after `timeout`.
  std::optional<int> Wait(absl::Duration timeout);

  std::string out() const;
  std::string err() const;

 private:
  const std::string log_;
  pid_t pid_ = 0;
  std::optional<int> ended_;
};

// Evaluates `condition` every few milliseconds until it holds. The default timeout is so long that
// only a broken program needs more. Returns false if the condition did not hold in time.
bool Eventually(const std::function<bool()>& condition, absl::Duration timeout = absl::Minutes(2));

// The address at which the coordinator of a parallel run listens, from the program's output; empty
// if it is not there yet.
std::string CoordinatorAddress(const ChildProgram& program);

// From now on this process is the parent of its descendants whose own parents have ended.
void AdoptOrphans();
// Waits at most `timeout` for these orphans, and for children, to end, and kills those that have
// not. Returns how each of them ended, with codes as in Wait().
struct Orphan {
  pid_t pid;
  int code;
};
std::vector<Orphan> ReapOrphans(absl::Duration timeout);

}  // namespace ding

#endif  // DING_WORKER_WORKER_TESTING_CHILD_PROGRAM_H_
