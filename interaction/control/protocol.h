// The control plane's protocol, which both sides share: its version, how messages are parsed, and the checks
// that they must pass.
//
// Threads: thread-safe (pure functions).
#ifndef DING_WORKER_INTERACTION_CONTROL_PROTOCOL_H_
#define DING_WORKER_INTERACTION_CONTROL_PROTOCOL_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ding_worker/data/named_values.h"
#include "ding_worker/interaction/messages.pb.h"

namespace ding {

// The major number is raised when an older side could misunderstand a message. The minor number is raised when
// an older side can ignore what is new.
inline constexpr int kProtocolMajor = 2;
inline constexpr int kProtocolMinor = 0;

// The largest Welcome, which has the run's config. A worker that joins accepts no larger message.
inline constexpr int64_t kMaxWelcomeBytes = int64_t{1} << 20;

// The largest GroupStatus of an aggregator: the number of its learners, and its size.
inline constexpr int kMaxGroupMembers = 256;
inline constexpr size_t kMaxGroupStatusBytes = 64 * 1024;

ProtocolVersion CurrentProtocol();
// kFailedPrecondition, with both versions, if the major number of `peer` is another one.
absl::Status CheckProtocol(const ProtocolVersion& peer);

// Checks a worker that joins again with `hello` against a worker that is there and said `other`.
// kFailedPrecondition if `other` has taken its place: it has the same name, and is another process.
absl::Status CheckNotReplaced(const Hello& hello, const Hello& other);

// Parse a message that came from a peer.
//   kInvalidArgument    `bytes` are not a message, or the message has no known content
//   kResourceExhausted  the message would take more memory than a peer may cause (base/parse_proto.h)
absl::StatusOr<WorkerMessage> ParseWorkerMessage(absl::string_view bytes);
absl::StatusOr<CoordinatorMessage> ParseCoordinatorMessage(absl::string_view bytes);

// The coordinator and the aggregator apply the following checks to a message before they act on it or forward
// it. The errors are kInvalidArgument.

// An error if the demand has no batches, no rows, or too many rows.
absl::Status CheckDemand(const LearnerDemand& demand);
// An error if the numbers of priorities, ids and places of rows differ, or if the step is out of range.
absl::Status CheckLearnerInfo(const LearnerInfo& info);
// An error if there are more than kMaxGroupMembers, more than kMaxGroupStatusBytes, or a member has members.
absl::Status CheckGroupStatus(const GroupStatus& group);
// An error if a number of steps, of an env or a learner, is out of range. The sum of valid numbers over a few
// million tasks does not overflow.
absl::Status CheckSteps(int64_t steps);
// An error if the number of a policy's version is out of range: the numbers of later versions could overflow.
absl::Status CheckVersion(uint64_t version);

using Settings = google::protobuf::RepeatedPtrField<Setting>;
// Replaces *settings with `values`, in their order.
void ToSettings(const NamedValues& values, Settings* settings);
NamedValues FromSettings(const Settings& settings);

// "collector", "learner" or "operator"; "unknown" for any other value.
absl::string_view RoleName(Hello::Role role);

}  // namespace ding

#endif  // DING_WORKER_INTERACTION_CONTROL_PROTOCOL_H_
