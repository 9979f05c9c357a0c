#include "ding_worker/policy/dqn/dqn.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/policy/dqn/q_learn_mode.h"
#include "ding_worker/policy/loss/td_loss.h"
#include "ding_worker/policy/recurrent_network.h"
#include "ding_worker/policy/sampled_transition_reader.h"
#include "ding_worker/policy/scratch_columns.h"

namespace ding {

class DqnPolicy::Learn : public QLearnMode {
 public:
  Learn(QNetwork* q_network, const DqnOptions& options, Parts parts)
      : QLearnMode(q_network, options, std::move(parts)),
        reader_(q_network->observation(), q_network->action()),
        q_(q_network->network().output_spec()),
        d_q_(q_network->network().output_spec()),
        next_q_(q_network->network().output_spec()),
        next_target_q_(q_network->network().output_spec()) {}

 private:
  absl::StatusOr<QLoss> ComputeGradients(const Batch& data) override {
    DING_ASSIGN_OR_RETURN(const TransitionView batch, reader_.Read(data));
    DING_RETURN_IF_ERROR(ComputeNextValue(batch.next_obs, batch.discount));
    Network& online = network().network();
    DING_ASSIGN_OR_RETURN(const MutableColumnsView q, q_.Rows(data.rows()));
    DING_RETURN_IF_ERROR(online.Forward(network().Inputs(batch.obs), q));
    DING_ASSIGN_OR_RETURN(const MutableColumnsView d_q, d_q_.Rows(data.rows()));
    td_error_.resize(static_cast<size_t>(data.rows()));
    const TdLossResult result =
        ComputeTdLoss({q.column<float>(0), batch.action.column<int64_t>(0), batch.reward,
                       batch.discount, next_value_, batch.weight},
                      options().loss, absl::MakeSpan(td_error_), d_q.column<float>(0));
    if (std::isfinite(result.loss)) DING_RETURN_IF_ERROR(online.Backward(d_q));
    return QLoss{result.loss, result.mean_q, result.mean_next_value, data.rows()};
  }

  // Writes V(next_obs) to next_value_.
  absl::Status ComputeNextValue(const ColumnsView& next_obs, absl::Span<const float> discount) {
    const absl::Span<const uint8_t> mask = network().MaskOf(next_obs);
    DING_RETURN_IF_ERROR(network().CheckCanBootstrap(mask, discount));
    const ColumnsView inputs = network().Inputs(next_obs);
    next_value_.resize(static_cast<size_t>(next_obs.rows()));
    DING_ASSIGN_OR_RETURN(const MutableColumnsView target_q, next_target_q_.Rows(next_obs.rows()));
    DING_RETURN_IF_ERROR(target().Infer(inputs, target_q));
    absl::Span<const float> online_q;
    if (options().double_q) {
      DING_ASSIGN_OR_RETURN(const MutableColumnsView next_q, next_q_.Rows(next_obs.rows()));
      DING_RETURN_IF_ERROR(network().network().Infer(inputs, next_q));
      online_q = next_q.column<float>(0);
    }
    SelectValue(online_q, target_q.column<float>(0), mask, absl::MakeSpan(next_value_));
    return absl::OkStatus();
  }

  absl::Span<const float> td_error() const override { return td_error_; }
  void AppendPriorities(std::vector<float>* priority) const override {
    for (const float td_error : td_error_) priority->push_back(std::abs(td_error));
  }

  // Working space, kept between iterations.
  SampledTransitionReader reader_;
  ScratchColumns q_;
  ScratchColumns d_q_;
  ScratchColumns next_q_;
  ScratchColumns next_target_q_;
  std::vector<float> next_value_;
  std::vector<float> td_error_;
};

DqnPolicy::DqnPolicy(std::unique_ptr<QNetwork> network, const DqnOptions& options)
    : QPolicy(std::move(network), options) {}

absl::StatusOr<std::unique_ptr<DqnPolicy>> DqnPolicy::Create(std::unique_ptr<Network> network,
                                                             SpecPtr action,
                                                             const DqnOptions& options,
                                                             SpecPtr observation) {
  if (AsRecurrent(network.get()) != nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("dqn learns from single rows, which cannot train the memory of ",
                     network->info(), ": policy type 'r2d2' learns from sequences"));
  }
  DING_ASSIGN_OR_RETURN(
      std::unique_ptr<QNetwork> q_network,
      QNetwork::Create("dqn", std::move(network), std::move(action), std::move(observation)));
  auto policy = absl::WrapUnique(new DqnPolicy(std::move(q_network), options));
  if (options.modes.learn) {
    DING_ASSIGN_OR_RETURN(QLearnMode::Parts parts,
                          QLearnMode::MakeParts(*policy->q_network(), options));
    policy->set_learn_mode(std::make_unique<Learn>(policy->q_network(), options, std::move(parts)));
  }
  return policy;
}

}  // namespace ding
