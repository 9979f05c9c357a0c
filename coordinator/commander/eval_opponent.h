// Whom the policy of a league plays when it is evaluated: a difficulty.
#ifndef DING_WORKER_COORDINATOR_COMMANDER_EVAL_OPPONENT_H_
#define DING_WORKER_COORDINATOR_COMMANDER_EVAL_OPPONENT_H_

#include <optional>
#include <string>

namespace ding {

// The original's only one.
inline constexpr char kRuleBasedOpponent[] = "RULE_BASED";

struct EvalOpponent {
  std::string name;  // of the worker's config, not empty
  // Mean return at which an evaluation is won. None: more than 70 % of its games are.
  std::optional<double> win_return;
};

}  // namespace ding

#endif  // DING_WORKER_COORDINATOR_COMMANDER_EVAL_OPPONENT_H_
