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

std::vector<std::string> NaiveSpPlayer::Problems(const Options& options) {
  std::vector<std::string> problems;
  if (options.one_phase_step < 1) {
    problems.push_back(absl::StrCat("naive_sp_player.one_phase_step is ", options.one_phase_step,
                                    ", expected at least 1"));
  }
  if (!(options.pfsp >= 0 && options.sp >= 0 &&
        std::abs(options.pfsp + options.sp - 1) <= kTolerance)) {
    problems.push_back(absl::StrCat("naive_sp_player.branch_probs are pfsp ", options.pfsp,
                                    " and sp ", options.sp,
                                    ", expected probabilities that add up to 1"));
  }
  if (!(options.strong_win_rate >= 0 && options.strong_win_rate <= 1)) {
    problems.push_back(absl::StrCat("naive_sp_player.strong_win_rate is ", options.strong_win_rate,
                                    ", expected 0 to 1"));
  }
  return problems;
}

std::optional<size_t> NaiveSpPlayer::ChooseOpponent(absl::Span<const double> win_rates,
                                                    Rng* rng) const {
  if (rng->Uniform() >= options_.pfsp || win_rates.empty()) return std::nullopt;
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
  train_step_ = std::max<int64_t>(0, train_step);
  snapshot_step_ = std::min(snapshot_step_, train_step_);
}

bool NaiveSpPlayer::IsTrainedEnough(absl::Span<const double> win_rates) const {
  const int64_t phases = (train_step_ - snapshot_step_) / options_.one_phase_step;
  if (phases != 1) return phases >= 2;
  return !win_rates.empty() &&
         *std::min_element(win_rates.begin(), win_rates.end()) > options_.strong_win_rate;
}

void NaiveSpPlayer::Restore(int64_t train_step, int64_t snapshot_step) {
  train_step_ = train_step;
  snapshot_step_ = snapshot_step;
}

}  // namespace ding
