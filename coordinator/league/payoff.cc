#include "ding_worker/coordinator/league/payoff.h"

#include <algorithm>
#include <cmath>
#include <iterator>

namespace ding {
namespace {

BattleSharedPayoff::Pair PairOf(const std::string& a, const std::string& b) {
  return a < b ? BattleSharedPayoff::Pair(a, b) : BattleSharedPayoff::Pair(b, a);
}

// A quotient whose divisor is a smaller probability is replaced by its limit.
constexpr double kTinyProbability = 1e-150;
// The least share of sigma^2 that is left after a game: rounding must not take all of it.
constexpr double kMinShare = 1e-9;

double Density(double x) { return std::exp(-x * x / 2) / std::sqrt(2 * M_PI); }
double Probability(double x) { return std::erfc(-x / M_SQRT2) / 2; }

// Returns the x with Probability(x) == p, for p in [0.5, 1).
double Quantile(double p) {
  double low = 0;
  double high = 40;
  for (int i = 0; i < 100; ++i) {
    const double middle = (low + high) / 2;
    (Probability(middle) < p ? low : high) = middle;
  }
  return (low + high) / 2;
}

// The effect of a game on the difference of two skills: how far its mean moves, and how much its
// variance shrinks, both in units of its spread.
struct Correction {
  double v;
  double w;
};

// Returns the effect of a win. `t` is by how much the winner was ahead before the game, in units of
// the spread.
Correction CorrectionOfWin(double t, double margin) {
  const double x = t - margin;
  const double probability = Probability(x);
  if (probability < kTinyProbability) return {-x, 1};
  const double v = Density(x) / probability;
  return {v, v * (v + x)};
}

Correction CorrectionOfDraw(double t, double margin) {
  const double lead = std::abs(t);
  const double upper = margin - lead;
  const double lower = -margin - lead;
  const double probability = Probability(upper) - Probability(lower);
  if (probability < kTinyProbability) return {std::copysign(lead - margin, -t), 1};
  const double v = (Density(lower) - Density(upper)) / probability;
  const double w = v * v + (upper * Density(upper) - lower * Density(lower)) / probability;
  return {std::copysign(v, -t), w};
}

}  // namespace

BattleRecord BattleSharedPayoff::Record(const std::string& home, const std::string& away) const {
  const auto found = records_.find(PairOf(home, away));
  if (found == records_.end()) return {};
  BattleRecord record = found->second;
  if (home == found->first.first) return record;
  record.set_wins(found->second.losses());
  record.set_losses(found->second.wins());
  return record;
}

double BattleSharedPayoff::WinRate(const std::string& home, const std::string& away) const {
  const BattleRecord record = Record(home, away);
  const double games = GamesOf(record);
  if (games < config_.min_win_rate_games()) return 0.5;
  return (record.wins() + record.draws() / 2) / games;
}

void BattleSharedPayoff::Update(const std::string& home, const std::string& away,
                                absl::Span<const TaskGameResult> results) {
  const Pair pair = PairOf(home, away);
  BattleRecord& record = records_[pair];
  record.set_home(pair.first);
  record.set_away(pair.second);
  if (home == away) return record.set_draws(record.draws() + 1);
  for (const TaskGameResult of_home : results) {
    record.set_wins(record.wins() * config_.decay());
    record.set_draws(record.draws() * config_.decay());
    record.set_losses(record.losses() * config_.decay());
    if (of_home != TaskGameResult::WINS && of_home != TaskGameResult::LOSSES) {
      record.set_draws(record.draws() + 1);
    } else if ((of_home == TaskGameResult::WINS) == (home == pair.first)) {
      record.set_wins(record.wins() + 1);
    } else {
      record.set_losses(record.losses() + 1);
    }
  }
}

void BattleSharedPayoff::Forget(const std::string& player) {
  for (auto it = records_.begin(); it != records_.end();) {
    const bool its_own = it->first.first == player || it->first.second == player;
    it = its_own ? records_.erase(it) : std::next(it);
  }
}

LeagueMetric::LeagueMetric(const LeagueMetricConfig& config)
    : config_(config),
      draw_margin_(Quantile((config.draw_probability() + 1) / 2) * M_SQRT2 * config.beta()) {}

Rating LeagueMetric::NewRating() const {
  Rating rating;
  rating.set_mu(config_.mu());
  rating.set_sigma(config_.sigma());
  return rating;
}

void LeagueMetric::Rate(TaskGameResult result, Rating* home, Rating* away) const {
  const double tau2 = config_.tau() * config_.tau();
  const double home2 = home->sigma() * home->sigma() + tau2;
  const double away2 = away->sigma() * away->sigma() + tau2;
  const double spread = std::sqrt(2 * config_.beta() * config_.beta() + home2 + away2);
  const double lead = (home->mu() - away->mu()) / spread;
  const double margin = draw_margin_ / spread;
  Correction correction = CorrectionOfDraw(lead, margin);
  if (result == TaskGameResult::WINS) correction = CorrectionOfWin(lead, margin);
  if (result == TaskGameResult::LOSSES) {
    correction = CorrectionOfWin(-lead, margin);
    correction.v = -correction.v;
  }
  home->set_mu(home->mu() + home2 / spread * correction.v);
  away->set_mu(away->mu() - away2 / spread * correction.v);
  const auto shrunk = [&](double sigma2) {
    const double share = 1 - sigma2 / (spread * spread) * correction.w;
    return std::sqrt(sigma2 * std::max(share, kMinShare));
  };
  home->set_sigma(shrunk(home2));
  away->set_sigma(shrunk(away2));
}

}  // namespace ding
