// A ring of transitions of an env with goals, drawn uniformly, with goals relabelled in hindsight
// (replay_buffer/selection/hindsight_source.h has the rule). Otherwise it is like
// NaiveReplayBuffer.
//
// Ownership, threads: as NaiveReplayBuffer.
// Errors: as NaiveReplayBuffer. Push() also returns kInvalidArgument for rows without goals, and
//         for rows whose reward is not what relabelling would compute for the same goals; it names
//         the first such row.
#ifndef DING_WORKER_REPLAY_BUFFER_HINDSIGHT_BUFFER_H_
#define DING_WORKER_REPLAY_BUFFER_HINDSIGHT_BUFFER_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ding_worker/replay_buffer/composed_buffer.h"
#include "ding_worker/replay_buffer/selection/hindsight_source.h"

namespace ding {

class HindsightReplayBuffer : public ComposedBuffer {
 public:
  struct Options : RingOptions {
    HindsightOptions hindsight;
  };

  // Returns a sentence for each option that is out of range.
  static std::vector<std::string> Problems(const Options& options);
  // Returns kInvalidArgument, with all Problems(), if there are any.
  static absl::StatusOr<std::unique_ptr<HindsightReplayBuffer>> Create(const Options& options);

 private:
  explicit HindsightReplayBuffer(const Options& options);
};

}  // namespace ding

#endif  // DING_WORKER_REPLAY_BUFFER_HINDSIGHT_BUFFER_H_
