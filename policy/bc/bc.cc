#include "ding_worker/policy/bc/bc.h"

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/named_values.h"
#include "ding_worker/data/state.h"
#include "ding_worker/policy/action_distribution.h"
#include "ding_worker/policy/action_space.h"
#include "ding_worker/policy/actor_critic/actor_critic_acting.h"
#include "ding_worker/policy/actor_critic/actor_critic_options.h"
#include "ding_worker/policy/batch_columns.h"
#include "ding_worker/policy/gradient_learn_mode.h"
#include "ding_worker/policy/policy_modes.h"

namespace ding {
namespace {

constexpr char kName[] = "bc";

class BcLearn : public GradientLearnMode {
 public:
  BcLearn(const BcOptions& options, ActorCritic* networks, GroupAdam adam)
      : GradientLearnMode({kName,
                           absl::StrCat(kName, " on ", networks->info()),
                           options.learn,
                           options.reducer,
                           {"cur_lr", "total_loss", "grad_norm"}},
                          std::move(adam)),
        networks_(*networks),
        columns_(MakeColumns(), "", "training batch"),
        best_(networks_.action()) {
    description().attributes.supervised = true;
    description().attributes.reward_components = true;  // it reads no rewards
    this->adam().AddTo(state(), "optimizer");
    if (networks_.action()->field(0).is_discrete()) {
      category_counts_ = CategoryCounts(networks_.action()->field(0));
      description().monitor_vars.push_back("accuracy");
    }
  }

  absl::Status SaveModel(StateWriter* writer) const override { return networks_.SaveModel(writer); }
  absl::Status LoadModel(StateReader* reader) override { return networks_.LoadModel(reader); }

 private:
  bool discrete() const { return !category_counts_.empty(); }

  // Returns the columns that are read from a batch: the observation, then the action.
  SpecPtr MakeColumns() const {
    const absl::Span<const FieldSpec> obs = networks_.observation()->fields();
    std::vector<FieldSpec> fields(obs.begin(), obs.end());
    fields.push_back(networks_.action()->field(0));
    return *MakeSpec(std::move(fields));
  }
  int action_field() const { return networks_.observation()->size(); }

  absl::StatusOr<int64_t> ComputeGradients(const Batch& data, const NamedValues& /*settings*/,
                                           LearnStep* step) override {
    DING_ASSIGN_OR_RETURN(learned_, columns_.Read(data));
    const absl::Span<const uint8_t> mask = ActionMaskOf(learned_, networks_.mask_field());
    DING_ASSIGN_OR_RETURN(const ColumnsView inputs, networks_.Inputs(learned_));
    DING_RETURN_IF_ERROR(networks_.Forward(inputs, mask));
    if (discrete()) {
      DING_RETURN_IF_ERROR(
          CheckTaken(mask, category_counts_, learned_.column<int64_t>(action_field())));
      DING_ASSIGN_OR_RETURN(const double accuracy, Accuracy(learned_));
      step->scalars.Set("accuracy", accuracy);
    }
    const double loss =
        networks_.distribution().ImitationLoss(learned_, action_field(), networks_.d_head());
    if (!std::isfinite(loss)) return absl::InternalError(absl::StrCat("the loss is ", loss));
    step->scalars.Set("total_loss", loss);
    DING_RETURN_IF_ERROR(networks_.Backward());
    return data.rows();
  }

  void AfterStep(LearnStep* /*step*/) override { networks_.UpdateStatistics(learned_); }

  // Returns the share of rows whose most probable action equals the action in `rows`.
  absl::StatusOr<double> Accuracy(const ColumnsView& rows) {
    DING_ASSIGN_OR_RETURN(const MutableColumnsView best, best_.Rows(rows.rows()));
    networks_.distribution().Mode(best);
    const absl::Span<const int64_t> chosen = best.column<int64_t>(0);
    const absl::Span<const int64_t> wanted = rows.column<int64_t>(action_field());
    const size_t width = category_counts_.size();
    int64_t right = 0;
    for (size_t at = 0; at < wanted.size(); at += width) {
      if (chosen.subspan(at, width) == wanted.subspan(at, width)) ++right;
    }
    return static_cast<double>(right) / static_cast<double>(rows.rows());
  }

  ActorCritic& networks_;
  std::vector<int64_t> category_counts_;  // empty for a box

  ColumnBinding columns_;
  ColumnsView learned_;  // the rows of the current batch
  ScratchColumns best_;  // kept between calls
};

}  // namespace

absl::StatusOr<std::unique_ptr<BcPolicy>> BcPolicy::Create(std::unique_ptr<Network> network,
                                                           SpecPtr observation, SpecPtr action,
                                                           const BcOptions& options) {
  if (options.reducer != nullptr && options.normalize_obs) {
    return absl::InvalidArgumentError(
        "normalize_obs is set in a group of learners, which would have different statistics; "
        "unset it, or use one learner");
  }
  ActorCriticOptions networks_options;
  networks_options.initial_log_std = options.collect_log_std;
  networks_options.normalize_obs = options.normalize_obs;
  networks_options.obs_clip = options.obs_clip;
  networks_options.has_value = false;
  DING_ASSIGN_OR_RETURN(std::unique_ptr<ActorCritic> model,
                        ActorCritic::Create(std::move(network), nullptr, std::move(observation),
                                            std::move(action), networks_options));
  ActorCritic* const networks = model.get();
  if (networks->state_size() > 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("the network is recurrent (", networks->info(),
                     "), but bc learns from single rows in random order: use one without memory"));
  }
  auto policy = absl::WrapUnique(new BcPolicy(std::move(model)));
  if (options.modes.learn) {
    // Only the network is trained; the deviation of the collect mode is fixed.
    DING_ASSIGN_OR_RETURN(GroupAdam adam, GroupAdam::Create({networks->Groups().front()},
                                                            options.adam, options.grad_clip_norm));
    policy->learn_ = std::make_unique<BcLearn>(options, networks, std::move(adam));
  }
  if (options.modes.collect)
    policy->collect_ =
        std::make_unique<SampleCollect>(kName, networks, options.collect, options.seed);
  if (options.modes.eval) policy->eval_ = std::make_unique<GreedyEval>(kName, networks);
  if (options.modes.command)
    policy->command_ = std::make_unique<ScheduledSettings>(options.schedules);
  return policy;
}

}  // namespace ding
