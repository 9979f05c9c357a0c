// Statistics of the games of a league: results of pairs of players (BattleSharedPayoff), and
// ratings (LeagueMetric).
//
// Ownership: values.   Threads: thread-compatible.
#ifndef DING_WORKER_COORDINATOR_LEAGUE_PAYOFF_H_
#define DING_WORKER_COORDINATOR_LEAGUE_PAYOFF_H_

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "ding_worker/coordinator/league/league.pb.h"
#include "ding_worker/interaction/messages.pb.h"

namespace ding {

// The number of games. Older games count less.
inline double GamesOf(const BattleRecord& record) {
  return record.wins() + record.draws() + record.losses();
}

// The recent results of a league: for each pair of players, the games that they won, drew and lost
// against each other. Older games count less.
//
//     before each game of a pair   wins, draws, losses *= decay      (not in self-play)
//     the game                     one of the three += 1
//     win rate                     (wins + draws / 2) / games; 0.5 while there are too few games
//
// A pair of players has one record, with the players in the order of their names.
//
// Example:
//   BattleSharedPayoff payoff({});
//   payoff.Update("main", "old", {TaskGameResult::WINS, TaskGameResult::DRAWS});
//   payoff.WinRate("old", "main");   // 0.5: eight games are too few
class BattleSharedPayoff {
 public:
  using Pair = std::pair<std::string, std::string>;  // in the order of their names
  // The records are the first player's of each pair.
  using Records = std::map<Pair, BattleRecord>;

  explicit BattleSharedPayoff(const PayoffConfig& config) : config_(config) {}

  // The record of `home` against `away`; zeros if they have not met.
  BattleRecord Record(const std::string& home, const std::string& away) const;
  double WinRate(const std::string& home, const std::string& away) const;

  // Adds the games that one task has played, in this order. The results are those of `home`. A game
  // of self-play counts as a draw, because its result has no meaning.
  void Update(const std::string& home, const std::string& away,
              absl::Span<const TaskGameResult> results);
  // Drops the records of a player who has left.
  void Forget(const std::string& player);

  const Records& records() const { return records_; }
  void set_records(Records records) { records_ = std::move(records); }

 private:
  PayoffConfig config_;
  Records records_;
};

// Rates the strength of the players of a league: TrueSkill for two-player games (Herbrich, Minka
// and Graepel, "TrueSkill: a Bayesian skill rating system", NIPS 2006), by moment matching.
//
//     skill ~ N(mu, sigma^2);   play ~ N(skill, beta^2);   a draw: plays differ by less than a margin,
//     which is such that players of equal skill draw with probability draw_probability
//
// Before a game each sigma^2 grows by tau^2. With tau 0, as in DI-engine, the rating of a player
// changes less and less, although an active player continues to learn. Therefore ratings are only
// logged; opponents are chosen by win rates.
//
// Example:
//   const LeagueMetric metric({});
//   metric.Rate(TaskGameResult::WINS, home.mutable_rating(), away.mutable_rating());
class LeagueMetric {
 public:
  explicit LeagueMetric(const LeagueMetricConfig& config);

  Rating NewRating() const;
  // Updates both ratings after a game. `result` is the home player's.
  void Rate(TaskGameResult result, Rating* home, Rating* away) const;

 private:
  LeagueMetricConfig config_;
  double draw_margin_;
};

}  // namespace ding

#endif  // DING_WORKER_COORDINATOR_LEAGUE_PAYOFF_H_
