// Counts how many tasks of one kind run, and how many may run at a time.
//
// Threads: thread-compatible.
#ifndef DING_WORKER_COORDINATOR_COMMANDER_TASK_SPACE_H_
#define DING_WORKER_COORDINATOR_COMMANDER_TASK_SPACE_H_

#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "ding_worker/base/check.h"

namespace ding {

class TaskSpace {
 public:
  // Adds a sentence if `max` is out of range. `name` is the name of the option.
  static void AppendProblems(int max, absl::string_view name, std::vector<std::string>* problems) {
    if (max >= 1) return;
    problems->push_back(absl::StrCat(name, " is ", max, ", expected at least 1"));
  }

  explicit TaskSpace(int max) : max_(max) {}

  bool full() const { return running_ >= max_; }
  int running() const { return running_; }
  int max() const { return max_; }

  // Counts a task that begins. There must be room for it.
  void Take() {
    DING_CHECK(!full()) << running_ << " tasks run of at most " << max_;
    ++running_;
  }
  // Counts a task that is over.
  void Release() {
    DING_CHECK(running_ > 0) << "no task runs";
    --running_;
  }

  // Sets the number of running tasks to a saved one.
  void Restore(int running) { running_ = running; }

  void Increase() {
    if (max_ < std::numeric_limits<int>::max()) ++max_;
  }
  // Tasks that run already go on, even if they are more than max() now.
  void Decrease() {
    DING_CHECK(max_ > 0) << "decreased more often than increased";
    --max_;
  }

 private:
  int max_;
  int running_ = 0;
};

}  // namespace ding

#endif  // DING_WORKER_COORDINATOR_COMMANDER_TASK_SPACE_H_
