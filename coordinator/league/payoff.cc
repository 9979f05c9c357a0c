#include "ding_worker/coordinator/league/payoff.h"

#include <iterator>

#include "absl/strings/str_cat.h"

namespace ding {
namespace {

BattleSharedPayoff::Pair PairOf(const std::string& a, const std::string& b) {
  return a < b ? BattleSharedPayoff::Pair(a, b) : BattleSharedPayoff::Pair(b, a);
}

}  // namespace

std::vector<std::string> BattleSharedPayoff::Problems(const PayoffConfig& config) {
  std::vector<std::string> problems;
  if (config.type() != "battle") {
    problems.push_back(
        absl::StrCat("league.payoff.type is '", config.type(), "', expected 'battle'"));
  }
  if (!(config.decay() > 0 && config.decay() <= 1)) {
    problems.push_back(
        absl::StrCat("payoff.decay is ", config.decay(), ", expected above 0 and at most 1"));
  }
  if (config.min_win_rate_games() < 1) {
    problems.push_back(absl::StrCat("payoff.min_win_rate_games is ", config.min_win_rate_games(),
                                    ", expected at least 1"));
  }
  return problems;
}

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

}  // namespace ding
