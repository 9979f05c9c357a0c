#include "ding_worker/learner/evaluation.h"

#include <cmath>
#include <numeric>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "ding_worker/base/check.h"

namespace ding {
namespace {

// An evaluator may add the returns in another order.
constexpr double kRounding = 1e-6;

}  // namespace

absl::StatusOr<double> ValueOf(const Evaluation& evaluation, absl::string_view name) {
  if (name.empty()) return evaluation.mean_return;
  const auto found = evaluation.info.find(std::string(name));
  if (found != evaluation.info.end()) return found->second.mean;
  const std::string known = absl::StrJoin(
      evaluation.info, ", ", [](std::string* out, const auto& value) { out->append(value.first); });
  return absl::InvalidArgumentError(absl::StrCat(
      "no episode of the evaluation has '", name, "' in its last info; expected ",
      known.empty() ? "an env that gives values at the ends of its episodes" : "one of ", known));
}

ReturnEstimate EstimateReturn(absl::Span<const double> returns, double mean) {
  DING_CHECK(returns.size() >= 2) << "a deviation of " << returns.size() << " returns";
  const double count = static_cast<double>(returns.size());
  const double mean_return = std::accumulate(returns.begin(), returns.end(), 0.0) / count;
  ReturnEstimate estimate;
  estimate.episodes = static_cast<int64_t>(returns.size());
  estimate.mean = mean;
  if (!(std::abs(mean - mean_return) <= kRounding * (1 + std::abs(mean_return)))) return estimate;
  double squares = 0;
  for (const double one : returns) squares += (one - mean_return) * (one - mean_return);
  estimate.standard_error = std::sqrt(squares / (count - 1) / count);
  return estimate;
}

}  // namespace ding
