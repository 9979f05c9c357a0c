// Runs the ranks of a group as threads of one process, for tests. In a real run they are processes
// of learners.
//
// Threads: thread-safe; each rank has one thread.
//
// Example:
//   RunRanks(connect, 2, absl::Seconds(30), [](AllReduce* group) {
//     std::vector<float> values = {1.0f};
//     EXPECT_THAT(group->Sum(absl::MakeSpan(values)), IsOk());
//   });
#ifndef DING_WORKER_INTERACTION_TESTING_RANK_THREADS_H_
#define DING_WORKER_INTERACTION_TESTING_RANK_THREADS_H_

#include <functional>
#include <map>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "ding_worker/base/fuzz_testing.h"
#include "ding_worker/base/mutex.h"
#include "ding_worker/interaction/all_reduce/all_reduce.h"

namespace ding {

// A rendezvous of threads in one process.
class LocalRendezvous : public Rendezvous {
 public:
  absl::Status Set(const std::string& key, const std::string& value) override;
  absl::StatusOr<std::string> Get(const std::string& key, absl::Duration timeout) override;

 private:
  Mutex mutex_;
  CondVar changed_;
  std::map<std::string, std::string> values_ ABSL_GUARDED_BY(mutex_);
};

// Returns this rank's own values unchanged, and for other ranks mutants of the values that Tell()
// has set. Thread-compatible.
class ToldRendezvous : public Rendezvous {
 public:
  absl::Status Set(const std::string& key, const std::string& value) override {
    set_[key] = value;
    return absl::OkStatus();
  }
  absl::StatusOr<std::string> Get(const std::string& key, absl::Duration /*timeout*/) override {
    const auto own = set_.find(key);
    if (own != set_.end()) return own->second;
    const auto found = told_.find(key);
    if (found != told_.end()) return mutator_->Mutate(found->second);
    return absl::DeadlineExceededError(absl::StrCat("no rank set '", key, "'"));
  }
  const std::map<std::string, std::string>& set() const { return set_; }
  void Tell(const std::map<std::string, std::string>& values, Mutator* mutator) {
    told_ = values;
    mutator_ = mutator;
  }

 private:
  std::map<std::string, std::string> set_;
  std::map<std::string, std::string> told_;
  Mutator* mutator_ = nullptr;
};

// Connects a group, calls `run` for each rank on a thread of its own, and waits for all of them.
// The test fails if the group cannot be connected.
void RunRanks(const AllReduceCreator& connect, int world_size, absl::Duration timeout,
              const std::function<void(AllReduce*)>& run);

}  // namespace ding

#endif  // DING_WORKER_INTERACTION_TESTING_RANK_THREADS_H_
