// A learner of a group that random runs of an aggregator are made of: it says what a learner would say,
// and checks what it is told. After each message it waits for a sign of life from the aggregator, so
// that a run depends on its seed alone.
//
// Ownership: the coordinator, whose transport it joins by, and the Rng outlive it.
// Threads:   thread-compatible.
// Errors:    what no aggregator says is a failure of the test.
#ifndef DING_WORKER_ADAPTER_TESTING_RANDOM_LEARNER_H_
#define DING_WORKER_ADAPTER_TESTING_RANDOM_LEARNER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/interaction/testing/fake_coordinator.h"
#include "ding_worker/interaction/worker_session.h"

namespace ding {

class RandomLearner {
 public:
  // Joins the aggregator at `address`; not connected(): it is not admitted.
  RandomLearner(FakeCoordinator* coordinator, const std::string& address, Hello hello);

  bool connected() const { return session_.ok(); }
  uint32_t worker() const { return (*session_)->welcome().worker(); }
  const Hello& hello() const { return hello_; }
  bool has_task() const { return task_.has_value(); }
  // The generation that it is in; none: it is in none.
  const FormGroup* generation() const { return form_.has_value() && !broken_ ? &*form_ : nullptr; }
  // The same, also when it is over.
  const FormGroup* last_generation() const { return form_.has_value() ? &*form_ : nullptr; }
  // What came since they were taken last.
  std::vector<FormGroup> TakeForms() { return std::exchange(forms_, {}); }
  std::vector<LearnerData> TakeData() { return std::exchange(data_, {}); }

  void Say(const WorkerMessage& message);
  // All that the aggregator has sent until now.
  void Hear();
  void Leave();

  // What a learner could say now; an empty message: nothing.
  WorkerMessage Says(Rng* rng);
  void Ready(GroupReady* ready);
  // Learners of a generation are in step: all count from its beginning.
  void Info(bool done, LearnerInfo* info);
  void Demand(int64_t rows, LearnerDemand* demand);

 private:
  void Value(Rng* rng, GroupValue* value);
  void Policy(PolicyVersion* policy);
  void Lost(const absl::Status& why = absl::CancelledError("left"));
  void Take(const CoordinatorMessage& message);
  void TakeForm(const FormGroup& form);

  const Hello hello_;
  absl::StatusOr<std::unique_ptr<WorkerSession>> session_ = absl::UnknownError("");
  std::optional<LearnerTask> task_;
  std::optional<FormGroup> form_;  // the last one
  bool broken_ = false;
  uint64_t demanded_ = 0;
  uint64_t answered_ = 0;
  std::map<uint64_t, int> asked_;  // demands of each number that are not answered
  uint64_t next_version_ = 1;
  int64_t iterations_ = 0;
  int64_t iterations_in_generation_ = 0;
  std::vector<int64_t> learned_;  // rows whose priorities are not reported
  std::vector<FormGroup> forms_;
  std::vector<LearnerData> data_;
};

}  // namespace ding

#endif  // DING_WORKER_ADAPTER_TESTING_RANDOM_LEARNER_H_
