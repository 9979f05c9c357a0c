// What both sides of the control plane know: the version of the messages, how one is read, and what
// one may say.
//
// Threads: thread-safe (pure functions).
#ifndef DING_WORKER_INTERACTION_PROTOCOL_H_
#define DING_WORKER_INTERACTION_PROTOCOL_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ding_worker/data/named_values.h"
#include "ding_worker/interaction/messages.pb.h"

namespace ding {

// Raised when the other side could misunderstand a message; the minor when it can pass over what
// is new.
inline constexpr int kProtocolMajor = 2;
inline constexpr int kProtocolMinor = 0;

// What an aggregator tells of its learners at most.
inline constexpr int kMaxGroupMembers = 256;
inline constexpr size_t kMaxGroupStatusBytes = 64 * 1024;

ProtocolVersion CurrentProtocol();
// kFailedPrecondition, with both versions, if `peer` is of another major.
absl::Status CheckProtocol(const ProtocolVersion& peer);

// kFailedPrecondition if `hello`, of a worker that joins again, is of one whose place `other` has
// taken: another process of its name.
absl::Status CheckNotReplaced(const Hello& hello, const Hello& other);

//   kInvalidArgument    `bytes` are no message, or one without content that is known
//   kResourceExhausted  one that would take more memory than a peer may cause (base/parse_proto.h)
absl::StatusOr<WorkerMessage> ParseWorkerMessage(absl::string_view bytes);
absl::StatusOr<CoordinatorMessage> ParseCoordinatorMessage(absl::string_view bytes);

// What whoever gives data to a learner asks of its messages, before it does or passes on anything.
// kInvalidArgument: no batches, no rows, or too many of them.
absl::Status CheckDemand(const LearnerDemand& demand);
// kInvalidArgument: not as many priorities as ids and places of rows, or a step out of range.
absl::Status CheckLearnerInfo(const LearnerInfo& info);
// kInvalidArgument: more of them, or one that has a group itself.
absl::Status CheckGroupStatus(const GroupStatus& group);
// Of an environment or a learner: sums of so many of a few million tasks do not overflow.
absl::Status CheckSteps(int64_t steps);

using Settings = google::protobuf::RepeatedPtrField<Setting>;
void ToSettings(const NamedValues& values, Settings* settings);
NamedValues FromSettings(const Settings& settings);

// "collector", "learner", "operator".
absl::string_view RoleName(Hello::Role role);

}  // namespace ding

#endif  // DING_WORKER_INTERACTION_PROTOCOL_H_
