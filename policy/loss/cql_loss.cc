#include "ding_worker/policy/loss/cql_loss.h"

#include <cmath>

#include "ding_worker/base/check.h"

namespace ding {

double AddCqlPenalty(const CqlPenaltyInput& input, double alpha, absl::Span<float> d_q) {
  const size_t rows = input.action.size();
  DING_CHECK(rows > 0 && !input.q.empty() && input.q.size() % rows == 0 &&
             d_q.size() == input.q.size())
      << input.q.size() << " q values and " << d_q.size() << " gradients for " << rows << " rows";
  DING_CHECK((input.weight.empty() || input.weight.size() == rows) &&
             (input.mask.empty() || input.mask.size() == input.q.size()))
      << input.weight.size() << " weights and " << input.mask.size() << " elements of the mask";
  const size_t num_actions = input.q.size() / rows;
  double penalty = 0;
  for (size_t i = 0; i < rows; ++i) {
    const size_t begin = i * num_actions;
    const auto action = static_cast<size_t>(input.action[i]);
    DING_CHECK(action < num_actions) << "action " << action << " of " << num_actions;
    const auto legal = [&](size_t a) { return input.mask.empty() || input.mask[begin + a] != 0; };
    double max = input.q[begin + action];
    for (size_t a = 0; a < num_actions; ++a) {
      if (legal(a) && input.q[begin + a] > max) max = input.q[begin + a];
    }
    double sum = 0;
    for (size_t a = 0; a < num_actions; ++a) {
      if (legal(a)) sum += std::exp(input.q[begin + a] - max);
    }
    const double scale =
        alpha * (input.weight.empty() ? 1.0 : input.weight[i]) / static_cast<double>(rows);
    penalty += scale * (max + std::log(sum) - input.q[begin + action]);
    for (size_t a = 0; a < num_actions; ++a) {
      if (!legal(a)) continue;
      const double probability = std::exp(input.q[begin + a] - max) / sum;
      d_q[begin + a] += static_cast<float>(scale * (probability - (a == action ? 1 : 0)));
    }
  }
  return penalty;
}

}  // namespace ding
