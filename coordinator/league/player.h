// An active player of a league, which learns. By default it plays half of its games against itself, and half against
// historical players, most often against those that it does not beat yet.
//
// Ownership: values.   Threads: thread-compatible.
#ifndef DING_WORKER_COORDINATOR_LEAGUE_PLAYER_H_
#define DING_WORKER_COORDINATOR_LEAGUE_PLAYER_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/coordinator/league/league.pb.h"

namespace ding {

// Prioritized fictitious self-play: returns the probability of each opponent, given the win rates against them. It is
// proportional to (1 - rate)^2, and equal for all if every opponent is always beaten.
std::vector<double> Pfsp(absl::Span<const double> win_rates);

class NaiveSpPlayer {
 public:
  // Returns a sentence for each field that is out of range.
  static std::vector<std::string> Problems(const NaiveSpPlayerConfig& config);

  NaiveSpPlayer(const NaiveSpPlayerConfig& config, ActivePlayer state)
      : config_(config), state_(std::move(state)) {}

  const ActivePlayer& state() const { return state_; }
  ActivePlayer* mutable_state() { return &state_; }

  // Returns the index of the historical player that it plays next, chosen by its win rates against
  // them; nullopt means that it plays itself.
  std::optional<size_t> ChooseOpponent(absl::Span<const double> win_rates, Rng* rng) const;

  // Sets the train iteration of its learner. It may be lower than before if a learner has begun again.
  void set_train_step(int64_t train_step);
  // Whether a snapshot is due: two phases have passed since the last one, or one phase if it beats all historical players.
  bool IsTrainedEnough(absl::Span<const double> win_rates) const;
  void NoteSnapshot() { state_.set_snapshot_step(state_.train_step()); }

 private:
  NaiveSpPlayerConfig config_;
  ActivePlayer state_;
};

}  // namespace ding

#endif  // DING_WORKER_COORDINATOR_LEAGUE_PLAYER_H_
