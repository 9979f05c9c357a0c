// A learner of a group that sends exactly the messages that a test tells it to send.
//
// Ownership: the coordinator, whose transport it uses, must outlive it.
// Threads:   thread-compatible.
// Errors:    a message that cannot be sent fails the test.
//
// Example:
//   FakeLearner learner(&coordinator, "learners", "learner-0");
//   learner.Ready();
//   EXPECT_EQ(learner.Receive().form_group().rank(), 0);
#ifndef DING_WORKER_ADAPTER_TESTING_FAKE_LEARNER_H_
#define DING_WORKER_ADAPTER_TESTING_FAKE_LEARNER_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ding_worker/interaction/control/worker_session.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/interaction/testing/fake_coordinator.h"

namespace ding {

// All messages are about task "a" and policy "policy_0".
class FakeLearner {
 public:
  // Joins the aggregator at `address`; joined() says whether it is admitted.
  FakeLearner(FakeCoordinator* coordinator, const std::string& address, const std::string& name,
              Hello::Role role = Hello::LEARNER, uint32_t previous_worker = 0);

  const absl::Status& joined() const { return session_.status(); }
  void Leave() { (*session_)->Close("leaves"); }

  // Returns the next message; an empty one if none comes within a minute or the session is over.
  CoordinatorMessage Receive();
  // Why the last Receive() had no message.
  const absl::Status& over() const { return over_; }

  void Send(const WorkerMessage& message);
  void Ready(uint32_t generation = 0, int64_t train_iter = 0, const std::string& digest = "d");
  // Demands two batches of `rows` rows.
  void Demand(uint64_t sequence, int64_t rows, uint64_t read = 0);
  // Reports the priority of one row. The row's unique id is ten times the priority, its buffer
  // index a hundred times.
  void Info(int64_t step, float priority, bool done = false);
  void Policy(uint64_t version);
  void Fail(absl::StatusCode code, const std::string& why);

 private:
  absl::StatusOr<std::unique_ptr<WorkerSession>> session_ = absl::UnknownError("");
  absl::Status over_;
};

}  // namespace ding

#endif  // DING_WORKER_ADAPTER_TESTING_FAKE_LEARNER_H_
