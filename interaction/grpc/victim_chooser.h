// Decides which connection goes when there are too many of one kind.
//
// One of the address that has most of them goes: the oldest silent one, or any of them if all have spoken.
// So an address that opens many connections makes room with its own, and the others stay.
//
// Threads: thread-compatible.
//
// Example:
//   std::vector<VictimChooser::Candidate> candidates;
//   for (const auto& each : waiting) candidates.push_back({each.address, !each.spoke});
//   Close(waiting[chooser.Choose(candidates)]);
#ifndef DING_WORKER_INTERACTION_GRPC_VICTIM_CHOOSER_H_
#define DING_WORKER_INTERACTION_GRPC_VICTIM_CHOOSER_H_

#include <cstddef>
#include <vector>

#include "absl/strings/string_view.h"
#include "ding_worker/base/rng.h"

namespace ding {

class VictimChooser {
 public:
  // A connection that may go.
  struct Candidate {
    absl::string_view address;  // must live until Choose() returns
    bool silent = false;        // has sent nothing yet
  };

  // Returns the index of the one that goes. `candidates` must not be empty; silent ones of one address are
  // ordered from the oldest to the newest. If several addresses have most, any of them may be chosen.
  size_t Choose(const std::vector<Candidate>& candidates);

 private:
  Rng victims_{0, Rng::Purpose("connection_gate/victims")};
};

}  // namespace ding

#endif  // DING_WORKER_INTERACTION_GRPC_VICTIM_CHOOSER_H_
