// DQN (Mnih et al. 2015) with double Q-learning (van Hasselt et al. 2016), n-step targets, hard or
// soft target updates, importance weights and priorities (Schaul et al. 2016). Dueling heads (Wang
// et al. 2016) belong to the network.
//
//   collect, eval, command  as in policy/q_learning/q_policy.h
//   learn                   takes one Adam step on a batch of transitions with the columns of
//                           data/sample_columns.h: obs, action, reward, next_obs, discount and
//                           optionally weight; settings and saved state as in
//                           policy/q_learning/q_policy.h
//
// Another head (policy/q_learning/q_network.h) turns DQN into another algorithm, with other
// targets, losses and td errors. A random network (policy/network.h) draws new numbers in every
// iteration, and so does the target network.
//
// Greedy actions, random actions and the maximum over next_obs take legal actions only
// (policy/action_space.h). A row without a legal action is an error, unless it is the next_obs of a
// terminated episode.
//
// A learning iteration reports the scalars cur_lr, total_loss, q_value (the mean over the batch for
// the actions taken), target_q_value (the mean bootstrap value, before the discount), td_error (the
// mean of |td error|) and, every 10th time, grad_norm (before clipping). It also reports the td
// errors as the histogram td_error, and |td error| as priorities if these are configured.
//
// Saved: model "model/<parameter>"; train state "optimizer/...", "target_model/<parameter>",
// "train_iter", and of a random network "noise_seed"; collect state "rng".
//
// Ownership: the policy owns network, target network and optimizer; its modes share them.
// Threads:   one thread at a time may use the policy, in any mode.
// Errors:    kInvalidArgument for data of another layout or actions that do not exist; kInternal,
//            with the number of the training iteration, for NaN and infinity in data, loss or
//            gradient. A failed call changes no parameters, optimizer, target network and counters.
#ifndef DING_WORKER_POLICY_DQN_DQN_H_
#define DING_WORKER_POLICY_DQN_DQN_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/network.h"
#include "ding_worker/policy/q_learning/q_network.h"
#include "ding_worker/policy/q_learning/q_policy.h"

namespace ding {

// The parts that turn DQN into another algorithm, such as "c51" (policy/distributional).
struct DqnVariant {
  std::string algorithm = "dqn";          // its name in messages
  std::unique_ptr<QHead> head = nullptr;  // null: ValueHead(options.loss)
};

class DqnPolicy : public QPolicy {
 public:
  // `network` has one output field, "q" of head->OutputShape() (without a head: [number of
  // actions]), and reads WithoutActionMask(observation). If `observation` is null, it is the input
  // spec of the network.
  //   kInvalidArgument  a space, the network or an option does not fit; a recurrent network, whose
  //                     memory single rows cannot train
  static absl::StatusOr<std::unique_ptr<DqnPolicy>> Create(std::unique_ptr<Network> network,
                                                           SpecPtr action,
                                                           const DqnOptions& options,
                                                           SpecPtr observation = nullptr,
                                                           DqnVariant variant = {});

 private:
  using QPolicy::QPolicy;
};

}  // namespace ding

#endif  // DING_WORKER_POLICY_DQN_DQN_H_
