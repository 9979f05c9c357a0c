// How many tasks of a kind may run at a time, and how many do.
//
// Threads: thread-compatible.
#ifndef DING_WORKER_COORDINATOR_COMMANDER_TASK_SPACE_H_
#define DING_WORKER_COORDINATOR_COMMANDER_TASK_SPACE_H_

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "ding_worker/base/check.h"

namespace ding {

class TaskSpace {
 public:
  // Adds a sentence if `max`, an option of this name, is out of range.
  static void AppendProblems(int max, absl::string_view name, std::vector<std::string>* problems) {
    if (max >= 1) return;
    problems->push_back(absl::StrCat(name, " is ", max, ", expected at least 1"));
  }

  explicit TaskSpace(int max) : max_(max) {}

  bool full() const { return running_ >= max_; }
  int running() const { return running_; }
  int max() const { return max_; }

  // A task begins; there is room for it.
  void Take() {
    DING_CHECK(!full()) << running_ << " tasks run of at most " << max_;
    ++running_;
  }
  // One is over.
  void Release() {
    DING_CHECK(running_ > 0) << "no task runs";
    --running_;
  }

  // As many run as did when it was saved.
  void Restore(int running) { running_ = running; }

  void Increase() { ++max_; }
  // Tasks that run go on, also if they are more than that now.
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
