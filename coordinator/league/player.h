// The players of a league.
//
//   NaiveSpPlayer     an active player, which learns. By default it plays half of its games against itself, and half
//                     against historical players, most often against those that it does not beat yet
//   HistoricalPlayer  a version of an active player's policy, which does not change any more
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
#include "ding_worker/coordinator/league/rating.h"
#include "ding_worker/interaction/messages.pb.h"

namespace ding {

// Prioritized fictitious self-play: returns the probability of each opponent, given the win rates against them. It is
// proportional to (1 - rate)^2, and equal for all if every opponent is always beaten.
std::vector<double> Pfsp(absl::Span<const double> win_rates);

struct HistoricalPlayer {
  std::string id;         // "<parent's id>_<train step>_historical"
  std::string parent_id;  // the active player whose policy it is
  int64_t train_step = 0;
  PolicyVersion policy;
  Rating rating;
};

class NaiveSpPlayer {
 public:
  struct Options {
    int64_t one_phase_step = 10;  // train iterations, at least 1
    // The probabilities of the kinds of opponents, historical players and itself. They must add up to 1.
    double pfsp = 0.5;
    double sp = 0.5;
    // A player whose win rate against every historical player is above this need not wait for the end of its second phase;
    // in [0, 1].
    double strong_win_rate = 0.7;
  };
  // Returns a sentence for each option that is out of range.
  static std::vector<std::string> Problems(const Options& options);

  NaiveSpPlayer(const Options& options, std::string id, const Rating& rating)
      : rating(rating), options_(options), id_(std::move(id)) {}

  const std::string& id() const { return id_; }

  // Returns the index of the historical player that it plays next, chosen by its win rates against
  // them; nullopt means that it plays itself.
  std::optional<size_t> ChooseOpponent(absl::Span<const double> win_rates, Rng* rng) const;

  // Sets the train iteration of its learner. It may be lower than before if a learner has begun again.
  void set_train_step(int64_t train_step);
  int64_t train_step() const { return train_step_; }
  // Whether a snapshot is due: two phases have passed since the last one, or one phase if it beats all historical players.
  bool IsTrainedEnough(absl::Span<const double> win_rates) const;
  void NoteSnapshot() { snapshot_step_ = train_step_; }
  int64_t snapshot_step() const { return snapshot_step_; }

  // Restores the saved state.
  void Restore(int64_t train_step, int64_t snapshot_step);

  Rating rating;
  PolicyVersion policy;  // its newest version; without a key if there is none yet

 private:
  Options options_;
  std::string id_;
  int64_t train_step_ = 0;
  int64_t snapshot_step_ = 0;
};

}  // namespace ding

#endif  // DING_WORKER_COORDINATOR_LEAGUE_PLAYER_H_
