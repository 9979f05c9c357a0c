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
//   metric.Rate(GameResult::kWin, &home.rating, &away.rating);
#ifndef DING_WORKER_COORDINATOR_LEAGUE_RATING_H_
#define DING_WORKER_COORDINATOR_LEAGUE_RATING_H_

#include <string>
#include <vector>

#include "ding_worker/coordinator/league/game_result.h"

namespace ding {

struct Rating {
  double mu = 0;
  double sigma = 25.0 / 3;
};

class LeagueMetric {
 public:
  struct Options {
    double mu = 0;                   // the mean of a new player
    double sigma = 25.0 / 3;         // the deviation of a new player, above 0
    double beta = 25.0 / 6;          // above 0
    double tau = 0;                  // at least 0
    double draw_probability = 0.02;  // above 0 and below 1
  };
  // Returns a sentence for each option that is out of range.
  static std::vector<std::string> Problems(const Options& options);

  explicit LeagueMetric(const Options& options);

  Rating NewRating() const { return {options_.mu, options_.sigma}; }
  // Updates both ratings after a game. `result` is that of `home`.
  void Rate(GameResult result, Rating* home, Rating* away) const;

 private:
  Options options_;
  double draw_margin_;
};

}  // namespace ding

#endif  // DING_WORKER_COORDINATOR_LEAGUE_RATING_H_
