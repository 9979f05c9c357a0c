#include "ding_worker/worker/config/experiment_config.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/log.h"
#include "ding_worker/base/params.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/base/utf8.h"
#include "ding_worker/policy/policy.pb.h"
#include "ding_worker/worker/config/policy_defaults.h"
#include "ding_worker/worker/config/text_config.h"
#include "ding_worker/worker/config/text_parser.h"
#include "ding_worker/worker/config/type_choices.h"
#include "ding_worker/worker/serial_registry.h"
#include "google/protobuf/any.pb.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"

namespace ding {
namespace {

constexpr int kQuietWaitMillis = 1000;

absl::StatusOr<std::string> ReadStream(const std::string& path) {
  const auto failed = [&path] {
    return ErrnoStatus(errno, absl::StrCat("cannot read '", path, "'"));
  };
  // O_NONBLOCK: a FIFO without a writer opens at once.
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
  if (fd < 0) return failed();
  const absl::Cleanup closes = [fd] { close(fd); };
  std::string text;
  char buffer[1 << 16];
  bool waited = false;
  while (true) {
    // A FIFO has an end only when a writer has come and gone.
    pollfd ready = {fd, POLLIN, 0};
    const int found = poll(&ready, 1, waited ? -1 : kQuietWaitMillis);
    if (found == 0) {
      waited = true;
      DING_LOG(WARNING) << "waiting for the config: '" << path << "' has given " << text.size()
                        << " bytes, and its writer has not closed it. Ctrl-C ends the wait";
    }
    if (found <= 0 && (found == 0 || errno == EINTR)) continue;
    const ssize_t count = found < 0 ? -1 : read(fd, buffer, sizeof(buffer));
    if (count < 0 && errno == EAGAIN) continue;
    if (count < 0) return failed();
    if (count == 0) return text;
    text.append(buffer, static_cast<size_t>(count));
    if (static_cast<int64_t>(text.size()) <= kMaxReadBytes) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("'", path, "' has more than ", kMaxReadBytes, " bytes"));
  }
}

// Returns the type that a person may have meant; empty: none. Names of envs end with a version,
// which people leave out: then it is the last one of the shortest names that go on like `name`.
std::string NearestType(const std::vector<std::string>& names, const std::string& name) {
  std::string nearest = NearestName(names, name);
  if (!nearest.empty()) return nearest;
  for (const std::string& known : names) {
    if (!absl::StartsWithIgnoreCase(known, name)) continue;
    if (nearest.empty() || known.size() <= nearest.size()) nearest = known;
  }
  return nearest;
}

// Collects the problems of one config.
class Checker {
 public:
  void AtLeast(absl::string_view path, int64_t found, int64_t least, absl::string_view why = "") {
    if (found < least) Report(path, absl::StrCat(found), absl::StrCat("at least ", least, why));
  }
  template <typename Factory>
  void Known(absl::string_view path, const std::string& name, const Registry<Factory>& registry) {
    if (name.empty()) {
      problems_.push_back(absl::StrCat(
          path, " is missing; this program has: ", absl::StrJoin(registry.Names(), ", ")));
    } else if (const absl::Status status = registry.Find(name).status(); !status.ok()) {
      const std::string near = NearestType(registry.Names(), name);
      problems_.push_back(absl::StrCat(
          path, ": ", status.message(),
          near.empty()
              ? "; if it is your own, run a program that links it: docs/how_to/own_modules.md"
              : absl::StrCat("; did you mean '", near, "'?")));
    }
  }
  // `name` must be in one of two registries, which are for envs with one player and for games; the
  // env decides later which of them applies.
  template <typename ForOne, typename ForGames>
  void KnownToEither(absl::string_view path, const std::string& name,
                     const Registry<ForOne>& for_one, const Registry<ForGames>& for_games) {
    if (for_one.Find(name).ok() || for_games.Find(name).ok()) return;
    problems_.push_back(absl::StrCat(path, ": ", for_one.Find(name).status().message(), "; ",
                                     for_games.kind(), ": ",
                                     absl::StrJoin(for_games.Names(), ", ")));
  }
  void Report(absl::string_view path, absl::string_view found, absl::string_view expected) {
    problems_.push_back(absl::StrCat(path, " is ", found, ", expected ", expected));
  }
  std::vector<std::string>* problems() { return &problems_; }

 private:
  std::vector<std::string> problems_;
};

void CheckEnv(const EnvSection& env, bool required, Checker* check) {
  if (required || !env.type().empty()) check->Known("env.type", env.type(), EnvRegistry());
  check->AtLeast("env.n_evaluator_episode", env.n_evaluator_episode(), env.evaluator_env_num());
  if (env.has_evaluator_type()) {
    check->Known("env.evaluator_type", env.evaluator_type(), EnvRegistry());
  } else if (env.has_evaluator_params()) {
    check->Report("env.evaluator_params", "set", "env.evaluator_type beside it");
  }
  for (int i = 0; i < env.wrapper_size(); ++i) {
    check->Known(absl::StrCat("env.wrapper[", i, "].type"), env.wrapper(i).type(),
                 EnvWrapperRegistry());
  }
  for (int i = 0; i < env.eval_opponent_size(); ++i) {
    const std::string path = absl::StrCat("env.eval_opponent[", i, "]");
    const EvalOpponentConfig& opponent = env.eval_opponent(i);
    if (opponent.name().empty()) check->Report(absl::StrCat(path, ".name"), "empty", "a name");
    check->Known(absl::StrCat(path, ".evaluator_type"), opponent.evaluator_type(), EnvRegistry());
  }
  if (env.n_confirm_episode() < 0 || env.n_confirm_episode() == 1) {
    check->Report("env.n_confirm_episode", absl::StrCat(env.n_confirm_episode()),
                  "at least 2, or 0 for no confirmation");
  }
  if (std::isnan(env.stop_value())) check->Report("env.stop_value", "nan", "a number");
  check->Known("env.manager.type", env.manager().type(), EnvManagerRegistry());
}

// Whether the target of this type of collector is a number of episodes; none if the type does not
// exist.
std::optional<bool> CollectsByEpisode(const std::string& type) {
  const absl::StatusOr<SerialCollectorDescriptor> for_one = SerialCollectorRegistry().Find(type);
  if (for_one.ok()) return for_one->by_episode;
  const absl::StatusOr<BattleCollectorDescriptor> for_games = BattleCollectorRegistry().Find(type);
  if (for_games.ok()) return for_games->by_episode;
  return std::nullopt;
}

// Checks how much one collect gathers.
void CheckAmount(const ExperimentConfig& config, bool parallel, Checker* check) {
  const CollectSection& collect = config.policy().collect();
  const std::string& type = collect.collector().type();
  const int env_num = config.env().collector_env_num();
  const std::optional<bool> by_episode = CollectsByEpisode(type);
  if (by_episode.has_value() && *by_episode != collect.has_n_episode()) {
    check->Report(
        *by_episode ? "policy.collect.n_episode" : "policy.collect.n_sample", "not set",
        absl::StrCat("it in the place of ", *by_episode ? "n_sample" : "n_episode", ": collector '",
                     type, "' collects ", *by_episode ? "episodes" : "rows"));
  } else if (parallel && collect.has_n_episode()) {
    check->AtLeast("policy.collect.n_episode", collect.n_episode(),
                   collect.collector().collector_num(),
                   ", one for each of policy.collect.collector.collector_num");
  } else if (collect.has_n_episode()) {
    check->AtLeast("policy.collect.n_episode", collect.n_episode(), env_num,
                   ", one for each of env.collector_env_num");
    if (config.policy().random_collect_size() > 0) {
      check->AtLeast("policy.random_collect_size", config.policy().random_collect_size(), env_num,
                     " episodes, one for each of env.collector_env_num");
    }
  }
}

void CheckPolicy(const PolicySection& policy, Checker* check) {
  check->Known("policy.type", policy.type(), PolicyRegistry());
  const LearnerConfig& learner = policy.learn().learner();
  check->Known("policy.learn.learner.type", learner.type(), LearnerRegistry());
  for (int i = 0; i < learner.hook().hook_size(); ++i) {
    check->Known(absl::StrCat("policy.learn.learner.hook.hook[", i, "].type"),
                 learner.hook().hook(i).type(), LearnerHookRegistry());
  }
  const CollectSection& collect = policy.collect();
  if (collect.unroll_len() == 1 && collect.last_sample() != PolicyConfig::NULL_PADDING) {
    check->Report("policy.collect.last_sample",
                  PolicyConfig::LastSample_Name(collect.last_sample()),
                  "NULL_PADDING: policy.collect.unroll_len is 1, so each row is a whole sample");
  }
  check->KnownToEither("policy.collect.collector.type", collect.collector().type(),
                       SerialCollectorRegistry(), BattleCollectorRegistry());
  check->KnownToEither("policy.eval.evaluator.type", policy.eval().evaluator().type(),
                       SerialEvaluatorRegistry(), BattleEvaluatorRegistry());
  const BufferConfig& buffer = policy.other().replay_buffer();
  check->Known("policy.other.replay_buffer.type", buffer.type(), BufferRegistry());
  if (buffer.selector().has_type()) {
    check->Known("policy.other.replay_buffer.selector.type", buffer.selector().type(),
                 SelectorRegistry());
  }
}

void CheckOpponent(const OpponentSection& opponent, Checker* check) {
  if (opponent.has_type()) check->Known("opponent.type", opponent.type(), PolicyRegistry());
  if (opponent.has_params() && !opponent.has_type()) {
    check->Report("opponent.params", "set", "opponent.type beside it");
  }
  if (opponent.learns() && !opponent.has_type() && !opponent.has_checkpoint()) {
    check->Report("opponent.learns", "true", "opponent.type or opponent.checkpoint beside it");
  }
}

void CheckSupervised(const ExperimentConfig& config, Checker* check) {
  const MetricEvaluatorConfig& evaluator = config.policy().eval().metric_evaluator();
  check->Known("policy.eval.metric_evaluator.type", evaluator.type(), MetricEvaluatorRegistry());
  if (!evaluator.metric().empty()) {
    check->Known("policy.eval.metric_evaluator.metric", evaluator.metric(), MetricRegistry());
  }
  const auto refuse = [check](absl::string_view path, int64_t found, int64_t expected) {
    if (found == expected) return;
    check->Report(path, absl::StrCat(found),
                  absl::StrCat(expected, ", since a run with a data_set does not collect"));
  };
  refuse("max_env_step", config.max_env_step(), 0);
  refuse("policy.random_collect_size", config.policy().random_collect_size(), 0);
  refuse("policy.learn.update_per_collect", config.policy().learn().update_per_collect(), 1);
}

// Shares a value of one section with another module that needs it: copies it to `path` if nothing
// is set there, and reports a problem if another value is set there.
template <typename T>
void Share(absl::string_view source_path, T source, absl::string_view path, bool is_set, T found,
           const std::function<void(T)>& set, std::vector<std::string>* problems) {
  if (is_set && found != source) {
    problems->push_back(absl::StrCat(path, " is ", found, ", but ", source_path, " is ", source,
                                     ": set only the latter"));
  }
  set(source);
}

void ShareAmongSections(ExperimentConfig* config, std::vector<std::string>* problems) {
  PolicySection& policy = *config->mutable_policy();
  BufferConfig& buffer = *policy.mutable_other()->mutable_replay_buffer();
  SerialEvaluatorConfig& evaluator = *policy.mutable_eval()->mutable_evaluator();
  Share<int64_t>(
      "policy.nstep", policy.nstep(), "policy.other.replay_buffer.nstep", buffer.has_nstep(),
      buffer.nstep(), [&](int64_t n) { buffer.set_nstep(n); }, problems);
  Share<double>(
      "policy.discount_factor", policy.discount_factor(),
      "policy.other.replay_buffer.discount_factor", buffer.has_discount_factor(),
      buffer.discount_factor(), [&](double gamma) { buffer.set_discount_factor(gamma); }, problems);
  Share<int64_t>(
      "env.n_evaluator_episode", config->env().n_evaluator_episode(),
      "policy.eval.evaluator.n_episode", evaluator.has_n_episode(), evaluator.n_episode(),
      [&](int64_t n) { evaluator.set_n_episode(n); }, problems);
  Share<double>(
      "env.stop_value", config->env().stop_value(), "policy.eval.evaluator.stop_value",
      evaluator.has_stop_value(), evaluator.stop_value(),
      [&](double value) { evaluator.set_stop_value(value); }, problems);
  // Several learners log the mean of their values unless the config says otherwise.
  LearnSection& learn = *policy.mutable_learn();
  LearnerHooksConfig& hook = *learn.mutable_learner()->mutable_hook();
  if (!hook.has_log_reduce_after_iter()) hook.set_log_reduce_after_iter(learn.learner_num() > 1);
}

// A resolved config has the shared values in both places. They are cleared in one, so that a
// setting needs to change only the other.
void ClearSharedValues(ExperimentConfig* config) {
  if (!config->has_policy()) return;
  PolicySection& policy = *config->mutable_policy();
  LearnSection& learn = *policy.mutable_learn();
  LearnerHooksConfig& hook = *learn.mutable_learner()->mutable_hook();
  if (hook.log_reduce_after_iter() == (learn.learner_num() > 1)) hook.clear_log_reduce_after_iter();
  policy.mutable_other()->mutable_replay_buffer()->clear_nstep();
  policy.mutable_other()->mutable_replay_buffer()->clear_discount_factor();
  policy.mutable_eval()->mutable_evaluator()->clear_n_episode();
  policy.mutable_eval()->mutable_evaluator()->clear_stop_value();
}

// Gives the policy its params if it has none, so that their defaults are in the config, too.
void AddPolicyParams(ExperimentConfig* config) {
  PolicySection& policy = *config->mutable_policy();
  if (policy.has_params()) return;
  const auto taken = FindParamsMessage(
      policy, *PolicySection::descriptor()->FindFieldByNumber(PolicySection::kParamsFieldNumber));
  if (!taken.ok() || *taken == nullptr) return;  // It is unknown, or takes none.
  policy.mutable_params()->PackFrom(*NewMessage(**taken));
}

// Adds the fields of params that are out of their ranges, so that they are reported with all other
// problems. `path` says where `message` is in the config; it is empty or ends with a dot.
void CheckRangesOfParams(const google::protobuf::Message& message, const std::string& path,
                         std::vector<std::string>* problems) {
  if (const auto* const any = dynamic_cast<const google::protobuf::Any*>(&message)) {
    const absl::StatusOr<std::unique_ptr<google::protobuf::Message>> params = UnpackAny(*any);
    if (!params.ok()) return;  // The factory refuses it.
    CheckRanges(**params, path, problems);
    return CheckRangesOfParams(**params, path, problems);
  }
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  std::vector<const google::protobuf::FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  for (const auto* const field : fields) {
    if (field->message_type() == nullptr || field->is_map()) continue;
    const bool is_list = field->is_repeated();
    const int count = is_list ? reflection.FieldSize(message, field) : 1;
    for (int i = 0; i < count; ++i) {
      CheckRangesOfParams(
          is_list ? reflection.GetRepeatedMessage(message, field, i)
                  : reflection.GetMessage(message, field),
          absl::StrCat(path, field->name(), is_list ? absl::StrCat("[", i, "].") : "."), problems);
    }
  }
}

absl::Status ConfigError(absl::string_view source, const std::vector<std::string>& problems) {
  return absl::InvalidArgumentError(absl::StrCat(source, " has ", problems.size(), " problem",
                                                 problems.size() == 1 ? "" : "s", ":\n  ",
                                                 absl::StrJoin(problems, "\n  ")));
}

}  // namespace

std::vector<std::string> FindProblems(const ExperimentConfig& config) {
  Checker check;
  CheckRanges(config, "", check.problems());
  CheckRangesOfParams(config, "", check.problems());
  // It is the name of a folder, and stands in logs and metrics.
  if (const std::string shown = PrintableUtf8(config.exp_name()); shown != config.exp_name()) {
    check.Report("exp_name", absl::StrCat("'", shown, "'"),
                 "text in UTF-8 without control characters");
  }
  if (config.exp_name().empty() || config.exp_name().find('/') != std::string::npos) {
    check.Report("exp_name", absl::StrCat("'", config.exp_name(), "'"),
                 "a name without slashes (--exp_dir says where the run is written)");
  }
  CheckEnv(config.env(), /*required=*/!IsSupervised(config), &check);
  CheckPolicy(config.policy(), &check);
  CheckOpponent(config.opponent(), &check);
  for (int i = 0; i < config.stopper_size(); ++i) {
    check.Known(absl::StrCat("stopper[", i, "].type"), config.stopper(i).type(), StopperRegistry());
  }
  if (IsSupervised(config)) CheckSupervised(config, &check);
  return std::move(*check.problems());
}

std::vector<std::string> FindCollectProblems(const ExperimentConfig& config, bool parallel) {
  Checker check;
  CheckAmount(config, parallel, &check);
  return std::move(*check.problems());
}

absl::StatusOr<ExperimentConfig> ParseExperimentConfig(absl::string_view text,
                                                       absl::string_view source,
                                                       absl::Span<const std::string> settings) {
  ExperimentConfig config;
  std::vector<std::string> problems = ParseTextConfig(text, source, &config);
  const bool parsed = problems.empty();
  ShareAmongSections(&config, &problems);
  ClearSharedValues(&config);
  for (const std::string& setting : settings) {
    const absl::Status status = ApplySetting(setting, &config);
    if (!status.ok()) problems.push_back(absl::StrCat("--set: ", status.message()));
  }
  // Envs that are programs of their own run in these, one per core, unless the config says
  // otherwise.
  if (EnvGroupRegistry().Find(config.env().type()).ok()) {
    EnvManagerConfig& manager = *config.mutable_env()->mutable_manager();
    if (!manager.has_type()) manager.set_type("subprocess");
    const bool in_processes =
        manager.type() == "subprocess" || manager.type() == "async_subprocess";
    if (in_processes && !manager.has_envs_per_process()) manager.set_envs_per_process(0);
  }
  for (std::string& problem : ApplyPolicyDefaults(&config)) problems.push_back(std::move(problem));
  ShareAmongSections(&config, &problems);
  AddPolicyParams(&config);
  FillInDefaults(&config);
  for (std::string& problem : FindWrongParams(config)) problems.push_back(std::move(problem));
  // Fields that could not be parsed are missing now; this is not a problem of its own.
  for (std::string& problem : FindProblems(config)) {
    if (parsed || !absl::StrContains(problem, " is missing"))
      problems.push_back(std::move(problem));
  }
  if (!problems.empty()) return ConfigError(source, problems);
  return config;
}

absl::StatusOr<std::string> ReadConfigText(const std::string& path) {
  struct stat info;
  const bool streams =
      stat(path.c_str(), &info) == 0 && (S_ISFIFO(info.st_mode) || S_ISCHR(info.st_mode));
  DING_ASSIGN_OR_RETURN(std::string text, streams ? ReadStream(path) : ReadFile(path));
  if (!text.empty()) return text;
  return absl::InvalidArgumentError(absl::StrCat("config ", path, " is empty"));
}

absl::StatusOr<ExperimentConfig> LoadExperimentConfig(const std::string& path,
                                                      absl::Span<const std::string> settings) {
  DING_ASSIGN_OR_RETURN(const std::string text, ReadConfigText(path));
  return ParseExperimentConfig(text, path, settings);
}

bool FilesAreInStore(const ExperimentConfig& config) {
  return config.system().run_files() == SystemSection::STORE;
}

bool JournalIsInStore(const ExperimentConfig& config) {
  return FilesAreInStore(config) || config.system().coordinator().journal() == JOURNAL_IN_STORE;
}

bool IsSupervised(const ExperimentConfig& config) { return !config.data_set().path().empty(); }

bool HasOpponent(const ExperimentConfig& config) {
  return config.opponent().has_type() || config.opponent().has_checkpoint();
}

bool OpponentLearns(const ExperimentConfig& config) {
  return HasOpponent(config) && config.opponent().learns();
}

std::string RewardShapingOf(const ExperimentConfig& config) {
  const google::protobuf::Any& params = config.policy().collect().collector().params();
  EpisodeCollectorParams of_episodes;
  if (params.UnpackTo(&of_episodes)) return of_episodes.reward_shaping();
  SampleCollectorParams of_samples;
  return params.UnpackTo(&of_samples) ? of_samples.reward_shaping() : "";
}

EnvConfig MakeEvaluatorEnvConfig(const ExperimentConfig& config) {
  EnvConfig env = MakeEnvConfig(config);
  if (config.env().has_evaluator_type()) {
    env.set_type(config.env().evaluator_type());
    env.clear_params();
    if (config.env().has_evaluator_params()) {
      *env.mutable_params() = config.env().evaluator_params();
    }
  }
  env.clear_wrapper();
  for (const EnvWrapperConfig& wrapper : config.env().wrapper()) {
    if (wrapper.in_evaluation()) *env.add_wrapper() = wrapper;
  }
  return env;
}

EnvConfig MakeEnvConfig(const ExperimentConfig& config) {
  EnvConfig env;
  env.set_type(config.env().type());
  if (config.env().has_params()) *env.mutable_params() = config.env().params();
  *env.mutable_reward_weights() = config.env().reward_weights();
  *env.mutable_wrapper() = config.env().wrapper();
  if (config.env().has_out_of_bounds()) env.set_out_of_bounds(config.env().out_of_bounds());
  return env;
}

PolicyConfig MakePolicyConfig(const ExperimentConfig& config) {
  const PolicySection& section = config.policy();
  PolicyConfig policy;
  policy.set_type(section.type());
  if (section.has_params()) *policy.mutable_params() = section.params();
  policy.set_batch_size(section.learn().batch_size());
  if (section.collect().has_n_episode()) {
    policy.set_n_episode(section.collect().n_episode());
  } else {
    policy.set_n_sample(section.collect().n_sample());
  }
  policy.set_unroll_len(section.collect().unroll_len());
  policy.set_last_sample(section.collect().last_sample());
  policy.set_priority(section.priority());
  policy.set_discount_factor(section.discount_factor());
  policy.set_nstep(section.nstep());
  *policy.mutable_schedule() = section.schedule();
  *policy.mutable_loss() = section.loss();
  *policy.mutable_actor_loss() = section.actor_loss();
  return policy;
}

}  // namespace ding
