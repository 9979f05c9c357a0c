// A program that a test starts, asks how it is and waits for; and what it leaves behind.
//
// Ownership: kills its process, if it lives, and reaps it. Its own children are not its, see
//            AdoptOrphans().
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
  // What it says goes to `<log>.out` and `<log>.err`. `before` is called in the new process, which
  // has one thread, before the program takes its place; empty: nothing is.
  ChildProgram(const std::string& path, const std::vector<std::string>& args, std::string log,
               const std::function<void()>& before);
  ChildProgram(const ChildProgram&) = delete;
  ChildProgram& operator=(const ChildProgram&) = delete;
  ~ChildProgram();

  pid_t pid() const { return pid_; }
  bool IsRunning() const;
  // Its exit code, or minus the signal that killed it; nothing: it runs on after `timeout`.
  std::optional<int> Wait(absl::Duration timeout);

  std::string out() const;
  std::string err() const;

 private:
  const std::string log_;
  pid_t pid_ = 0;
  std::optional<int> ended_;
};

// Asks every few milliseconds, for a time that only a broken program needs. False: it never was so.
bool Eventually(const std::function<bool()>& condition, absl::Duration timeout = absl::Minutes(2));

// Where a parallel run's coordinator listens, as it says itself; empty: it has not yet.
std::string CoordinatorAddress(const ChildProgram& program);

// From now on this process is the parent of its descendants whose own parents have ended.
void AdoptOrphans();
// Waits at most `timeout` for them, and for children, to end; how each did, as Wait(). One that
// does not end is killed.
struct Orphan {
  pid_t pid;
  int code;
};
std::vector<Orphan> ReapOrphans(absl::Duration timeout);

}  // namespace ding

#endif  // DING_WORKER_WORKER_TESTING_CHILD_PROGRAM_H_
