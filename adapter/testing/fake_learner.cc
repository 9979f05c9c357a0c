#include "ding_worker/adapter/testing/fake_learner.h"

#include "absl/time/time.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/interaction/store/store.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

constexpr absl::Duration kLong = absl::Minutes(1);

}  // namespace

FakeLearner::FakeLearner(FakeCoordinator* coordinator, const std::string& address,
                         const std::string& name, Hello::Role role, uint32_t previous_worker) {
  Hello hello;
  hello.set_role(role);
  hello.set_name(name);
  hello.set_pid(previous_worker == 0 ? 4711 : 4712);
  hello.set_previous_worker(previous_worker);
  hello.mutable_resources()->set_cpus(2);
  hello.mutable_resources()->set_memory_bytes(1000);
  hello.mutable_resources()->set_gpus(1);
  WorkerSession::Options options;
  options.session.lease = kLong;
  session_ = WorkerSession::Join(coordinator->transport(), address, hello, options);
}

CoordinatorMessage FakeLearner::Receive() {
  absl::StatusOr<CoordinatorMessage> message = (*session_)->Receive(kLong);
  over_ = message.status();
  return message.ok() ? *message : CoordinatorMessage();
}

void FakeLearner::Send(const WorkerMessage& message) {
  EXPECT_THAT((*session_)->Send(message, kLong), IsOk());
}

void FakeLearner::Ready(uint32_t generation, int64_t train_iter, const std::string& digest) {
  WorkerMessage message;
  message.mutable_group_ready()->set_task_id("a");
  message.mutable_group_ready()->set_model_digest(digest);
  message.mutable_group_ready()->set_generation(generation);
  message.mutable_group_ready()->set_train_iter(train_iter);
  Send(message);
}

void FakeLearner::Demand(uint64_t sequence, int64_t rows, uint64_t read) {
  WorkerMessage message;
  LearnerDemand* const demand = message.mutable_learner_demand();
  demand->set_task_id("a");
  demand->set_sequence(sequence);
  demand->set_batch_size(rows);
  demand->set_batches(2);
  demand->set_read(read);
  Send(message);
}

void FakeLearner::Info(int64_t step, float priority, bool done) {
  WorkerMessage message;
  LearnerInfo* const info = message.mutable_learner_info();
  info->set_task_id("a");
  info->set_learner_step(step);
  info->set_learner_done(done);
  info->add_priority(priority);
  info->add_replay_unique_id(static_cast<int64_t>(priority * 10));
  info->add_replay_buffer_idx(static_cast<int64_t>(priority * 100));
  Send(message);
}

void FakeLearner::Policy(uint64_t version) {
  WorkerMessage message;
  message.mutable_policy_version()->set_policy_id("policy_0");
  message.mutable_policy_version()->set_version(version);
  message.mutable_policy_version()->set_key(
      PolicyKey("policy_0", version, FakeCoordinator::kWorker));
  Send(message);
}

void FakeLearner::Fail(absl::StatusCode code, const std::string& why) {
  WorkerMessage message;
  message.mutable_task_failed()->set_task_id("a");
  message.mutable_task_failed()->set_code(static_cast<int>(code));
  message.mutable_task_failed()->set_message(why);
  Send(message);
}

}  // namespace ding
