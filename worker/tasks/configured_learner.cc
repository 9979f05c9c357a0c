#include "ding_worker/worker/tasks/configured_learner.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "ding_worker/base/call_user.h"
#include "ding_worker/base/checked_size.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/log.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/collector/comm/collected_items.h"
#include "ding_worker/coordinator/commander/base_commander.h"
#include "ding_worker/data/checkpoint.h"
#include "ding_worker/data/items.h"
#include "ding_worker/data/named_values.h"
#include "ding_worker/interaction/all_reduce/all_reduce.h"
#include "ding_worker/interaction/all_reduce/all_reduce_registry.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/learner/checkpoint.h"
#include "ding_worker/learner/comm/group_member.h"
#include "ding_worker/learner/comm/task_learner.h"
#include "ding_worker/learner/evaluation.h"
#include "ding_worker/learner/hooks.h"
#include "ding_worker/learner/learner.pb.h"
#include "ding_worker/learner/learner_registry.h"
#include "ding_worker/policy/policy.h"
#include "ding_worker/policy/policy_registry.h"
#include "ding_worker/worker/config/experiment_config.h"
#include "ding_worker/worker/program/interrupt.h"
#include "ding_worker/worker/run_folder/run_checkpoints.h"
#include "ding_worker/worker/run_folder/save_outage.h"
#include "ding_worker/worker/setup/data_set.h"
#include "ding_worker/worker/setup/experiment_setup.h"
#include "ding_worker/worker/setup/game_setup.h"
#include "ding_worker/worker/setup/supervised_setup.h"
#include "ding_worker/worker/tasks/data_set_learning.h"
#include "ding_worker/worker/tasks/on_policy_rounds.h"
#include "ding_worker/worker/tasks/parallel_collect.h"
#include "ding_worker/worker/tasks/parallel_envs.h"
#include "ding_worker/worker/tasks/recording.h"
#include "ding_worker/worker/tasks/run_history.h"
#include "ding_worker/worker/tasks/task_config.h"

namespace ding {
namespace {

// Train iterations between two reports of a learner whose buffer needs no priorities.
constexpr int64_t kSendInfoFreq = 20;
// Seconds of training that the death of a learner may lose, if the config does not say otherwise.
constexpr double kMaxResumeSeconds = 10;
// How long a learner that ends tries to save, unless it is interrupted. The coordinator waits twice
// as long for it.
constexpr absl::Duration kEndPatience = absl::Seconds(10);
// The most checkpoints that are kept because they could not be written.
constexpr size_t kMaxUnsaved = 4;

class ConfiguredLearner : public TaskLearner {
 public:
  static absl::StatusOr<std::unique_ptr<TaskLearner>> Create(const ExperimentConfig& of_run,
                                                             const LearnerTask& task,
                                                             const std::string& run,
                                                             GroupMember* group, ComponentDeps deps,
                                                             int place) {
    auto made = std::make_unique<ConfiguredLearner>();
    made->run_ = run;
    made->policy_id_ = task.policy_id();
    DING_RETURN_IF_ERROR(CheckName(task));
    const bool is_opponent = OpponentLearns(of_run) && task.name() == kOpponentTask;
    ExperimentConfig config = of_run;
    if (is_opponent) {
      DING_ASSIGN_OR_RETURN(config, OpponentConfig(of_run));
      // These hooks are the policy's.
      LearnerHooksConfig& hooks =
          *config.mutable_policy()->mutable_learn()->mutable_learner()->mutable_hook();
      hooks.clear_load_ckpt_before_run();
      hooks.clear_hook();
    }
    if (task.setting_size() > 0) made->own_options_ = MakeCommLearnerOptions(config);
    const bool supervised = IsSupervised(config);
    EnvSpec env;
    DataSet data;
    if (supervised) {
      absl::StatusOr<EnvSpec> spec =
          SpecOfDataSetRun(config, deps.clock, {EnvPlace::kLearner, place}, &data);
      // The coordinator has read it.
      DING_RETURN_IF_ERROR(
          Annotate(spec.status(), "all machines with learners must see the data set"));
      env = *std::move(spec);
    } else {
      DING_ASSIGN_OR_RETURN(env, SpecOfEnv(of_run, deps.clock, {EnvPlace::kLearner, place},
                                           /*player=*/is_opponent ? 1 : 0));
    }
    PolicyModes modes;
    modes.collect = false;
    modes.eval = supervised;
    PolicyContext context = MakePolicyContext(config, env, modes);
    context.reducer = group;
    // Several tasks are to learn different things from the same config.
    if (!task.name().empty()) context.seed = Rng::DeriveSeed(context.seed, task.name());
    if (is_opponent) {
      DING_ASSIGN_OR_RETURN(made->policy_, MakeOpponentPolicy(of_run, env, modes));
    } else {
      DING_ASSIGN_OR_RETURN(made->policy_, create_policy(MakePolicyConfig(config), context));
    }
    if (supervised) {
      LearnMode* const learn = made->policy_->learn_mode();
      DING_RETURN_IF_ERROR(UseTransitions(config, *learn, &data));
      DING_RETURN_IF_ERROR(learn->SetData(data.training));
      DING_ASSIGN_OR_RETURN(made->data_set_, DataSetLearning::Create(config, std::move(data)));
    } else {
      DING_RETURN_IF_ERROR(made->FindLayout(config, env));
    }
    const std::string folder = task.name().empty() ? "ckpt" : absl::StrCat("ckpt_", task.name());
    deps.name = task.name().empty() ? "learner" : task.name();
    deps.seed = config.seed();
    LearnerConfig learner_config = config.policy().learn().learner();
    const std::string resume = JoinPath(JoinPath(deps.exp_dir, folder), kResumeCheckpoint);
    LearnerHooksConfig& hooks = *learner_config.mutable_hook();
    if (hooks.save_ckpt_seconds() == 0 && config.resume().period_seconds() > 0) {
      hooks.set_save_ckpt_seconds(std::min(kMaxResumeSeconds, config.resume().period_seconds()));
    }
    made->resumable_ = hooks.save_ckpt_seconds() > 0;
    if (task.has_init_policy()) hooks.clear_load_ckpt_before_run();
    if (task.resume()) {
      // Removes what an earlier learner has left half written.
      DING_RETURN_IF_ERROR(
          CleanUpCheckpoints(deps.exp_dir, std::numeric_limits<int64_t>::max(), folder));
      DING_ASSIGN_OR_RETURN(made->resumes_, made->IsOwn(resume));
      if (made->resumes_) hooks.set_load_ckpt_before_run(resume);
    }
    DING_ASSIGN_OR_RETURN(made->learner_,
                          create_learner(learner_config, made->policy_->learn_mode(), deps, group));
    made->learner_->set_checkpoint_fn(
        [learner = made.get(), config, env,
         folder = JoinPath(deps.exp_dir, folder)](absl::string_view checkpoint) {
          return learner->Save(config, env, folder, checkpoint);
        });
    if (config.system().record_bytes() > 0) {
      DING_ASSIGN_OR_RETURN(made->recorder_,
                            RecordingWriter::Create(deps.exp_dir, config, task, place));
    }
    if (supervised) {
      DING_RETURN_IF_ERROR(made->data_set_->Judge(made->policy_->eval_mode(), made->learner_.get(),
                                                  deps,
                                                  task.resume() || group != nullptr ? resume : ""));
    }
    return made;
  }

  ILearner* learner() override { return learner_.get(); }
  CollectedLayout collected() const override { return collected_; }
  OwnData* own_data() override { return data_set_.get(); }
  LearnRecorder* recorder() override { return recorder_.get(); }
  bool resumes() const override { return resumes_; }
  void ReadOptions(CommLearnerOptions* options) const override {
    if (!own_options_.has_value()) return;
    const std::string host = options->group_host;
    *options = *own_options_;
    options->group_host = host;
  }
  absl::Status SaveProgress() override {
    const ScopedSave saving;
    const Timer waited(Clock::Real());
    const auto save = [this]() -> absl::Status {
      if (resumable_ && learner_->train_iter() > 0) {
        DING_RETURN_IF_ERROR(CallUser(
            "the learner", [this] { return learner_->SaveCheckpoint(kResumeCheckpoint); }));
      }
      return WriteUnsaved();
    };
    return outage_.Wait("the last checkpoint", save,
                        [&waited] { return IsInterrupted() || waited.Elapsed() >= kEndPatience; });
  }
  NamedValues LearnSettings(int64_t train_iter, int64_t envstep) override {
    if (policy_->command_mode() == nullptr) return {};
    return policy_->command_mode()->GetSettingLearn(
        {{"learner_step", static_cast<double>(train_iter)},
         {"envstep", static_cast<double>(std::max<int64_t>(0, envstep))}});
  }

 private:
  // It becomes a part of a path.
  static absl::Status CheckName(const LearnerTask& task) {
    const bool valid = absl::c_all_of(task.name(), [](char c) {
      return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '-';
    });
    if (valid) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("the name of ", task.task_id(), " is '",
                                                   task.name(),
                                                   "', expected letters, digits, '_' and '-'"));
  }

  absl::Status FindLayout(const ExperimentConfig& config, const EnvSpec& env) {
    DING_ASSIGN_OR_RETURN(const std::unique_ptr<Policy> collector,
                          MakePolicy(config, env, CollectModeOnly()));
    DING_ASSIGN_OR_RETURN(collected_, LayoutOfCollected(env, collector->collect_mode()));
    return absl::OkStatus();
  }

  // Saves a checkpoint. One that cannot be written does not end the run, see save_outage.h: it is
  // kept, and written with a later one.
  absl::Status Save(const ExperimentConfig& config, const EnvSpec& env, const std::string& folder,
                    absl::string_view name) {
    const ScopedSave saving;
    const ILearner& learner = *learner_;
    const std::string path = learner.CheckpointPath(name);
    // A learner that was stopped, and then replaced, must not undo what its successor has learned.
    if (name == kResumeCheckpoint && SavedIteration(path) > learner.train_iter()) {
      return absl::OkStatus();
    }
    CheckpointInfo info = LearnerCheckpointInfo(learner);
    if (!run_.empty()) info.fields[kRunField] = run_;
    info.fields[kPolicyField] = policy_id_;
    DescribeRun(config, env, &info);
    std::vector<CheckpointComponent> components = LearnerComponents(learner);
    if (data_set_ != nullptr) absl::c_move(data_set_->Components(), std::back_inserter(components));
    const Unsaved job{path, folder, std::move(info), std::move(components)};
    const absl::Status saved = Write(job);
    if (!saved.ok()) return Keep(job, saved);
    if (name != kResumeCheckpoint) LogSavedCheckpoint(path, job.info);
    Forget(path);
    WriteUnsaved().IgnoreError();  // The next call tries again.
    return outage_.Note(path, saved);
  }

  // A checkpoint that could not be written.
  struct Unsaved {
    std::string path;
    std::string folder;
    CheckpointInfo info;
    std::vector<CheckpointComponent> components;
  };

  static absl::Status Write(const Unsaved& job) {
    DING_RETURN_IF_ERROR(CreateDirectories(job.folder));
    return WriteCheckpoint(job.path, job.info, job.components);
  }

  void Forget(const std::string& path) {
    unsaved_.remove_if([&path](const Unsaved& job) { return job.path == path; });
  }

  // Keeps a copy of the checkpoint, which failed with `why`. A newer one of its name takes its
  // place.
  absl::Status Keep(Unsaved job, const absl::Status& why) {
    DING_ASSIGN_OR_RETURN(job.components, CopyComponents(std::move(job.components)));
    NoteFailure(job.path, why);
    Forget(job.path);
    unsaved_.push_back(std::move(job));
    if (unsaved_.size() <= kMaxUnsaved) return absl::OkStatus();
    DING_LOG(WARNING) << "checkpoint " << unsaved_.front().path
                      << " is given up: there are newer ones that could not be written";
    outage_.Forget(unsaved_.front().path);
    unsaved_.pop_front();
    return absl::OkStatus();
  }

  // Returns the first error.
  absl::Status WriteUnsaved() {
    absl::Status status;
    for (auto job = unsaved_.begin(); job != unsaved_.end();) {
      const absl::Status saved = Write(*job);
      status.Update(saved);
      if (!saved.ok()) {
        NoteFailure(job->path, saved);
        ++job;
        continue;
      }
      LogSavedCheckpoint(job->path, job->info);
      outage_.Note(job->path, saved).IgnoreError();
      job = unsaved_.erase(job);
    }
    return status;
  }

  // If the run has gone on for too long, it ends in order, so that it can be resumed.
  void NoteFailure(const std::string& path, const absl::Status& why) {
    const absl::Status noted = outage_.Note(path, why);
    if (!noted.ok()) learner_->run_signals()->RequestStop(noted.message());
  }

  // Whether there is a checkpoint at `path` of which the learner's policy goes on.
  absl::StatusOr<bool> IsOwn(const std::string& path) const {
    if (!PathExists(path)) return false;
    DING_ASSIGN_OR_RETURN(const CheckpointInfo info, CheckpointReader::ReadInfo(path));
    const auto run = info.fields.find(kRunField);
    if (!run_.empty() && run != info.fields.end() && run->second != run_) {
      return absl::FailedPreconditionError(
          absl::StrCat("checkpoint '", path, "' is of run '", run->second, "', expected '", run_,
                       "': do the machines of this run see the same folder?"));
    }
    return MayBeOf(info, policy_id_);
  }

  // The iteration of the policy's checkpoint at `path`; -1 if there is none that can be read.
  int64_t SavedIteration(const std::string& path) const {
    if (!PathExists(path)) return -1;
    const absl::StatusOr<CheckpointReader> checkpoint = OpenTrainCheckpoint(path);
    int64_t iteration = -1;
    if (!checkpoint.ok() || !MayBeOf(checkpoint->info(), policy_id_)) return iteration;
    const auto field = checkpoint->info().fields.find("train_iter");
    const bool found =
        field != checkpoint->info().fields.end() && absl::SimpleAtoi(field->second, &iteration);
    return found ? iteration : -1;
  }

  std::string run_;
  std::string policy_id_;
  // Members depend on earlier ones.
  std::shared_ptr<Policy> policy_;
  std::unique_ptr<DataSetLearning> data_set_;  // null: it learns from what is collected
  std::unique_ptr<ILearner> learner_;
  std::unique_ptr<RecordingWriter> recorder_;  // null: nothing is recorded
  CollectedLayout collected_;
  SaveOutage outage_{Clock::Real()};
  std::list<Unsaved> unsaved_;  // in the order in which they failed
  bool resumable_ = false;
  bool resumes_ = false;
  std::optional<CommLearnerOptions> own_options_;  // of a task with settings
};

}  // namespace

absl::Status CheckCanGroupLearners(const ExperimentConfig& config) {
  const LearnSection& learn = config.policy().learn();
  if (learn.learner_num() == 1) return absl::OkStatus();
  const absl::Status found = AllReduceRegistry().Find(learn.all_reduce()).status();
  if (found.ok()) return found;
  return absl::FailedPreconditionError(absl::StrCat(
      "policy.learn.learner_num is ", learn.learner_num(), " and policy.learn.all_reduce '",
      learn.all_reduce(), "', but ", found.message(),
      "; expected one of these, or a program with that type: //worker:parallel_torch has 'gloo'"));
}

TaskLearnerFactory MakeTaskLearnerFactory(const ExperimentConfig& config, const ComponentDeps& deps,
                                          int place, const std::string& run) {
  return [config, deps, place, run](
             const LearnerTask& task,
             GroupMember* group) -> absl::StatusOr<std::unique_ptr<TaskLearner>> {
    DING_ASSIGN_OR_RETURN(const ExperimentConfig own, ConfigOfTask(config, task));
    return ConfiguredLearner::Create(own, task, run, group, deps, place);
  };
}

CommLearnerOptions MakeCommLearnerOptions(const ExperimentConfig& config) {
  const PolicySection& policy = config.policy();
  CommLearnerOptions options;
  options.batch_size = policy.learn().batch_size();
  options.nstep = policy.nstep();
  options.gamma = policy.discount_factor();
  options.sequences = ItemSequencesOf(policy.other().replay_buffer());
  options.rounds.rows = RoundsOf(config).rows;
  options.rounds.max_data_age = policy.learn().max_data_age();
  options.rounds.sequences = ItemSequencesOfRounds(config);
  // The rows of the buffer, those of its chunks that are no items of it, and some that have left
  // it.
  constexpr int64_t kRowsPerRowOfBuffer = 4;
  options.cache_rows = std::max<int64_t>(
      1, CheckedProduct(kRowsPerRowOfBuffer, policy.other().replay_buffer().replay_buffer_size())
             .value_or(options.cache_rows));
  options.prefetch_batches = policy.learn().prefetch_batches();
  options.loader_threads = policy.learn().loader_threads();
  options.send_policy_freq = policy.learn().send_policy_freq();
  options.lockstep = config.system().lockstep();
  options.send_info_freq = policy.priority() ? 1 : kSendInfoFreq;
  options.data_timeout = absl::Seconds(policy.learn().data_timeout());
  options.connect_group = [type = policy.learn().all_reduce()](const AllReduceOptions& of_group,
                                                               Rendezvous* rendezvous) {
    return create_all_reduce(type, of_group, rendezvous);
  };
  options.group_timeout = absl::Seconds(policy.learn().all_reduce_timeout());
  return options;
}

}  // namespace ding
