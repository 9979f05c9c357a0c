// A league: chooses the players of each game while a policy learns a game of two.
//
//                     ┌─ sp ────► itself
//   active player ──► │
//        │  learns    └─ pfsp ──► historical players, rather those that it does not beat
//        │                             ▲    by BattleSharedPayoff: results of finished tasks
//        └── trained enough: snapshot ─┘
//
// A snapshot is a version of the player's policy that is kept from then on: Keeps() says which ones
// are. There is none of a player whose policy has no new version since the last one.
//
// Everything random comes from the seed: the same calls make the same jobs.
//
// Ownership: a value.   Threads: thread-compatible.
// Errors:    kInvalidArgument lists all options that are out of range.
//
// Example:
//   DING_ASSIGN_OR_RETURN(OneVsOneLeague league, OneVsOneLeague::Create({}));
//   league.NotePolicy(version);                    // newest of the active player
//   if (league.NoteTrainStep(20)) { ... }          // a snapshot was made
//   const OneVsOneLeague::Job job = league.GetJob();
//   league.FinishJob(job.home_id, job.away_id, {GameResult::kWin});
#ifndef DING_WORKER_COORDINATOR_LEAGUE_LEAGUE_H_
#define DING_WORKER_COORDINATOR_LEAGUE_LEAGUE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/coordinator/league/game_result.h"
#include "ding_worker/coordinator/league/payoff.h"
#include "ding_worker/coordinator/league/player.h"
#include "ding_worker/coordinator/league/rating.h"
#include "ding_worker/data/state.h"
#include "ding_worker/interaction/messages.pb.h"

namespace ding {

class OneVsOneLeague {
 public:
  struct Options {
    std::vector<std::string> player_category = {"default"};
    int naive_sp_players = 1;  // active players of each category; one in all
    NaiveSpPlayer::Options naive_sp_player;
    BattleSharedPayoff::Options payoff;
    LeagueMetric::Options metric;
    int max_historical_players = 100;  // at least 1
    uint64_t seed = 0;
  };
  struct Job {
    std::string home_id;  // the active player
    std::string away_id;
    PolicyVersion away_policy;  // of a historical player; of itself: not set
    bool self_play() const { return home_id == away_id; }
  };

  // A sentence for each option that is out of range.
  static std::vector<std::string> Problems(const Options& options);
  static absl::StatusOr<OneVsOneLeague> Create(const Options& options);

  // The active player, "naive_sp_player_<category>_<i>".
  const NaiveSpPlayer& active() const { return active_; }
  const std::vector<HistoricalPlayer>& historical() const { return historical_; }
  const BattleSharedPayoff& payoff() const { return payoff_; }
  // The win rates of the active player against each historical one, in the order of historical().
  std::vector<double> WinRates() const;

  Job GetJob();
  // Adds the games that a job's task played: `results` are those of the home player.
  void FinishJob(const std::string& home_id, const std::string& away_id,
                 absl::Span<const GameResult> results);

  // The newest version of the active player's policy.
  void NotePolicy(const PolicyVersion& version) { active_.policy = version; }
  // How far the active player has learned. True: a snapshot of it was made.
  bool NoteTrainStep(int64_t train_step);
  // Whether a historical player is that version.
  bool Keeps(const PolicyVersion& version) const;

  // LoadState(): kDataLoss, kInvalidArgument say what does not fit; nothing is changed then.
  absl::Status SaveState(StateWriter* writer) const;
  absl::Status LoadState(StateReader* reader);

 private:
  OneVsOneLeague(const Options& options, std::string active_id);

  Rating* FindRating(const std::string& id);
  void Snapshot();
  // The one that is beaten most, the oldest of those, leaves.
  void DropWeakest();

  int max_historical_players_;
  BattleSharedPayoff payoff_;
  LeagueMetric metric_;
  NaiveSpPlayer active_;
  std::vector<HistoricalPlayer> historical_;  // oldest first
  Rng rng_;
};

}  // namespace ding

#endif  // DING_WORKER_COORDINATOR_LEAGUE_LEAGUE_H_
