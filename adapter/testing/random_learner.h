// A learner for random test runs of an aggregator. It sends the messages of a real learner in
// random order, and checks the messages that it receives. After each message it asks the aggregator
// for its status and waits for the answer, so that a run depends on its seed only.
//
// Ownership: the coordinator, whose transport it uses, must outlive it.
// Threads:   thread-compatible.
// Errors:    a message that no aggregator may send fails the test.
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
#include "ding_worker/interaction/control/worker_session.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/interaction/testing/fake_coordinator.h"

namespace ding {

class RandomLearner {
 public:
  // Joins the aggregator at `address`. If it is not admitted, connected() is false.
  RandomLearner(FakeCoordinator* coordinator, const std::string& address, Hello hello);

  bool connected() const { return session_.ok(); }
  uint32_t worker() const { return (*session_)->welcome().worker(); }
  const Hello& hello() const { return hello_; }
  bool has_task() const { return task_.has_value(); }
  // The generation that it is in, or null.
  const FormGroup* generation() const { return form_.has_value() && !broken_ ? &*form_ : nullptr; }
  // The last generation that it was in, even if that is over, or null.
  const FormGroup* last_generation() const { return form_.has_value() ? &*form_ : nullptr; }
  // The messages that have come since the last call.
  std::vector<FormGroup> TakeForms() { return std::exchange(forms_, {}); }
  std::vector<LearnerData> TakeData() { return std::exchange(data_, {}); }

  // Sends a message, then calls Hear().
  void Say(const WorkerMessage& message);
  // Handles everything that the aggregator has sent so far.
  void Hear();
  void Leave();

  // Makes a random message that a learner could send now; an empty one if it has nothing to send.
  WorkerMessage Says(Rng* rng);
  // These fill in a message. Info() counts steps from the beginning of the generation, so that all
  // learners of a generation are at the same step.
  void Ready(GroupReady* ready);
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
  std::optional<FormGroup> form_;  // the last one that came
  bool broken_ = false;
  uint64_t demanded_ = 0;
  uint64_t answered_ = 0;
  std::map<uint64_t, int> asked_;  // how many demands of each number are unanswered
  uint64_t next_version_ = 1;
  int64_t iterations_ = 0;
  int64_t iterations_in_generation_ = 0;
  std::vector<int64_t> learned_;  // rows whose priorities are not reported yet
  std::vector<FormGroup> forms_;
  std::vector<LearnerData> data_;
};

}  // namespace ding

#endif  // DING_WORKER_ADAPTER_TESTING_RANDOM_LEARNER_H_
