// Files of whole episodes that a policy learns from: demonstrations, or recorded runs.
//
//   type        "episodes", version, and the name of the env
//   rows_spec   fields of a row; the first ones are the observation
//   rows/...    [N, ...] a column for each field: obs, action, reward, ...
//   final_obs/... [E, ...] the observation after the last row of each episode
//   length, end [E] rows of each episode, and how it ended (SegmentEnd)
//
// The files are safetensors with a checksum in them (data/safetensors.h): Python can read them, and
// a file that was truncated or altered is refused. The values are not checked; code that uses an
// action as an index must check it.
//
// Threads: thread-safe (pure functions).
//
// Example:
//   DING_ASSIGN_OR_RETURN(const SegmentBatch episodes, collector->Collect({10}));
//   DING_RETURN_IF_ERROR(WriteEpisodes("demo.episodes", {episodes, "CartPole-v1"}));
//   DING_ASSIGN_OR_RETURN(const EpisodeSet set, ReadEpisodes("demo.episodes"));
#ifndef DING_WORKER_DATA_EPISODES_H_
#define DING_WORKER_DATA_EPISODES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/spec.h"

namespace ding {

struct EpisodeSet {
  // One segment for each episode. In a set that was read from a file, episode i is stream i,
  // beginning with step 0.
  SegmentBatch episodes;
  std::string env;  // the env in which they were played
  // The checksum of the file that the set was read from, to tell two sets apart; 0 without a file.
  uint32_t checksum = 0;
};

// Returns OK if there are episodes, and each segment reaches the end of its episode. Does not check
// that a segment begins with its episode; the segments of an episode collector do.
//   kInvalidArgument  there are no episodes, or a segment ends before its episode; the message
//                     names the first one
absl::Status ValidateEpisodes(const SegmentBatch& episodes);

// Writes a file, which replaces an old one at `path` when all of it is written. Returns the errors
// of WriteSafetensors() and ValidateEpisodes().
absl::Status WriteEpisodes(const std::string& path, const EpisodeSet& set);

// Reads a file of WriteEpisodes().
//   kNotFound            there is no file at `path`
//   kDataLoss            the file is truncated or altered, or is not a safetensors file
//   kFailedPrecondition  the file has a version that this program does not read
//   kInvalidArgument     the file is intact, but is not a file of episodes, or has no episodes
absl::StatusOr<EpisodeSet> ReadEpisodes(const std::string& path);

// The content of a file of episodes, without the rows.
struct EpisodeIndex {
  std::string env;
  SpecPtr rows;
  SpecPtr final_obs;
  std::vector<Segment> segments;
  uint32_t checksum = 0;
};

// Reads the index of a file of WriteEpisodes(), in a time that does not depend on its rows. Returns
// the errors of ReadEpisodes(). Does not compare the checksum: the file may still be damaged.
absl::StatusOr<EpisodeIndex> ReadEpisodeIndex(const std::string& path);

// Returns the return of each episode: the sum of its rewards, over all components of column
// "reward" [N] or [N, R]. kNotFound if there is no such column.
absl::StatusOr<std::vector<double>> EpisodeReturns(const SegmentBatch& episodes);

}  // namespace ding

#endif  // DING_WORKER_DATA_EPISODES_H_
