#include "ding_worker/worker/saved_policy/saved_policy.h"

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/checkpoint.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/named_values.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/state.h"
#include "ding_worker/env/env.h"
#include "ding_worker/learner/checkpoint.h"
#include "ding_worker/policy/policy_registry.h"
#include "ding_worker/worker/saved_policy/policy_description.h"

namespace ding {
namespace {

constexpr char kManifest[] = "manifest.json";
constexpr char kBest[] = "ckpt_best";

// Acts by one mode of a policy: `Mode` is EvalMode or CollectMode.
template <typename Mode>
class Actor : public EvalMode {
 public:
  Actor(std::unique_ptr<Policy> policy, Mode* mode, NamedValues settings)
      : policy_(std::move(policy)), mode_(*mode), settings_(std::move(settings)) {}

  const SpecPtr& output_spec() const override { return mode_.output_spec(); }
  absl::Status Forward(const ColumnsView& obs, absl::Span<const int> env_ids,
                       const NamedValues& /*settings*/, const MutableColumnsView& out) override {
    return mode_.Forward(obs, env_ids, settings_, out);
  }
  absl::Status Reset(absl::Span<const int> env_ids) override { return mode_.Reset(env_ids); }
  absl::Status LoadModel(StateReader* reader) override { return mode_.LoadModel(reader); }

 private:
  const std::unique_ptr<Policy> policy_;
  Mode& mode_;
  const NamedValues settings_;
};

NamedValues CollectSettings(Policy* policy, const CheckpointInfo& info) {
  if (policy->command_mode() == nullptr) return {};
  const auto progress = [&](const char* name) {
    return static_cast<double>(CheckpointProgress(info, name));
  };
  return policy->command_mode()->GetSettingCollect(
      {{"learner_step", progress("train_iter")}, {"envstep", progress("env_step")}});
}

bool IsCheckpoint(const std::string& path) { return PathExists(JoinPath(path, kManifest)); }

// The checkpoints of a folder; not those that are half written or set aside.
absl::StatusOr<std::vector<std::string>> CheckpointsIn(const std::string& folder) {
  std::vector<std::string> found;
  if (!IsDirectory(folder)) return found;
  DING_ASSIGN_OR_RETURN(const std::vector<std::string> names, ListDirectory(folder));
  for (const std::string& name : names) {
    if (absl::StrContains(name, ".tmp.") || absl::StrContains(name, ".old.")) continue;
    if (IsCheckpoint(JoinPath(folder, name))) found.push_back(name);
  }
  return found;
}

absl::StatusOr<FoundCheckpoint> Newest(const std::string& folder,
                                       const std::vector<std::string>& names) {
  FoundCheckpoint newest;
  std::pair<int64_t, int64_t> progress(-1, -1);
  absl::Status damaged;
  for (const std::string& name : names) {
    const std::string path = JoinPath(folder, name);
    const absl::StatusOr<CheckpointInfo> info = CheckpointReader::ReadInfo(path);
    damaged.Update(info.status());
    if (!info.ok()) continue;
    const std::pair<int64_t, int64_t> own(CheckpointProgress(*info, "train_iter"),
                                          CheckpointProgress(*info, "env_step"));
    if (own <= progress) continue;
    progress = own;
    newest.path = path;
  }
  if (newest.path.empty()) return damaged;
  newest.note = absl::StrCat("there is no ", kBest, " in ", folder, ": taking the newest, ",
                             Basename(newest.path), " (train iteration ", progress.first, ")");
  return newest;
}

// The folders of a run with several policies.
absl::StatusOr<std::vector<std::string>> FoldersOfPolicies(const std::string& run) {
  std::vector<std::string> folders;
  DING_ASSIGN_OR_RETURN(const std::vector<std::string> names, ListDirectory(run));
  for (const std::string& name : names) {
    const std::string folder = JoinPath(run, name);
    if (!absl::StartsWith(name, "ckpt_")) continue;
    DING_ASSIGN_OR_RETURN(const std::vector<std::string> found, CheckpointsIn(folder));
    if (!found.empty()) folders.push_back(folder);
  }
  return folders;
}

}  // namespace

absl::StatusOr<std::unique_ptr<SavedPolicy>> SavedPolicy::Load(const std::string& checkpoint,
                                                               const ActorOptions& options) {
  const auto load = [&]() -> absl::StatusOr<std::unique_ptr<SavedPolicy>> {
    DING_ASSIGN_OR_RETURN(const CheckpointReader reader, OpenTrainCheckpoint(checkpoint));
    DING_ASSIGN_OR_RETURN(PolicyDescription description, DescriptionOf(reader.info()));
    EnvSpec& player = description.player;
    if (player.observation == nullptr || player.action == nullptr) {
      return absl::FailedPreconditionError(
          "it does not hold the spaces of its env, whose bounds were too long to save; act with "
          "the "
          "env manager and the evaluator instead (docs/how_to/use_a_policy.md)");
    }
    PolicyContext context;
    context.observation = player.observation;
    context.action = player.action;
    context.env = player.name;
    DING_ASSIGN_OR_RETURN(std::unique_ptr<EvalMode> actor,
                          LoadActor(reader, description.config, std::move(context), options));
    return absl::WrapUnique(
        new SavedPolicy(std::move(player.observation), std::move(player.action), std::move(actor)));
  };
  absl::StatusOr<std::unique_ptr<SavedPolicy>> policy = load();
  if (policy.ok()) return policy;
  return Annotate(policy.status(), absl::StrCat("checkpoint ", checkpoint));
}

absl::Status SavedPolicy::Begin(absl::Span<const int> ids) { return actor_->Reset(ids); }

absl::StatusOr<ColumnsView> SavedPolicy::Act(const ColumnsView& obs, absl::Span<const int> ids) {
  DING_RETURN_IF_ERROR(CheckSameLayout(*observation_, obs.spec(), "observation"));
  if (ids.empty()) {
    for (int64_t i = static_cast<int64_t>(row_numbers_.size()); i < obs.rows(); ++i) {
      row_numbers_.push_back(static_cast<int>(i));
    }
    ids = absl::MakeConstSpan(row_numbers_).first(static_cast<size_t>(obs.rows()));
  }
  if (static_cast<int64_t>(ids.size()) != obs.rows()) {
    return absl::InvalidArgumentError(
        absl::StrCat("Act(): ", ids.size(), " ids for ", obs.rows(), " rows of observations"));
  }
  if (!output_.has_value() || output_->capacity_rows() < obs.rows()) {
    DING_ASSIGN_OR_RETURN(output_, BatchBuilder::Create(actor_->output_spec(), obs.rows()));
  }
  const MutableColumnsView out = output_->view().Slice(0, obs.rows());
  DING_RETURN_IF_ERROR(actor_->Forward(obs, ids, {}, out));
  return out.Fields(action_.get(), 0);
}

absl::StatusOr<std::unique_ptr<EvalMode>> LoadActor(const CheckpointReader& checkpoint,
                                                    const PolicyConfig& config,
                                                    PolicyContext context,
                                                    const ActorOptions& options) {
  context.modes = {/*learn=*/false, /*collect=*/options.sample, /*eval=*/!options.sample,
                   /*command=*/options.sample};
  context.seed = Rng::DeriveSeed(options.seed, "actor");
  context.reward_shape = {};
  DING_ASSIGN_OR_RETURN(std::unique_ptr<Policy> policy, create_policy(config, context));
  DING_ASSIGN_OR_RETURN(const std::unique_ptr<StateReader> model,
                        checkpoint.Component(kModelComponent));
  std::unique_ptr<EvalMode> actor;
  if (options.sample) {
    CollectMode* const collect = policy->collect_mode();
    NamedValues settings = CollectSettings(policy.get(), checkpoint.info());
    actor = std::make_unique<Actor<CollectMode>>(std::move(policy), collect, std::move(settings));
  } else {
    EvalMode* const eval = policy->eval_mode();
    actor = std::make_unique<Actor<EvalMode>>(std::move(policy), eval, NamedValues());
  }
  DING_RETURN_IF_ERROR(actor->LoadModel(model.get()));
  return actor;
}

absl::StatusOr<FoundCheckpoint> FindCheckpoint(const std::string& path) {
  if (!PathExists(path)) {
    return absl::NotFoundError(
        absl::StrCat("there is no '", path, "', expected the folder of a run or of a checkpoint"));
  }
  if (!IsDirectory(path)) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", path, "' is a file, expected the folder of a run or of a checkpoint"));
  }
  if (IsCheckpoint(path)) return FoundCheckpoint{path, ""};
  for (const std::string& folder : {JoinPath(path, "ckpt"), path}) {
    DING_ASSIGN_OR_RETURN(const std::vector<std::string> names, CheckpointsIn(folder));
    const std::string best = JoinPath(folder, kBest);
    if (IsCheckpoint(best)) return FoundCheckpoint{best, ""};
    if (!names.empty()) return Newest(folder, names);
  }
  DING_ASSIGN_OR_RETURN(const std::vector<std::string> folders, FoldersOfPolicies(path));
  if (!folders.empty()) {
    return absl::NotFoundError(absl::StrCat("the run in '", path,
                                            "' has several policies: name one of the folders ",
                                            absl::StrJoin(folders, ", ")));
  }
  return absl::NotFoundError(absl::StrCat(
      "'", path,
      "' has no checkpoints: neither in itself nor in its folder ckpt is one. A run "
      "writes its first after an evaluation, after policy.learn.learner.hook.save_ckpt_after_iter "
      "iterations, or at its end"));
}

}  // namespace ding
