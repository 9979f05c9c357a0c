#include "ding_worker/worker/config/experiment_config.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/log.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/base/utf8.h"
#include "ding_worker/policy/policy.pb.h"
#include "ding_worker/worker/config/text_config.h"
#include "ding_worker/worker/config/type_choices.h"
#include "ding_worker/worker/serial_registry.h"

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

// Collects the problems of one config.
class Checker {
 public:
  template <typename T>
  void AtLeast(absl::string_view path, T found, T least, absl::string_view why = "") {
    if (!(found >= least)) Report(path, absl::StrCat(found), absl::StrCat(least, " or more", why));
  }
  void Above(absl::string_view path, double found, double bound) {
    if (!(found > bound)) Report(path, absl::StrCat(found), absl::StrCat("above ", bound));
  }
  void Within(absl::string_view path, double found, double low, double high) {
    if (!(found >= low && found <= high)) {
      Report(path, absl::StrCat(found), absl::StrCat("within [", low, ", ", high, "]"));
    }
  }
  template <typename Factory>
  void Known(absl::string_view path, const std::string& name, const Registry<Factory>& registry) {
    if (name.empty()) {
      problems_.push_back(absl::StrCat(
          path, " is missing; this program has: ", absl::StrJoin(registry.Names(), ", ")));
    } else if (const absl::Status status = registry.Find(name).status(); !status.ok()) {
      problems_.push_back(absl::StrCat(path, ": ", status.message()));
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
  std::vector<std::string> TakeProblems() { return std::move(problems_); }

 private:
  std::vector<std::string> problems_;
};

void CheckEnv(const EnvSection& env, bool required, Checker* check) {
  if (required || !env.type().empty()) check->Known("env.type", env.type(), EnvRegistry());
  check->AtLeast("env.collector_env_num", env.collector_env_num(), 1);
  check->AtLeast("env.evaluator_env_num", env.evaluator_env_num(), 1);
  check->AtLeast<int64_t>("env.n_evaluator_episode", env.n_evaluator_episode(),
                          env.evaluator_env_num());
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
  const EnvManagerConfig& manager = env.manager();
  check->Known("env.manager.type", manager.type(), EnvManagerRegistry());
  check->AtLeast<int64_t>("env.manager.episode_num", manager.episode_num(), 0);
  check->AtLeast("env.manager.max_retry", manager.max_retry(), 1);
  check->AtLeast("env.manager.retry_waiting_time", manager.retry_waiting_time(), 0.0);
  check->AtLeast("env.manager.step_timeout", manager.step_timeout(), 0.0);
  check->AtLeast("env.manager.reset_timeout", manager.reset_timeout(), 0.0);
  check->AtLeast("env.manager.wait_num", manager.wait_num(), 0);
  check->AtLeast("env.manager.num_threads", manager.num_threads(), 0);
  check->AtLeast("env.manager.envs_per_process", manager.envs_per_process(), 0);
  check->AtLeast<int64_t>("env.manager.memory_limit_mb", manager.memory_limit_mb(), 0);
  check->Above("env.manager.connect_timeout", manager.connect_timeout(), 0);
}

void CheckLearn(const LearnSection& learn, Checker* check) {
  check->AtLeast<int64_t>("policy.learn.update_per_collect", learn.update_per_collect(), 1);
  check->AtLeast<int64_t>("policy.learn.batch_size", learn.batch_size(), 1);
  const LearnerConfig& learner = learn.learner();
  check->Known("policy.learn.learner.type", learner.type(), LearnerRegistry());
  check->AtLeast<int64_t>("policy.learn.learner.train_iterations", learner.train_iterations(), 1);
  check->AtLeast("policy.learn.learner.monitor_window", learner.monitor_window(), 1);
  const LearnerHooksConfig& hook = learner.hook();
  check->AtLeast<int64_t>("policy.learn.learner.hook.log_show_after_iter",
                          hook.log_show_after_iter(), 0);
  check->AtLeast<int64_t>("policy.learn.learner.hook.save_ckpt_after_iter",
                          hook.save_ckpt_after_iter(), 0);
  for (int i = 0; i < hook.hook_size(); ++i) {
    const std::string path = absl::StrCat("policy.learn.learner.hook.hook[", i, "]");
    check->Known(absl::StrCat(path, ".type"), hook.hook(i).type(), LearnerHookRegistry());
    check->AtLeast<int64_t>(absl::StrCat(path, ".freq"), hook.hook(i).freq(), 1);
    check->AtLeast(absl::StrCat(path, ".priority"), hook.hook(i).priority(), 0);
  }
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
    check->AtLeast<int64_t>("policy.collect.n_episode", collect.n_episode(),
                            collect.collector().collector_num(),
                            ", one for each of policy.collect.collector.collector_num");
  } else if (collect.has_n_episode()) {
    check->AtLeast<int64_t>("policy.collect.n_episode", collect.n_episode(), env_num,
                            ", one for each of env.collector_env_num");
    if (config.policy().random_collect_size() > 0) {
      check->AtLeast<int64_t>("policy.random_collect_size", config.policy().random_collect_size(),
                              env_num, " episodes, one for each of env.collector_env_num");
    }
  }
}

void CheckPolicy(const PolicySection& policy, Checker* check) {
  check->Known("policy.type", policy.type(), PolicyRegistry());
  check->Within("policy.discount_factor", policy.discount_factor(), 0, 1);
  check->AtLeast<int64_t>("policy.nstep", policy.nstep(), 1);
  check->AtLeast<int64_t>("policy.random_collect_size", policy.random_collect_size(), 0);
  CheckLearn(policy.learn(), check);

  const CollectSection& collect = policy.collect();
  if (collect.has_n_episode()) {
    check->AtLeast<int64_t>("policy.collect.n_episode", collect.n_episode(), 1);
  } else {
    check->AtLeast<int64_t>("policy.collect.n_sample", collect.n_sample(), 1);
  }
  check->AtLeast<int64_t>("policy.collect.unroll_len", collect.unroll_len(), 1);
  if (collect.unroll_len() == 1 && collect.last_sample() != PolicyConfig::NULL_PADDING) {
    check->Report("policy.collect.last_sample",
                  PolicyConfig::LastSample_Name(collect.last_sample()),
                  "NULL_PADDING: policy.collect.unroll_len is 1, so each row is a whole sample");
  }
  check->KnownToEither("policy.collect.collector.type", collect.collector().type(),
                       SerialCollectorRegistry(), BattleCollectorRegistry());
  check->AtLeast<int64_t>("policy.collect.collector.collect_print_freq",
                          collect.collector().collect_print_freq(), 1);
  check->AtLeast("policy.collect.collector.max_abnormal", collect.collector().max_abnormal(), 1);

  const SerialEvaluatorConfig& evaluator = policy.eval().evaluator();
  check->KnownToEither("policy.eval.evaluator.type", evaluator.type(), SerialEvaluatorRegistry(),
                       BattleEvaluatorRegistry());
  check->AtLeast<int64_t>("policy.eval.evaluator.eval_freq", evaluator.eval_freq(), 1);
  check->AtLeast("policy.eval.evaluator.max_abnormal", evaluator.max_abnormal(), 1);
  check->AtLeast<int64_t>("policy.eval.evaluator.max_episode_steps", evaluator.max_episode_steps(),
                          0);

  const BufferConfig& buffer = policy.other().replay_buffer();
  check->Known("policy.other.replay_buffer.type", buffer.type(), BufferRegistry());
  if (buffer.selector().has_type()) {
    check->Known("policy.other.replay_buffer.selector.type", buffer.selector().type(),
                 SelectorRegistry());
  }
  check->AtLeast<int64_t>("policy.other.replay_buffer.replay_buffer_size",
                          buffer.replay_buffer_size(), 1);
  if (buffer.has_replay_buffer_bytes()) {
    check->AtLeast<int64_t>("policy.other.replay_buffer.replay_buffer_bytes",
                            buffer.replay_buffer_bytes(), 1);
  }
  check->Above("policy.other.replay_buffer.periodic_thruput_seconds",
               buffer.periodic_thruput_seconds(), 0);
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
  const double held_out = config.data_set().held_out();
  if (!(held_out > 0 && held_out < 1)) {
    check->Report("data_set.held_out", absl::StrCat(held_out), "above 0 and below 1");
  }
  const MetricEvaluatorConfig& evaluator = config.policy().eval().metric_evaluator();
  check->Known("policy.eval.metric_evaluator.type", evaluator.type(), MetricEvaluatorRegistry());
  check->AtLeast<int64_t>("policy.eval.metric_evaluator.eval_freq", evaluator.eval_freq(), 1);
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

absl::Status ConfigError(absl::string_view source, const std::vector<std::string>& problems) {
  return absl::InvalidArgumentError(absl::StrCat(source, " has ", problems.size(), " problem",
                                                 problems.size() == 1 ? "" : "s", ":\n  ",
                                                 absl::StrJoin(problems, "\n  ")));
}

}  // namespace

std::vector<std::string> FindProblems(const ExperimentConfig& config) {
  Checker check;
  // It is the name of a folder, and stands in logs and metrics.
  if (const std::string shown = PrintableUtf8(config.exp_name()); shown != config.exp_name()) {
    check.Report("exp_name", absl::StrCat("'", shown, "'"),
                 "text in UTF-8 without control characters");
  }
  if (config.exp_name().empty() || config.exp_name().find('/') != std::string::npos) {
    check.Report("exp_name", absl::StrCat("'", config.exp_name(), "'"),
                 "a name without slashes (--exp_dir says where the run is written)");
  }
  check.AtLeast<int64_t>("max_env_step", config.max_env_step(), 0);
  check.AtLeast<int64_t>("max_train_iter", config.max_train_iter(), 0);
  CheckEnv(config.env(), /*required=*/!IsSupervised(config), &check);
  CheckPolicy(config.policy(), &check);
  CheckOpponent(config.opponent(), &check);
  for (int i = 0; i < config.stopper_size(); ++i) {
    check.Known(absl::StrCat("stopper[", i, "].type"), config.stopper(i).type(), StopperRegistry());
  }
  if (IsSupervised(config)) CheckSupervised(config, &check);
  check.AtLeast<double>("resume.period_seconds", config.resume().period_seconds(), 0);
  check.AtLeast<int64_t>("resume.period_rounds", config.resume().period_rounds(), 0);
  check.AtLeast<int64_t>("resume.max_replay_bytes", config.resume().max_replay_bytes(), 0);
  return check.TakeProblems();
}

std::vector<std::string> FindCollectProblems(const ExperimentConfig& config, bool parallel) {
  Checker check;
  CheckAmount(config, parallel, &check);
  return check.TakeProblems();
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
  ShareAmongSections(&config, &problems);
  // Envs that are programs of their own run in these unless the config says otherwise.
  if (!config.env().manager().has_type() && EnvGroupRegistry().Find(config.env().type()).ok()) {
    config.mutable_env()->mutable_manager()->set_type("subprocess");
  }
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

bool IsSupervised(const ExperimentConfig& config) { return !config.data_set().path().empty(); }

bool HasOpponent(const ExperimentConfig& config) {
  return config.opponent().has_type() || config.opponent().has_checkpoint();
}

bool OpponentLearns(const ExperimentConfig& config) {
  return HasOpponent(config) && config.opponent().learns();
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
  return policy;
}

}  // namespace ding
