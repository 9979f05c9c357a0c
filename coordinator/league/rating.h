// Rates the strength of the players of a league: TrueSkill for two-player games (Herbrich, Minka and Graepel, "TrueSkill:
// a Bayesian skill rating system", NIPS 2006), by moment matching.
//
//     skill ~ N(mu, sigma^2);   play ~ N(skill, beta^2);   a draw: plays differ by less than a margin,
//     which is such that players of equal skill draw with probability draw_probability
//
// Before a game each sigma^2 grows by tau^2. With tau 0, as in DI-engine, the rating of a player changes less and less,
// although an active player continues to learn. Therefore ratings are only logged; opponents are chosen by win rates
// (payoff.h).
//
// Threads: thread-compatible.
//
// Example:
//   const LeagueMetric metric({});
//   metric.Rate(TaskGameResult::WINS, home.mutable_rating(), away.mutable_rating());
#ifndef DING_WORKER_COORDINATOR_LEAGUE_RATING_H_
#define DING_WORKER_COORDINATOR_LEAGUE_RATING_H_

#include <string>
#include <vector>

#include "ding_worker/coordinator/league/league.pb.h"
#include "ding_worker/interaction/messages.pb.h"

namespace ding {

class LeagueMetric {
 public:
  // Returns a sentence for each field that is out of range.
  static std::vector<std::string> Problems(const LeagueMetricConfig& config);

  explicit LeagueMetric(const LeagueMetricConfig& config);

  Rating NewRating() const;
  // Updates both ratings after a game. `result` is that of `home`.
  void Rate(TaskGameResult result, Rating* home, Rating* away) const;

 private:
  LeagueMetricConfig config_;
  double draw_margin_;
};

}  // namespace ding

#endif  // DING_WORKER_COORDINATOR_LEAGUE_RATING_H_
