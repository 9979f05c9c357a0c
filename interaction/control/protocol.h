// The control plane's protocol, which both sides share: its version, how messages are parsed, and
// the checks that messages and their fields must pass.
//
// Threads: thread-safe (pure functions).
#ifndef DING_WORKER_INTERACTION_CONTROL_PROTOCOL_H_
#define DING_WORKER_INTERACTION_CONTROL_PROTOCOL_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ding_worker/data/named_values.h"
#include "ding_worker/interaction/messages.pb.h"

namespace ding {

// The major number is raised when an older side could misunderstand a message. The minor number is
// raised for additions that an older side can ignore.
inline constexpr int kProtocolMajor = 2;
inline constexpr int kProtocolMinor = 1;

// The largest Welcome, which has the run's config. A worker that joins accepts no larger message.
inline constexpr int64_t kMaxWelcomeBytes = int64_t{1} << 20;

// The largest GroupStatus of an aggregator: the number of its learners, and its size.
inline constexpr int kMaxGroupMembers = 256;
inline constexpr size_t kMaxGroupStatusBytes = 64 * 1024;

ProtocolVersion CurrentProtocol();
// kFailedPrecondition, with both versions, if the major number of `peer` is another one.
absl::Status CheckProtocol(const ProtocolVersion& peer);

// Checks a worker that joins again with `hello` against a present worker, which joined with
// `other`. kFailedPrecondition if `other` has taken its place: the same name in another process.
absl::Status CheckNotReplaced(const Hello& hello, const Hello& other);

// Parse a message that came from a peer.
//   kInvalidArgument    `bytes` are not a message, or the message has no known content
//   kResourceExhausted  the message would take more memory than allowed (base/parse_proto.h)
absl::StatusOr<WorkerMessage> ParseWorkerMessage(absl::string_view bytes);
absl::StatusOr<CoordinatorMessage> ParseCoordinatorMessage(absl::string_view bytes);

// The coordinator and the aggregator apply the following checks to a message before they act on it
// or forward it. The errors are kInvalidArgument.

// An error if the demand has no batches, no rows, or too many rows.
absl::Status CheckDemand(const LearnerDemand& demand);
// An error if there are not equally many priorities, ids and slots of rows, or if the step is out
// of range.
absl::Status CheckLearnerInfo(const LearnerInfo& info);
// An error if there are more than kMaxGroupMembers, more than kMaxGroupStatusBytes, or a member has
// members.
absl::Status CheckGroupStatus(const GroupStatus& group);
// An error if a number of steps, of an env or a learner, is out of range. The sum of valid numbers
// over a few million tasks does not overflow.
absl::Status CheckSteps(int64_t steps);
// An error if the number of a policy's version is out of range: the numbers of later versions could
// overflow.
absl::Status CheckVersion(uint64_t version);

using Settings = google::protobuf::RepeatedPtrField<Setting>;
// Replaces *settings with `values`, in their order.
void ToSettings(const NamedValues& values, Settings* settings);
NamedValues FromSettings(const Settings& settings);

// "collector", "learner" or "operator"; "unknown" for any other value.
absl::string_view RoleName(Hello::Role role);

// Checks the fields of workers' messages that do not depend on the run: numbers must be in the
// range that a run can count, and texts must fit into a log. The coordinator checks the fields that
// depend on the run (numbers of a task, elapsed time).
// docs/reference/worker_claims.md has a table of all fields.
//
// Errors: kInvalidArgument, with what was found and what was expected.

// The longest name of a worker, and the longest text for people that is kept from a message, in
// bytes.
inline constexpr size_t kMaxNameBytes = 128;
inline constexpr size_t kMaxTextBytes = 400;
// The largest resources of a worker. Sums of them over all workers do not overflow.
inline constexpr double kMaxCpus = 1e6;
inline constexpr int64_t kMaxMemoryBytes = int64_t{1} << 50;
inline constexpr int32_t kMaxGpus = 1 << 16;
// The largest number of chunks in one report.
inline constexpr int kMaxBadChunks = 1024;

// Makes a peer's `text` safe for a log or a terminal: replaces control characters with spaces, cuts
// it off after kMaxTextBytes, and then appends " ...".
std::string ForPeople(absl::string_view text);

// Each function returns an error in the cases that its comment lists.

// A name that is too long or has control characters; resources out of range.
absl::Status CheckHelloFields(const Hello& hello);
// Resources out of range.
absl::Status CheckResources(const Resources& resources);
// Counts out of range.
absl::Status CheckProgress(const ProgressReport& progress);
// Counts out of range; a duration out of range; a return that is not finite; more episodes than
// steps; a number of game results that is neither 0 nor the number of episodes.
absl::Status CheckCollectorFinished(const CollectorFinished& info);
// A priority that is negative or not finite.
absl::Status CheckPriorities(const LearnerInfo& info);
// No chunks; more than kMaxBadChunks; a chunk number below 0.
absl::Status CheckBadChunks(const BadChunks& bad);

}  // namespace ding

#endif  // DING_WORKER_INTERACTION_CONTROL_PROTOCOL_H_
