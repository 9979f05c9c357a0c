// Checks the fields of workers' messages that can be checked without knowing the run: numbers must be in the
// range that a run can count, and texts must fit into a log. Fields that depend on the run (the numbers of a
// task, the time that has passed) are checked where the run is known. docs/reference/worker_claims.md has a table of all
// fields.
//
// Threads: thread-safe (pure functions).
// Errors:  kInvalidArgument, with what was found and what was expected.
#ifndef DING_WORKER_INTERACTION_CONTROL_MESSAGE_CHECKS_H_
#define DING_WORKER_INTERACTION_CONTROL_MESSAGE_CHECKS_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "ding_worker/interaction/messages.pb.h"

namespace ding {

// The longest name of a worker, and the longest text for people that is kept from a message, in bytes.
inline constexpr size_t kMaxNameBytes = 128;
inline constexpr size_t kMaxTextBytes = 400;
// The largest resources of a worker. Sums of them over all workers do not overflow.
inline constexpr double kMaxCpus = 1e6;
inline constexpr int64_t kMaxMemoryBytes = int64_t{1} << 50;
inline constexpr int32_t kMaxGpus = 1 << 16;
// The largest number of chunks in one report.
inline constexpr int kMaxBadChunks = 1024;

// Makes a peer's `text` safe for a log or a terminal: replaces control characters with spaces, and cuts it off
// after kMaxTextBytes, which " ..." then shows.
std::string ForPeople(absl::string_view text);

// Each function returns an error for what its comment lists.

// A name that is too long or has control characters; resources out of range.
absl::Status CheckHelloFields(const Hello& hello);
// Resources out of range.
absl::Status CheckResources(const Resources& resources);
// Counts out of range.
absl::Status CheckProgress(const ProgressReport& progress);
// Counts out of range; a duration out of range; a return that is not finite; more episodes than steps; a number
// of game results that is neither 0 nor the number of episodes.
absl::Status CheckCollectorFinished(const CollectorFinished& info);
// A priority that is negative or not finite.
absl::Status CheckPriorities(const LearnerInfo& info);
// No chunks; more than kMaxBadChunks; a chunk number below 0.
absl::Status CheckBadChunks(const BadChunks& bad);

}  // namespace ding

#endif  // DING_WORKER_INTERACTION_CONTROL_MESSAGE_CHECKS_H_
