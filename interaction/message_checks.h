// What a message of a worker can be, whoever sends it: numbers within what the run can count, texts
// that fit into a log. What depends on the run (a task's own numbers, the time that has passed) is
// checked where the run is known. docs/security.md has the table of all fields.
//
// Threads: thread-safe (pure functions).
// Errors:  kInvalidArgument says what was found and what was expected.
#ifndef DING_WORKER_INTERACTION_MESSAGE_CHECKS_H_
#define DING_WORKER_INTERACTION_MESSAGE_CHECKS_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "ding_worker/interaction/messages.pb.h"

namespace ding {

// The longest name of a worker, in bytes, and the longest text for people that is kept of a message.
inline constexpr size_t kMaxNameBytes = 128;
inline constexpr size_t kMaxTextBytes = 400;
// What a worker has at most: sums of it do not overflow.
inline constexpr double kMaxCpus = 1e6;
inline constexpr int64_t kMaxMemoryBytes = int64_t{1} << 50;
// Chunks of one report.
inline constexpr int kMaxBadChunks = 1024;

// `text`, from a peer, for a log or a terminal: control characters are replaced by spaces, and what
// is beyond kMaxTextBytes is cut off.
std::string ForPeople(absl::string_view text);

// A name that is too long or has control characters, resources that cannot be.
absl::Status CheckHelloFields(const Hello& hello);
absl::Status CheckResources(const Resources& resources);
// Counts out of range.
absl::Status CheckProgress(const ProgressReport& progress);
// Counts out of range, returns that are not finite, more episodes than steps, results of other games
// than were played.
absl::Status CheckCollectorFinished(const CollectorFinished& info);
// A priority that is negative or not finite.
absl::Status CheckPriorities(const LearnerInfo& info);
// No chunks, too many of them, or a number that no chunk has.
absl::Status CheckBadChunks(const BadChunks& bad);

}  // namespace ding

#endif  // DING_WORKER_INTERACTION_MESSAGE_CHECKS_H_
