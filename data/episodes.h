// Whole episodes in a file: what somebody did, to learn from (demonstrations, recorded runs).
//
//   type        "episodes", version, and the name of the env
//   rows_spec   fields of a row; the first ones are the observation
//   rows/...    [N, ...] a column for each field: obs, action, reward, ...
//   final_obs/... [E, ...] the observation after the last row of each episode
//   length, end [E] rows of each episode, and how it ended (SegmentEnd)
//
// Files are safetensors that check themselves (data/safetensors.h): readable from Python, and
// whatever was cut off or altered is refused. Values are not looked at: who uses an action as an
// index checks it.
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

namespace ding {

struct EpisodeSet {
  // One segment per episode. In a set that was read, episode i is stream i from step 0 on.
  SegmentBatch episodes;
  std::string env;  // the env in which they were played
  // The checksum of the file from which the set was read, which tells two sets apart; 0 for others.
  uint32_t checksum = 0;
};

// OK if there are episodes, and each segment goes to the end of one (as those of a collector of
// episodes do, from its beginning).
//   kInvalidArgument  names the first that does not, or says that there are none
absl::Status ValidateEpisodes(const SegmentBatch& episodes);

// Replaces what is at `path` when all is written; errors as of WriteSafetensors and
// ValidateEpisodes.
absl::Status WriteEpisodes(const std::string& path, const EpisodeSet& set);

//   kNotFound            no such file
//   kDataLoss            truncated or altered, or no such file
//   kFailedPrecondition  written by a later version
//   kInvalidArgument     whole, but not a file of episodes, or one without any
absl::StatusOr<EpisodeSet> ReadEpisodes(const std::string& path);

// Sums of the rewards of each episode, of all their components: column "reward" [N] or [N, R]. kNotFound if
// there is none.
absl::StatusOr<std::vector<double>> EpisodeReturns(const SegmentBatch& episodes);

}  // namespace ding

#endif  // DING_WORKER_DATA_EPISODES_H_
