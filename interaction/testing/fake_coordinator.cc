#include "ding_worker/interaction/testing/fake_coordinator.h"

#include <thread>
#include <utility>

#include "ding_worker/base/check.h"
#include "ding_worker/interaction/control/protocol.h"

namespace ding {
namespace {

constexpr absl::Duration kLong = absl::Minutes(1);
constexpr absl::Duration kShort = absl::Milliseconds(50);

// The lease is so long that it never ends during a test.
SessionOptions Patient() {
  SessionOptions options;
  options.lease = absl::Minutes(5);
  return options;
}

}  // namespace

FakeCoordinator::FakeCoordinator() : listener_(transport_.Listen(kAddress).value()) {}

FakeCoordinator::~FakeCoordinator() = default;

CoordinatorMessage FakeCoordinator::MakeWelcome() {
  CoordinatorMessage message;
  *message.mutable_welcome()->mutable_version() = CurrentProtocol();
  message.mutable_welcome()->set_worker(kWorker);
  message.mutable_welcome()->set_run("run-1");
  return message;
}

std::unique_ptr<WorkerSession> FakeCoordinator::Join() {
  WorkerSession::Options options;
  options.session = Patient();
  return JoinWith(options,
                  [](const Hello&, Session* session) {
                    DING_CHECK(session->Send(MakeWelcome().SerializeAsString(), kLong).ok());
                  })
      .value();
}

absl::StatusOr<std::unique_ptr<WorkerSession>> FakeCoordinator::JoinWith(
    const WorkerSession::Options& options,
    const std::function<void(const Hello&, Session*)>& greet) {
  std::thread greeter([this, &greet] {
    session_ = Session::Start(listener_->Accept(kLong).value(), Patient()).value();
    session_->Admit();
    const absl::StatusOr<std::string> bytes = session_->Receive(kLong);
    DING_CHECK(bytes.ok()) << bytes.status();
    greet(ParseWorkerMessage(*bytes).value().hello(), session_.get());
  });
  Hello hello;
  hello.set_name("worker-x");
  absl::StatusOr<std::unique_ptr<WorkerSession>> joined =
      WorkerSession::Join(&transport_, kAddress, hello, options);
  greeter.join();
  return joined;
}

void FakeCoordinator::Send(const CoordinatorMessage& message) {
  const absl::Status sent = session_->Send(message.SerializeAsString(), kLong);
  DING_CHECK(sent.ok()) << sent;
}

void FakeCoordinator::StartCollector(const std::string& task_id) {
  CoordinatorMessage message;
  CollectorTask* const task = message.mutable_start_task()->mutable_collector();
  task->set_task_id(task_id);
  task->set_buffer_id("buffer_0");
  task->set_policy_id("policy_0");
  Send(message);
}

void FakeCoordinator::StartLearner(const std::string& task_id, uint64_t first_version) {
  CoordinatorMessage message;
  LearnerTask* const task = message.mutable_start_task()->mutable_learner();
  task->set_task_id(task_id);
  task->set_buffer_id("buffer_0");
  task->set_policy_id("policy_0");
  task->set_first_version(first_version);
  Send(message);
}

void FakeCoordinator::CloseTask(const std::string& task_id) {
  CoordinatorMessage message;
  message.mutable_close_task()->set_task_id(task_id);
  Send(message);
}

void FakeCoordinator::Acknowledge(const std::string& task_id, uint64_t sequence) {
  CoordinatorMessage message;
  message.mutable_collector_data_ack()->set_task_id(task_id);
  message.mutable_collector_data_ack()->set_sequence(sequence);
  Send(message);
}

void FakeCoordinator::Publish(const std::string& policy_id, uint64_t version,
                              const std::string& key) {
  CoordinatorMessage message;
  message.mutable_policy_version()->set_policy_id(policy_id);
  message.mutable_policy_version()->set_version(version);
  message.mutable_policy_version()->set_key(key);
  Send(message);
}

void FakeCoordinator::EndRun(const std::string& reason) {
  CoordinatorMessage message;
  message.mutable_end_run()->set_reason(reason);
  Send(message);
}

WorkerMessage FakeCoordinator::Receive() {
  const absl::StatusOr<std::string> bytes = session_->Receive(kLong);
  return bytes.ok() ? ParseWorkerMessage(*bytes).value() : WorkerMessage();
}

WorkerMessage FakeCoordinator::ReceiveUntil(
    const std::function<bool(const WorkerMessage&)>& wanted) {
  while (true) {
    WorkerMessage message = Receive();
    if (message.message_case() == WorkerMessage::MESSAGE_NOT_SET || wanted(message)) return message;
  }
}

bool FakeCoordinator::HearsMore() { return session_->Receive(kShort).ok(); }

}  // namespace ding
