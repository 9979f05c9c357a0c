// The columns of a training batch drawn from a replay buffer: buffers build exactly these, and
// policies read them by name. Also PriorityInfo, which a learner sends back.
//
// Row i of a batch [B] is one transition over a window of k steps, where n is the n-step setting
// and k is the least of n, the rows left in the episode and the rows available
// (ComputeNStepReturn() in data/returns.h):
//
//   column           dtype    shape  meaning
//   obs, obs/...     env's    env's  observation o_t, named as in the env's spec
//   action, ...      policy's        action a_t and the other outputs of the policy
//   reward           float32  []     r_t + gamma r_(t+1) + ... + gamma^(k-1) r_(t+k-1)
//   next_obs, ...    env's    env's  o_(t+k); the episode's final observation if it ended earlier
//   discount         float32  []     gamma^k; 0 if the episode terminated within the window. It is
//                                    gamma^k if the episode was truncated: the bootstrap stays
//   n_step           int32    []     k
//   collect_iter     int64    []     learner iteration of the policy that collected the row
//
// The TD target is reward + discount * V(next_obs) for every n.
//
// Prioritized buffers add:
//
//   weight             float32  []  importance weight; without this column, the weights are 1
//   replay_unique_id   int64    []  identifies the row, to send back its priority
//   replay_buffer_idx  int64    []  position of the row in the buffer, to send back its priority
//   use                int64    []  number of times it was drawn, including this one
//   staleness          int64    []  learner iterations since it was collected
//   priority           float32  []  the priority with which it was drawn
//
// Buffers that draw B sequences of T rows return [B * T] rows, with row t of sequence b at
// b * T + t, and add:
//
//   mask     bool  []  0: padding, a copy of the last row of the sequence
//   burn_in  bool  []  1: the row only warms up the recurrent state
//
// If their sequences cross the ends of episodes, they also add:
//
//   is_first  bool  []  1: the row begins an episode, and the recurrent state is reset
//
// A batch of sequences has Batch::sequence_length() T. Recurrent policies store this column besides
// the action:
//
//   rnn_state  float32  [S]  the recurrent state before the row; 0 at the first row of an episode
//
// Buffers of items (data/items.h) draw rows that refer to data in a store. These have no
// observations, reward, discount and n_step. Besides the metadata of their collector they have:
//
//   chunk   int64  []  number of the chunk in the store
//   row     int64  []  first row in the chunk
//   length  int64  []  number of rows, at least 1
//
// On-policy policies store and add these columns to rows in the order of collection:
//
//   log_prob  float32  []  log-probability of the action under the policy that acted
//   value     float32  []  V(o_t) of the critic of that policy
//   adv       float32  []  advantage (data/returns.h)
//   return    float32  []  adv + value: the target of the critic
#ifndef DING_WORKER_DATA_SAMPLE_COLUMNS_H_
#define DING_WORKER_DATA_SAMPLE_COLUMNS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace ding {

inline constexpr char kColumnObs[] = "obs";
inline constexpr char kColumnAction[] = "action";
inline constexpr char kColumnReward[] = "reward";
inline constexpr char kColumnNextObs[] = "next_obs";
inline constexpr char kColumnDiscount[] = "discount";
inline constexpr char kColumnNStep[] = "n_step";
inline constexpr char kColumnCollectIter[] = "collect_iter";

inline constexpr char kColumnWeight[] = "weight";
inline constexpr char kColumnReplayUniqueId[] = "replay_unique_id";
inline constexpr char kColumnReplayBufferIdx[] = "replay_buffer_idx";
inline constexpr char kColumnUse[] = "use";
inline constexpr char kColumnStaleness[] = "staleness";
inline constexpr char kColumnPriority[] = "priority";

inline constexpr char kColumnLogProb[] = "log_prob";
inline constexpr char kColumnValue[] = "value";
inline constexpr char kColumnAdvantage[] = "adv";
inline constexpr char kColumnReturn[] = "return";

inline constexpr char kColumnMask[] = "mask";
inline constexpr char kColumnBurnIn[] = "burn_in";
inline constexpr char kColumnIsFirst[] = "is_first";

inline constexpr char kColumnRnnState[] = "rnn_state";

inline constexpr char kColumnChunk[] = "chunk";
inline constexpr char kColumnRow[] = "row";
inline constexpr char kColumnLength[] = "length";

// Whether `name` is "obs" or begins with "obs/".
inline bool IsObsColumn(absl::string_view name) {
  return name == kColumnObs || absl::StartsWith(name, "obs/");
}

// "obs" -> "next_obs", "obs/camera" -> "next_obs/camera".
inline std::string NextObsColumn(absl::string_view obs_column) {
  return absl::StrCat("next_", obs_column);
}

// New priorities of rows that were drawn from a replay buffer; a learner sends them back to it.
// Three columns of equal length; the ids come from the drawn batch.
struct PriorityInfo {
  std::vector<float> priority;
  std::vector<int64_t> replay_unique_id;
  std::vector<int64_t> replay_buffer_idx;
};

}  // namespace ding

#endif  // DING_WORKER_DATA_SAMPLE_COLUMNS_H_
