// A league: it chooses the players of each game while a policy learns a two-player game.
//
//                     ┌─ sp ────► itself
//   active player ──► │
//        │  learns    └─ pfsp ──► historical players, most often those that it does not beat
//        │                             ▲    by BattleSharedPayoff: results of finished tasks
//        └── trained enough: snapshot ─┘
//
// A snapshot is a version of the player's policy that is kept from then on (Keeps()). A snapshot is made only if the
// policy has a new version since the last one.
//
// All random numbers come from the seed, so that the same calls return the same jobs.
//
// Ownership: a value.   Threads: thread-compatible.
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

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/coordinator/league/league.pb.h"
#include "ding_worker/coordinator/league/payoff.h"
#include "ding_worker/coordinator/league/player.h"
#include "ding_worker/coordinator/league/rating.h"
#include "ding_worker/data/state.h"
#include "ding_worker/interaction/messages.pb.h"

namespace ding {

class OneVsOneLeague {
 public:
  using HistoricalPlayers = google::protobuf::RepeatedPtrField<HistoricalPlayer>;
  struct Job {
    std::string home_id;  // the active player
    std::string away_id;
    PolicyVersion away_policy;  // that of a historical player; not set in self-play
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
  // Adds the games that the task of a job has played. `results` are those of the home player.
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

  // Save and load the league. LoadState() returns kDataLoss or kInvalidArgument, and changes nothing, if the state does not
  // fit.
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
