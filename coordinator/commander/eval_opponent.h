// The opponents of a run: those that the policy of a league plays against when it is evaluated, each a level of
// difficulty, and the one that learns beside the policy.
#ifndef DING_WORKER_COORDINATOR_COMMANDER_EVAL_OPPONENT_H_
#define DING_WORKER_COORDINATOR_COMMANDER_EVAL_OPPONENT_H_

#include <optional>
#include <string>

namespace ding {

// The only opponent that DI-engine has.
inline constexpr char kRuleBasedOpponent[] = "RULE_BASED";

// LearnerTask.name of the opponent that learns. The ids of its policies begin with it.
inline constexpr char kOpponentTask[] = "opponent";

struct EvalOpponent {
  std::string name;  // its name in the worker's config, not empty
  // The mean return at which an evaluation counts as won. Not set: it is won if more than 70 % of its games are.
  std::optional<double> win_return;
};

}  // namespace ding

#endif  // DING_WORKER_COORDINATOR_COMMANDER_EVAL_OPPONENT_H_
