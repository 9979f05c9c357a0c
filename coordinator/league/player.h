// The players of a league.
//
//   NaiveSpPlayer     active: it learns. Half of its games it plays against itself, half against what
//                     it was at some time, rather against those that it does not beat yet.
//   HistoricalPlayer  what an active player was: a version of its policy that stays as it is.
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

// Prioritized fictitious self-play: how probable each opponent is, by the win rates against them.
// In proportion to (1 - rate)^2; all alike if each of them is always beaten.
std::vector<double> Pfsp(absl::Span<const double> win_rates);

struct HistoricalPlayer {
  std::string id;         // "<parent's id>_<train step>_historical"
  std::string parent_id;  // of the active player that it was
  int64_t train_step = 0;
  PolicyVersion policy;
  Rating rating;
};

class NaiveSpPlayer {
 public:
  struct Options {
    int64_t one_phase_step = 10;  // train iterations, at least 1
    // Probabilities of the kinds of opponents, which add up to 1: historical players, itself.
    double pfsp = 0.5;
    double sp = 0.5;
    // A player that wins more than that against every historical player need not wait for the end
    // of its second phase; in [0, 1].
    double strong_win_rate = 0.7;
  };
  // A sentence for each option that is out of range.
  static std::vector<std::string> Problems(const Options& options);

  NaiveSpPlayer(const Options& options, std::string id, const Rating& rating)
      : rating(rating), options_(options), id_(std::move(id)) {}

  const std::string& id() const { return id_; }

  // Returns the index of the historical player that it plays next, chosen by its win rates against
  // them; nullopt means that it plays itself.
  std::optional<size_t> ChooseOpponent(absl::Span<const double> win_rates, Rng* rng) const;

  // It learns: a step below earlier ones is that of a learner that began again.
  void set_train_step(int64_t train_step);
  int64_t train_step() const { return train_step_; }
  // Whether it is time for a snapshot: two phases since the last one are over, or one, and it beats
  // all historical players.
  bool IsTrainedEnough(absl::Span<const double> win_rates) const;
  void NoteSnapshot() { snapshot_step_ = train_step_; }
  int64_t snapshot_step() const { return snapshot_step_; }

  // The same player, as it was saved.
  void Restore(int64_t train_step, int64_t snapshot_step);

  Rating rating;
  PolicyVersion policy;  // its newest version; no key: there is none yet

 private:
  Options options_;
  std::string id_;
  int64_t train_step_ = 0;
  int64_t snapshot_step_ = 0;
};

}  // namespace ding

#endif  // DING_WORKER_COORDINATOR_LEAGUE_PLAYER_H_
