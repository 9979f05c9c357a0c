#include "ding_worker/policy/bc/bc.h"

#include <cmath>
#include <optional>
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
#include "ding_worker/policy/action_mask.h"
#include "ding_worker/policy/actor_critic/actor_critic_options.h"
#include "ding_worker/policy/actor_critic/greedy_eval.h"
#include "ding_worker/policy/actor_critic/sample_collect.h"
#include "ding_worker/policy/column_binding.h"
#include "ding_worker/policy/group_adam.h"
#include "ding_worker/policy/scratch_columns.h"

namespace ding {
namespace {

constexpr char kName[] = "bc";
constexpr char kOptimizerScope[] = "optimizer";

}  // namespace

class BcPolicy::Command : public CommandMode {
 public:
  explicit Command(const BcOptions& options) : schedules_(options.schedules) {}

  NamedValues GetSettingCollect(const NamedValues& /*info*/) override { return {}; }
  NamedValues GetSettingLearn(const NamedValues& info) override {
    NamedValues settings;
    schedules_.AddLearnSettings(info, &settings);
    return settings;
  }

 private:
  const FieldSchedules schedules_;
};

class BcPolicy::Learn : public LearnMode {
 public:
  Learn(const BcOptions& options, ActorCritic* networks, GroupAdam adam)
      : attributes_(options.learn),
        reducer_(options.reducer),
        networks_(*networks),
        adam_(std::move(adam)),
        columns_(MakeColumns(), "", "training batch"),
        best_(networks_.action()) {
    attributes_.supervised = true;
    attributes_.reward_components = true;  // it reads no rewards
    if (networks_.action()->field(0).is_discrete()) {
      category_counts_ = CategoryCounts(networks_.action()->field(0));
    }
  }

  LearnAttributes attributes() const override { return attributes_; }
  std::vector<std::string> monitor_vars() const override {
    std::vector<std::string> names = {"cur_lr", "total_loss", "grad_norm"};
    if (discrete()) names.push_back("accuracy");
    return names;
  }
  // These overrides look like those of impala.cc: each is a line that hands over to parts that the two share.
  std::string info() const override { return absl::StrCat(kName, " on ", networks_.info()); }

  absl::Status Forward(const Batch& data, const NamedValues& settings,
                       std::vector<LearnStep>* steps) override {
    steps->resize(1);
    return Annotate(Update(data, settings, &steps->front()), absl::StrCat(kName, ", learn"));
  }

  absl::Status SaveModel(StateWriter* writer) const override { return networks_.SaveModel(writer); }
  absl::Status LoadModel(StateReader* reader) override { return networks_.LoadModel(reader); }
  absl::Status SaveTrainState(StateWriter* writer) const override {
    ScopedStateWriter scoped(writer, kOptimizerScope);
    return adam_.SaveState(&scoped);
  }
  absl::Status LoadTrainState(StateReader* reader) override {
    ScopedStateReader scoped(reader, kOptimizerScope);
    return adam_.LoadState(&scoped);
  }

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

  absl::Status Update(const Batch& data, const NamedValues& settings, LearnStep* step) {
    step->Clear();
    double loss = 0;
    const absl::StatusOr<ColumnsView> learned = ComputeGradients(data, settings, &loss, step);
    DING_RETURN_IF_ERROR(adam_.Average(reducer_, data.rows(), learned.status()));
    DING_ASSIGN_OR_RETURN(const double grad_norm, adam_.Step());
    networks_.UpdateStatistics(*learned);
    step->scalars.Set("cur_lr", adam_.lr());
    step->scalars.Set("total_loss", loss);
    step->scalars.Set("grad_norm", grad_norm);
    return absl::OkStatus();
  }

  // Computes the loss and its gradients; returns the rows of the batch.
  absl::StatusOr<ColumnsView> ComputeGradients(const Batch& data, const NamedValues& settings,
                                               double* loss, LearnStep* step) {
    DING_RETURN_IF_ERROR(adam_.set_lr(settings.GetOr(kSettingLr, adam_.lr())));
    DING_ASSIGN_OR_RETURN(const ColumnsView rows, columns_.Read(data));
    const absl::Span<const uint8_t> mask = ActionMaskOf(rows, networks_.mask_field());
    DING_ASSIGN_OR_RETURN(const ColumnsView inputs, networks_.Inputs(rows));
    DING_RETURN_IF_ERROR(networks_.Forward(inputs, mask));
    if (discrete()) {
      DING_RETURN_IF_ERROR(
          CheckTaken(mask, category_counts_, rows.column<int64_t>(action_field())));
      DING_ASSIGN_OR_RETURN(const double accuracy, Accuracy(rows));
      step->scalars.Set("accuracy", accuracy);
    }
    *loss = networks_.distribution().ImitationLoss(rows, action_field(), networks_.d_head());
    if (!std::isfinite(*loss)) return absl::InternalError(absl::StrCat("the loss is ", *loss));
    DING_RETURN_IF_ERROR(networks_.Backward());
    return rows;
  }

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

  LearnAttributes attributes_;
  GradientReducer* const reducer_;
  ActorCritic& networks_;
  GroupAdam adam_;
  std::vector<int64_t> category_counts_;  // empty for a box

  ColumnBinding columns_;
  ScratchColumns best_;  // kept between calls
};

BcPolicy::BcPolicy() = default;
BcPolicy::~BcPolicy() = default;

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
  auto policy = absl::WrapUnique(new BcPolicy);
  DING_ASSIGN_OR_RETURN(policy->networks_,
                        ActorCritic::Create(std::move(network), nullptr, std::move(observation),
                                            std::move(action), networks_options));
  ActorCritic* const networks = policy->networks_.get();
  if (networks->state_size() > 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("the network is recurrent (", networks->info(),
                     "), but bc learns from single rows in random order: use one without memory"));
  }
  if (options.modes.learn) {
    // Only the network is trained; the deviation of the collect mode is fixed.
    DING_ASSIGN_OR_RETURN(GroupAdam adam, GroupAdam::Create({networks->Groups().front()},
                                                            options.adam, options.grad_clip_norm));
    policy->learn_ = std::make_unique<Learn>(options, networks, std::move(adam));
  }
  if (options.modes.collect)
    policy->collect_ =
        std::make_unique<SampleCollect>(kName, networks, options.collect, options.seed);
  if (options.modes.eval) policy->eval_ = std::make_unique<GreedyEval>(kName, networks);
  if (options.modes.command) policy->command_ = std::make_unique<Command>(options);
  return policy;
}

CollectMode* BcPolicy::collect_mode() { return collect_.get(); }
LearnMode* BcPolicy::learn_mode() { return learn_.get(); }
EvalMode* BcPolicy::eval_mode() { return eval_.get(); }
CommandMode* BcPolicy::command_mode() { return command_.get(); }

}  // namespace ding
