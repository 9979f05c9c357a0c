#include "ding_worker/coordinator/league/player.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "absl/strings/str_cat.h"

namespace ding {
namespace {

// How far the sum of probabilities may be from 1.
constexpr double kTolerance = 1e-6;

}  // namespace

std::vector<double> Pfsp(absl::Span<const double> win_rates) {
  std::vector<double> probabilities;
  for (const double rate : win_rates) probabilities.push_back((1 - rate) * (1 - rate));
  const double sum = std::accumulate(probabilities.begin(), probabilities.end(), 0.0);
  for (double& probability : probabilities) {
    probability = sum > 0 ? probability / sum : 1.0 / static_cast<double>(win_rates.size());
  }
  return probabilities;
}

std::vector<std::string> NaiveSpPlayer::Problems(const NaiveSpPlayerConfig& config) {
  std::vector<std::string> problems;
  if (config.one_phase_step() < 1) {
    problems.push_back(absl::StrCat("naive_sp_player.one_phase_step is ", config.one_phase_step(),
                                    ", expected at least 1"));
  }
  const double pfsp = config.branch_probs().pfsp();
  const double sp = config.branch_probs().sp();
  if (!(pfsp >= 0 && sp >= 0 && std::abs(pfsp + sp - 1) <= kTolerance)) {
    problems.push_back(absl::StrCat("naive_sp_player.branch_probs are pfsp ", pfsp, " and sp ", sp,
                                    ", expected probabilities that add up to 1"));
  }
  if (!(config.strong_win_rate() >= 0 && config.strong_win_rate() <= 1)) {
    problems.push_back(absl::StrCat("naive_sp_player.strong_win_rate is ", config.strong_win_rate(),
                                    ", expected 0 to 1"));
  }
  return problems;
}

std::optional<size_t> NaiveSpPlayer::ChooseOpponent(absl::Span<const double> win_rates,
                                                    Rng* rng) const {
  if (rng->Uniform() >= config_.branch_probs().pfsp() || win_rates.empty()) return std::nullopt;
  const std::vector<double> probabilities = Pfsp(win_rates);
  double left = rng->Uniform();
  size_t chosen = 0;
  // If rounding leaves a remainder, the last opponent with a probability above 0 is chosen.
  for (size_t i = 0; i < probabilities.size(); ++i) {
    if (probabilities[i] == 0) continue;
    chosen = i;
    left -= probabilities[i];
    if (left < 0) break;
  }
  return chosen;
}

void NaiveSpPlayer::set_train_step(int64_t train_step) {
  state_.set_train_step(std::max<int64_t>(0, train_step));
  state_.set_snapshot_step(std::min(state_.snapshot_step(), state_.train_step()));
}

bool NaiveSpPlayer::IsTrainedEnough(absl::Span<const double> win_rates) const {
  const int64_t phases = (state_.train_step() - state_.snapshot_step()) / config_.one_phase_step();
  if (phases != 1) return phases >= 2;
  return !win_rates.empty() &&
         *std::min_element(win_rates.begin(), win_rates.end()) > config_.strong_win_rate();
}

}  // namespace ding
