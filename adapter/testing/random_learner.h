// A learner for random test runs of the logic of an aggregator. It makes the messages of a real
// learner in random order, and checks the messages that it is sent.
//
// Threads:   thread-compatible.
// Errors:    a message that no aggregator may send fails the test.
#ifndef DING_WORKER_ADAPTER_TESTING_RANDOM_LEARNER_H_
#define DING_WORKER_ADAPTER_TESTING_RANDOM_LEARNER_H_

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "ding_worker/base/rng.h"
#include "ding_worker/interaction/messages.pb.h"

namespace ding {

class RandomLearner {
 public:
  // The number of the aggregator at its coordinator.
  static constexpr uint32_t kAggregator = 7;

  // `worker` is its number at the aggregator.
  RandomLearner(uint32_t worker, Hello hello) : worker_(worker), hello_(std::move(hello)) {}

  uint32_t worker() const { return worker_; }
  const Hello& hello() const { return hello_; }
  bool has_task() const { return task_.has_value(); }
  // The generation that it is in, or null.
  const FormGroup* generation() const { return form_.has_value() && !broken_ ? &*form_ : nullptr; }
  // The last generation that it was in, even if that is over, or null.
  const FormGroup* last_generation() const { return form_.has_value() ? &*form_ : nullptr; }
  // The messages that have come since the last call.
  std::vector<FormGroup> TakeForms() { return std::exchange(forms_, {}); }
  std::vector<LearnerData> TakeData() { return std::exchange(data_, {}); }

  // Takes a message of the aggregator.
  void Take(const CoordinatorMessage& message);
  // Notes a message that the test sends to the aggregator in its name.
  void NoteSaid(const WorkerMessage& message) {
    if (message.has_learner_demand()) ++asked_[message.learner_demand().sequence()];
  }
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
  void TakeForm(const FormGroup& form);

  const uint32_t worker_;
  const Hello hello_;
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
