// A league: it chooses the players of each game while a policy learns a two-player game.
//
//                     ┌─ sp ────► itself
//   active player ──► │
//        │  learns    └─ pfsp ──► historical players, most often the ones that it does not beat
//        │                             ▲    by BattleSharedPayoff: results of finished tasks
//        └── trained enough: snapshot ─┘
//
// A snapshot is a version of the player's policy that is kept from then on (Keeps()). A snapshot is
// made only if the policy has a new version since the last one.
//
// All random numbers come from the seed, so that the same calls return the same jobs.
//
// Ownership: values.   Threads: thread-compatible.
// Errors:    kInvalidArgument lists all fields of the config that are out of range.
//
// Example:
//   DING_ASSIGN_OR_RETURN(OneVsOneLeague league, OneVsOneLeague::Create({}));
//   league.NotePolicy(version);                    // newest of the active player
//   if (league.NoteTrainStep(20)) { ... }          // a snapshot was made
//   const OneVsOneLeague::Job job = league.GetJob();
//   league.FinishJob(job.home_id, job.away_id, {TaskGameResult::WINS});
#ifndef DING_WORKER_COORDINATOR_LEAGUE_LEAGUE_H_
#define DING_WORKER_COORDINATOR_LEAGUE_LEAGUE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/coordinator/league/league.pb.h"
#include "ding_worker/coordinator/league/payoff.h"
#include "ding_worker/data/state.h"
#include "ding_worker/interaction/messages.pb.h"

namespace ding {

// Prioritized fictitious self-play: returns the probability of each opponent, given the win rates
// against them. It is proportional to (1 - rate)^2, and equal for all if every opponent is always
// beaten.
std::vector<double> Pfsp(absl::Span<const double> win_rates);

// An active player of a league, which learns. By default it plays half of its games against itself,
// and half against historical players, most often against the ones that it does not beat yet.
class NaiveSpPlayer {
 public:
  NaiveSpPlayer(const NaiveSpPlayerConfig& config, ActivePlayer state)
      : config_(config), state_(std::move(state)) {}

  const ActivePlayer& state() const { return state_; }
  ActivePlayer* mutable_state() { return &state_; }

  // Returns the index of the historical player that the active player plays next, chosen by its win
  // rates against the historical players; nullopt: it plays itself.
  std::optional<size_t> ChooseOpponent(absl::Span<const double> win_rates, Rng* rng) const;

  // Sets the train iteration of its learner. It may be lower than before if the learner was
  // restarted.
  void set_train_step(int64_t train_step);
  // Whether a snapshot is due: two phases have passed since the last one, or one phase if the
  // player beats all historical players.
  bool IsTrainedEnough(absl::Span<const double> win_rates) const;
  void NoteSnapshot() { state_.set_snapshot_step(state_.train_step()); }

 private:
  NaiveSpPlayerConfig config_;
  ActivePlayer state_;
};

class OneVsOneLeague {
 public:
  using HistoricalPlayers = google::protobuf::RepeatedPtrField<HistoricalPlayer>;
  struct Job {
    std::string home_id;  // the active player
    std::string away_id;
    PolicyVersion away_policy;  // of the historical player; not set in self-play
    bool self_play() const { return home_id == away_id; }
  };

  // Returns a sentence for each field that is out of range.
  static std::vector<std::string> Problems(const LeagueConfig& config);
  static absl::StatusOr<OneVsOneLeague> Create(const LeagueConfig& config, uint64_t seed = 0);

  const ActivePlayer& active() const { return active_.state(); }
  const HistoricalPlayers& historical() const { return historical_; }
  const BattleSharedPayoff& payoff() const { return payoff_; }
  // The win rates of the active player against each historical one, in the order of historical().
  std::vector<double> WinRates() const;

  Job GetJob();
  // Adds the games that the task of a job has played. `results` are the home player's.
  void FinishJob(const std::string& home_id, const std::string& away_id,
                 absl::Span<const TaskGameResult> results);

  // Notes the newest version of the active player's policy.
  void NotePolicy(const PolicyVersion& version) {
    *active_.mutable_state()->mutable_policy() = version;
  }
  // Notes the train iteration of the active player. Returns whether a snapshot was made.
  bool NoteTrainStep(int64_t train_step);
  // Whether a historical player has this version of the policy.
  bool Keeps(const PolicyVersion& version) const;

  // Save and load the league. LoadState() returns kDataLoss or kInvalidArgument, and changes
  // nothing, if the state does not fit.
  absl::Status SaveState(StateWriter* writer) const;
  absl::Status LoadState(StateReader* reader);

 private:
  OneVsOneLeague(const LeagueConfig& config, uint64_t seed);

  Rating* FindRating(const std::string& id);
  void Snapshot();
  // Removes the historical player that is beaten most often, among equals the oldest one.
  void DropWeakest();

  int max_historical_players_;
  BattleSharedPayoff payoff_;
  LeagueMetric metric_;
  NaiveSpPlayer active_;
  HistoricalPlayers historical_;  // oldest first
  Rng rng_;
};

}  // namespace ding

#endif  // DING_WORKER_COORDINATOR_LEAGUE_LEAGUE_H_
