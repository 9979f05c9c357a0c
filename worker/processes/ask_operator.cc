#include "ding_worker/worker/processes/ask_operator.h"

#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/interaction/control/worker_session.h"
#include "ding_worker/interaction/transport/transport.h"
#include "ding_worker/worker/coordination/run_status_text.h"

namespace ding {
namespace {

// How often to check whether the answer is still wanted.
constexpr absl::Duration kCancelPeriod = absl::Milliseconds(50);

// How long a page waits for an answer, and tries an address where nobody listens.
constexpr absl::Duration kPageTimeout = absl::Seconds(3);
constexpr absl::Duration kPageRefusedTimeout = absl::Milliseconds(200);

// The commands that take an argument, and those that take none.
constexpr absl::string_view kWithArgument[] = {"inspect", "grow", "shrink", "drain"};
constexpr absl::string_view kAlone[] = {"status", "stop"};

template <size_t kSize>
bool IsOneOf(absl::string_view command, const absl::string_view (&commands)[kSize]) {
  return std::find(std::begin(commands), std::end(commands), command) != std::end(commands);
}

// Connects as `transport` does, and gives up when the answer is no longer wanted. It tries in short
// attempts for as long as the machine itself reports that nobody listens there. A listener that
// says nothing gets the whole time.
class CancellableTransport : public Transport {
 public:
  CancellableTransport(Transport* transport, const std::function<bool()>& cancelled)
      : transport_(transport), cancelled_(cancelled) {}

  absl::StatusOr<std::unique_ptr<Listener>> Listen(const std::string& address) override {
    return transport_->Listen(address);
  }
  absl::StatusOr<std::unique_ptr<Connection>> Connect(const std::string& address,
                                                      absl::Duration timeout) override {
    const Timer waited(Clock::Real());
    absl::Duration attempt = std::min(timeout, kCancelPeriod);
    absl::Status connect_refused;
    while (true) {
      absl::StatusOr<std::unique_ptr<Connection>> connection =
          transport_->Connect(address, attempt);
      const absl::Duration left = timeout - waited.Elapsed();
      const bool is_late = absl::IsDeadlineExceeded(connection.status());
      if (IsConnectRefused(connection.status())) connect_refused = connection.status();
      if (!is_late || left <= absl::ZeroDuration() || cancelled_()) {
        // The last attempt may have been too short to hear the reason again.
        if (is_late && attempt < kCancelPeriod && !connect_refused.ok()) return connect_refused;
        return connection;
      }
      attempt = IsConnectRefused(connection.status()) ? std::min(left, kCancelPeriod) : left;
    }
  }

 private:
  Transport* const transport_;
  const std::function<bool()>& cancelled_;
};

absl::StatusOr<CoordinatorMessage> Ask(const std::string& coordinator, const std::string& name,
                                       const WorkerMessage& request, absl::Duration timeout,
                                       Transport* transport,
                                       const std::function<bool()>& cancelled) {
  Hello hello;
  hello.set_role(Hello::OPERATOR);
  hello.set_name(name);
  hello.set_pid(getpid());
  WorkerSession::Options options;
  options.join_timeout = timeout;
  CancellableTransport cancellable(transport, cancelled);
  DING_ASSIGN_OR_RETURN(const std::unique_ptr<WorkerSession> session,
                        WorkerSession::Join(&cancellable, coordinator, hello, options));
  DING_RETURN_IF_ERROR(session->Send(request, timeout));
  DING_ASSIGN_OR_RETURN(CoordinatorMessage answer, session->Receive(timeout));
  session->Close("done");
  return answer;
}

}  // namespace

absl::StatusOr<RunStatus> AskStatus(const std::string& coordinator, const std::string& name,
                                    absl::Duration timeout, Transport* transport,
                                    const std::function<bool()>& cancelled) {
  WorkerMessage request;
  request.mutable_status_request();
  DING_ASSIGN_OR_RETURN(CoordinatorMessage answer,
                        Ask(coordinator, name, request, timeout, transport, cancelled));
  if (!answer.has_run_status()) {
    return absl::InternalError("the coordinator did not answer with the status");
  }
  return std::move(*answer.mutable_run_status());
}

absl::StatusOr<OperatorReply> AskOperator(const std::string& coordinator, const std::string& name,
                                          const OperatorRequest& request, absl::Duration timeout,
                                          Transport* transport,
                                          const std::function<bool()>& cancelled) {
  WorkerMessage message;
  *message.mutable_operator_request() = request;
  absl::StatusOr<CoordinatorMessage> answer =
      Ask(coordinator, name, message, timeout, transport, cancelled);
  // A run that ends at once may close the session before it has replied.
  if (request.stop() && absl::IsAborted(answer.status())) {
    OperatorReply reply;
    reply.set_message(std::string(answer.status().message()));
    return reply;
  }
  DING_RETURN_IF_ERROR(answer.status());
  if (!answer->has_operator_reply()) {
    return absl::InternalError("the coordinator did not answer with a reply");
  }
  OperatorReply& reply = *answer->mutable_operator_reply();
  if (reply.code() != 0) {
    return absl::Status(static_cast<absl::StatusCode>(reply.code()), reply.message());
  }
  return std::move(reply);
}

absl::StatusOr<OperatorRequest> ParseOperatorCommand(const std::vector<std::string>& words) {
  const std::string command = words.empty() ? "" : words[0];
  const bool with_argument = IsOneOf(command, kWithArgument);
  if (!with_argument && !IsOneOf(command, kAlone)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "command '", command, "' is not known, expected: ", absl::StrJoin(kAlone, ", "), ", ",
        absl::StrJoin(kWithArgument, ", ")));
  }
  if (words.size() != (with_argument ? 2 : 1)) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", absl::StrJoin(words, " "), "': ", command,
                     with_argument ? " takes one argument" : " takes no argument"));
  }
  OperatorRequest request;
  if (command == "status") request.set_inspect("");
  if (command == "stop") request.set_stop(true);
  if (command == "inspect") request.set_inspect(words[1]);
  if (command == "drain") request.set_drain(words[1]);
  if (command == "grow" || command == "shrink") {
    int32_t by = 0;
    if (!absl::SimpleAtoi(words[1], &by)) {
      return absl::InvalidArgumentError(
          absl::StrCat("'", command, " ", words[1], "': expected a number of collectors"));
    }
    command == "grow" ? request.set_grow(by) : request.set_shrink(by);
  }
  return request;
}

AskRun AskerOf(Transport* transport) {
  return [transport](const std::string& address,
                     const std::vector<std::string>& words) -> absl::StatusOr<std::string> {
    DING_ASSIGN_OR_RETURN(const OperatorRequest request, ParseOperatorCommand(words));
    const Timer waited(Clock::Real());
    DING_ASSIGN_OR_RETURN(
        const OperatorReply reply,
        AskOperator(LocalAddress(address), absl::StrCat("watch-", getpid()), request, kPageTimeout,
                    transport, [&waited] { return waited.Elapsed() >= kPageRefusedTimeout; }));
    return request.has_inspect() ? RunStatusToJson(reply.status()) : reply.message();
  };
}

std::vector<int64_t> MissingWorkerDetector::Update(
    const google::protobuf::RepeatedPtrField<WorkerStatus>& present) {
  for (const WorkerStatus& worker : present) {
    seen_.insert_or_assign(worker.pid(), Timer(clock_));
  }
  std::vector<int64_t> away;
  for (auto it = seen_.begin(); it != seen_.end();) {
    const bool there = std::any_of(present.begin(), present.end(),
                                   [&it](const auto& worker) { return worker.pid() == it->first; });
    if (there || it->second.Elapsed() < timeout_) {
      ++it;
    } else {
      away.push_back(it->first);
      it = seen_.erase(it);
    }
  }
  return away;
}

void MissingWorkerDetector::Forgive() {
  for (auto& [pid, timer] : seen_) timer = Timer(clock_);
}

}  // namespace ding
