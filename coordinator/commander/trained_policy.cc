#include "ding_worker/coordinator/commander/trained_policy.h"

#include <numeric>

namespace ding {

double MeanReturn(absl::Span<const double> returns) {
  return std::accumulate(returns.begin(), returns.end(), 0.0) / static_cast<double>(returns.size());
}

std::optional<double> TrainedPolicy::eval_value() const {
  if (eval_returns.empty()) return std::nullopt;
  return MeanReturn(eval_returns);
}

TrainedPolicyRecord ToRecord(const TrainedPolicy& policy, int64_t now_nanos) {
  TrainedPolicyRecord record;
  *record.mutable_task() = policy.task;
  if (policy.newest.has_value()) *record.mutable_newest() = *policy.newest;
  record.set_learner_step(policy.learner_step);
  record.set_env_steps(policy.env_steps);
  record.set_turn_steps(policy.turn_steps);
  record.set_sample_count(policy.sample_count);
  record.set_episode_count(policy.episode_count);
  record.set_running(policy.running);
  record.set_evaluating(policy.evaluating);
  if (policy.eval_began_nanos.has_value()) {
    record.set_nanos_since_evaluation(now_nanos - *policy.eval_began_nanos);
  }
  record.set_collected_since_evaluation(policy.collected_since_evaluation);
  record.set_evaluations(policy.evaluations);
  record.mutable_eval_return()->Add(policy.eval_returns.begin(), policy.eval_returns.end());
  record.set_converged(policy.converged);
  if (policy.to_confirm.has_value()) *record.mutable_to_confirm() = *policy.to_confirm;
  return record;
}

TrainedPolicy FromRecord(const TrainedPolicyRecord& record, int64_t now_nanos) {
  TrainedPolicy policy;
  policy.task = record.task();
  if (record.has_newest()) policy.newest = record.newest();
  policy.learner_step = record.learner_step();
  policy.env_steps = record.env_steps();
  policy.turn_steps = record.turn_steps();
  policy.sample_count = record.sample_count();
  policy.episode_count = record.episode_count();
  policy.running = record.running();
  policy.evaluating = record.evaluating();
  if (record.has_nanos_since_evaluation()) {
    policy.eval_began_nanos = now_nanos - record.nanos_since_evaluation();
  }
  policy.collected_since_evaluation = record.collected_since_evaluation();
  policy.evaluations = record.evaluations();
  policy.eval_returns.assign(record.eval_return().begin(), record.eval_return().end());
  policy.converged = record.converged();
  if (record.has_to_confirm()) policy.to_confirm = record.to_confirm();
  return policy;
}

}  // namespace ding
