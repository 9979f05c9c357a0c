// An opponent that the policy of a league plays against when it is evaluated: a level of difficulty.
#ifndef DING_WORKER_COORDINATOR_COMMANDER_EVAL_OPPONENT_H_
#define DING_WORKER_COORDINATOR_COMMANDER_EVAL_OPPONENT_H_

#include <optional>
#include <string>

namespace ding {

// The only opponent that DI-engine has.
inline constexpr char kRuleBasedOpponent[] = "RULE_BASED";

struct EvalOpponent {
  std::string name;  // its name in the worker's config, not empty
  // The mean return at which an evaluation counts as won. Not set: it is won if more than 70 % of its games are.
  std::optional<double> win_return;
};

}  // namespace ding

#endif  // DING_WORKER_COORDINATOR_COMMANDER_EVAL_OPPONENT_H_
