#include "ding_worker/coordinator/league/payoff.h"

#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"

namespace ding {
namespace {

BattleSharedPayoff::Pair PairOf(const std::string& a, const std::string& b) {
  return a < b ? BattleSharedPayoff::Pair(a, b) : BattleSharedPayoff::Pair(b, a);
}

}  // namespace

std::vector<std::string> BattleSharedPayoff::Problems(const Options& options) {
  std::vector<std::string> problems;
  if (!(options.decay > 0 && options.decay <= 1)) {
    problems.push_back(
        absl::StrCat("payoff.decay is ", options.decay, ", expected above 0 and at most 1"));
  }
  if (!(options.min_win_rate_games >= 1)) {
    problems.push_back(absl::StrCat("payoff.min_win_rate_games is ", options.min_win_rate_games,
                                    ", expected at least 1"));
  }
  return problems;
}

BattleRecord BattleSharedPayoff::Record(const std::string& home, const std::string& away) const {
  const auto found = records_.find(PairOf(home, away));
  if (found == records_.end()) return {};
  BattleRecord record = found->second;
  if (home != found->first.first) std::swap(record.wins, record.losses);
  return record;
}

double BattleSharedPayoff::WinRate(const std::string& home, const std::string& away) const {
  const BattleRecord record = Record(home, away);
  if (record.games() < options_.min_win_rate_games) return 0.5;
  return (record.wins + record.draws / 2) / record.games();
}

void BattleSharedPayoff::Update(const std::string& home, const std::string& away,
                                absl::Span<const GameResult> results) {
  const Pair pair = PairOf(home, away);
  BattleRecord& record = records_[pair];
  if (home == away) {
    record.draws += 1;
    return;
  }
  for (const GameResult of_home : results) {
    record.wins *= options_.decay;
    record.draws *= options_.decay;
    record.losses *= options_.decay;
    switch (home == pair.first ? of_home : Reversed(of_home)) {
      case GameResult::kWin:
        record.wins += 1;
        break;
      case GameResult::kDraw:
        record.draws += 1;
        break;
      case GameResult::kLoss:
        record.losses += 1;
        break;
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
