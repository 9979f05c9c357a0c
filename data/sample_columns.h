// Names and meanings of the columns of a training batch drawn from a replay buffer: the contract
// between buffers, which build exactly these, and policies, which read them by name.
//
// Row i of a batch [B] is one transition over a window of k = min(n, rows left in the episode, rows
// there are) steps, where n is the n-step setting (data/returns.h, ComputeNStepReturn):
//
//   column           dtype    shape  meaning
//   obs, obs/...     env's    env's  observation o_t, named as in the env's spec
//   action, ...      policy's        action a_t and what else the policy emitted with it
//   reward           float32  []     r_t + gamma r_(t+1) + ... + gamma^(k-1) r_(t+k-1)
//   next_obs, ...    env's    env's  o_(t+k); the episode's final observation if it ended earlier
//   discount         float32  []     gamma^k; 0 if the episode terminated within the window. A
//                                    truncated one keeps gamma^k: a time limit cuts no bootstrap
//   n_step           int32    []     k
//   collect_iter     int64    []     learner iteration of the parameters that acted
//
// So the TD target is reward + discount * V(next_obs), whatever n is.
//
// Prioritized buffers add:
//
//   weight             float32  []  importance weight; a batch without it: all 1
//   replay_unique_id   int64    []  which row of the buffer this is, ...
//   replay_buffer_idx  int64    []  ... and where it is: to send its priority back
//   use                int64    []  how often it was drawn, this time included
//   staleness          int64    []  learner iterations since it was collected
//   priority           float32  []  with which it was drawn
//
// Buffers that draw B sequences of T rows give [B * T] rows, row t of sequence b at b * T + t, and
// add:
//
//   mask     bool  []  0: padding, a repetition of the last row of the sequence
//   burn_in  bool  []  1: only warms up the recurrent state
//
// and, if their sequences go across the ends of episodes,
//
//   is_first  bool  []  1: begins an episode; the recurrent state begins anew
//
// Buffers of items (data/items.h) draw rows that say where data lie. They have no observations,
// reward, discount and n_step, but beside what their collector added:
//
//   chunk   int64  []  of the store
//   row     int64  []  first row in the chunk
//   length  int64  []  rows, at least 1
//
// What on-policy policies store and add beside obs and action: for rows in the order collected.
//
//   log_prob  float32  []  log-probability of what was done, by the policy that acted
//   value     float32  []  V(o_t), by the critic of that time
//   adv       float32  []  advantage (data/returns.h)
//   return    float32  []  adv + value: the target of the critic
#ifndef DING_WORKER_DATA_SAMPLE_COLUMNS_H_
#define DING_WORKER_DATA_SAMPLE_COLUMNS_H_

#include <string>

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

}  // namespace ding

#endif  // DING_WORKER_DATA_SAMPLE_COLUMNS_H_
