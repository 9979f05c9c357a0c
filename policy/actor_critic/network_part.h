// A network of an ActorCritic with its part of the recurrent states. The states of all networks of a row
// lie one after the other, so that they are a single column:
//
//     rows [B]   | state of the actor | state of the critic |        a network without memory has no part
//
// Ownership: owns the network.
// Threads:   thread-compatible.
// Errors:    those of the network.
#ifndef DING_WORKER_POLICY_ACTOR_CRITIC_NETWORK_PART_H_
#define DING_WORKER_POLICY_ACTOR_CRITIC_NETWORK_PART_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/policy/network.h"
#include "ding_worker/policy/recurrent_network.h"

namespace ding {

class NetworkPart {
 public:
  // The part begins at float `state_begin` of a row of states. `network` may be null: there is no such
  // network, and neither Infer() nor Forward() may be called.
  NetworkPart(std::unique_ptr<Network> network, int64_t state_begin);

  Network* network() const { return network_.get(); }
  // The floats of its part; 0 without memory.
  int64_t state_size() const { return recurrent_ == nullptr ? 0 : recurrent_->state_size(); }

  // Computes the outputs of rows [B], each from its row of `states` [B, floats of all networks], and moves
  // its part of the states on by one step. No states: the rows begin episodes.
  absl::Status Infer(const ColumnsView& input, absl::Span<float> states,
                     const MutableColumnsView& output);
  // The pass for learning, for sequences of `length` rows; row i of `states` is the state before sequence i.
  absl::Status Forward(const ColumnsView& input, int64_t length, absl::Span<const float> states,
                       const MutableColumnsView& output);

 private:
  // Returns the part of the rows of `states`, without a copy if it is all of them.
  absl::Span<const float> PartOf(absl::Span<const float> states, int64_t rows);

  std::unique_ptr<Network> network_;
  RecurrentNetwork* recurrent_;  // network_, or null if it has no memory
  int64_t state_begin_;
  std::vector<float> part_;  // working space
};

}  // namespace ding

#endif  // DING_WORKER_POLICY_ACTOR_CRITIC_NETWORK_PART_H_
