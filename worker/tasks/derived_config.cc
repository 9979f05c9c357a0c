#include "ding_worker/worker/tasks/derived_config.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/collector/serial.pb.h"
#include "ding_worker/coordinator/coordinator.pb.h"
#include "ding_worker/data/items.h"
#include "ding_worker/env/env.h"
#include "ding_worker/policy/policy.h"
#include "ding_worker/replay_buffer/buffer.pb.h"
#include "ding_worker/replay_buffer/sequence_buffer.pb.h"
#include "ding_worker/worker/config/experiment_config.h"
#include "ding_worker/worker/setup/experiment_setup.h"
#include "ding_worker/worker/tasks/parallel_collect.h"
#include "ding_worker/worker/tasks/parallel_envs.h"
#include "ding_worker/worker/tasks/parallel_problems.h"

namespace ding {
namespace {

constexpr int kCollectors = 2;
// An evaluation begins between two tasks, so these are short.
constexpr int64_t kTaskEpisodes = 1;
constexpr double kEvalInterval = 1;
// A buffer of sequences that is smaller than so many hand-overs of all collectors would lose them
// before they are drawn.
constexpr int64_t kHandOversInBuffer = 4;

class Derivation {
 public:
  Derivation(ExperimentConfig* config, int players) : config_(*config), players_(players) {}

  void Derive(bool on_policy);

 private:
  // The rounds of a serial run, of which a parallel run has none.
  bool sets_serial_fields() const;

  template <typename Value>
  void Note(absl::string_view path, const Value& value, absl::string_view why) {
    config_.mutable_system()->add_derived(absl::StrCat(path, ": ", value, "  # ", why));
  }
  void CutSequences();
  void DeriveRatio();
  void HandOverWholeSequences();
  void DeriveTrainSamples();
  void DeriveTasks();
  void DeriveEvaluations();
  void LeaveOutRounds(bool off_policy);

  PolicySection& policy() { return *config_.mutable_policy(); }
  CollectSection& collect() { return *policy().mutable_collect(); }
  BufferConfig& buffer() { return *policy().mutable_other()->mutable_replay_buffer(); }

  ExperimentConfig& config_;
  const int players_;
};

bool Derivation::sets_serial_fields() const {
  const PolicySection& policy = config_.policy();
  return policy.learn().update_per_collect() !=
             LearnSection::default_instance().update_per_collect() ||
         policy.eval().evaluator().eval_freq() !=
             SerialEvaluatorConfig::default_instance().eval_freq() ||
         policy.collect().overlap() || config_.resume().period_rounds() != 0;
}

void Derivation::Derive(bool on_policy) {
  SerialCollectorConfig& collector = *collect().mutable_collector();
  const bool of_several = collector.has_collector_num();
  if (of_several && !sets_serial_fields()) return;
  const bool supervised = IsSupervised(config_);
  if (!of_several) {
    collector.set_collector_num(supervised ? 1 : kCollectors);
    Note("policy.collect.collector.collector_num", collector.collector_num(),
         supervised ? "it evaluates" : "processes that collect and evaluate");
  }
  if (!supervised) {
    DeriveTrainSamples();
    if (!on_policy) {
      CutSequences();
      DeriveRatio();
      HandOverWholeSequences();
    }
    DeriveTasks();
  }
  DeriveEvaluations();
  LeaveOutRounds(!supervised && !on_policy);
}

// A sequence of a parallel run lies within one episode.
void Derivation::CutSequences() {
  SequenceBufferConfig params;
  if (buffer().type() != "sequence" || !buffer().params().UnpackTo(&params)) return;
  if (!params.cross_episodes()) return;
  params.set_cross_episodes(false);
  Note("policy.other.replay_buffer.params.cross_episodes", "false",
       "a sequence lies within one episode");
  if (!params.padding()) {
    params.set_padding(true);
    Note("policy.other.replay_buffer.params.padding", "true",
         "so that the ends of episodes are learned from");
  }
  buffer().mutable_params()->PackFrom(params);
}

// It lies within the rows of an env that are handed over together, too.
void Derivation::HandOverWholeSequences() {
  const ItemSequences items = ItemSequencesOf(buffer());
  if (items.length == 1 || collect().has_n_episode()) return;
  const int64_t unroll_len = collect().unroll_len();
  const int64_t samples = (items.length + unroll_len - 1) / unroll_len *
                          config_.env().collector_env_num() * collect().collector().collector_num();
  if (collect().n_sample() < samples) {
    collect().set_n_sample(samples);
    Note("policy.collect.n_sample", samples,
         "so that each env of each collector hands over a whole sequence");
  }
  const int64_t rows = kHandOversInBuffer * collect().n_sample() * unroll_len;
  if (!buffer().has_replay_buffer_bytes() && buffer().replay_buffer_size() < rows) {
    buffer().set_replay_buffer_size(rows);
    Note("policy.other.replay_buffer.replay_buffer_size", rows,
         absl::StrCat("rows of ", kHandOversInBuffer, " hand-overs of all collectors"));
  }
}

// As many rows are drawn for each row pushed as in the serial run.
void Derivation::DeriveRatio() {
  ReplayRatioConfig& ratio = *buffer().mutable_replay_ratio();
  if (ratio.min() != 0 || !std::isinf(ratio.max())) return;
  const ItemSequences items = ItemSequencesOf(buffer());
  if (collect().has_n_episode() && !items.whole_episodes) return;  // of any number of rows
  // n_sample and n_episode are of each player.
  const int64_t amount = collect().has_n_episode() ? collect().n_episode()
                                                   : collect().n_sample() * collect().unroll_len();
  const double pushed = static_cast<double>(amount * players_) /
                        static_cast<double>(collect().has_n_episode() ? 1 : items.period());
  const double drawn =
      static_cast<double>(policy().learn().update_per_collect() * policy().learn().batch_size());
  ratio.set_min(drawn / pushed);
  ratio.set_max(drawn / pushed);
  Note("policy.other.replay_buffer.replay_ratio",
       absl::StrCat("{ min: ", ratio.min(), " max: ", ratio.max(), " }"),
       absl::StrCat("rows drawn for each row pushed: update_per_collect ",
                    policy().learn().update_per_collect(), " * batch_size ",
                    policy().learn().batch_size(), " / what a collect gathers"));
}

void Derivation::DeriveTrainSamples() {
  if (collect().collector().type() != "episode") return;
  EpisodeCollectorParams params;
  collect().collector().params().UnpackTo(&params);
  if (params.get_train_sample()) return;
  params.set_get_train_sample(true);
  collect().mutable_collector()->mutable_params()->PackFrom(params);
  Note("policy.collect.collector.params.get_train_sample", "true", "training data is handed over");
}

void Derivation::DeriveTasks() {
  EnvSection& env = *config_.mutable_env();
  if (env.collector_episode_num() != EnvSection::default_instance().collector_episode_num()) return;
  int64_t episodes = kTaskEpisodes;
  if (collect().has_n_episode()) {
    episodes = (ShareOfCollector(config_) + env.collector_env_num() - 1) / env.collector_env_num();
  }
  if (episodes == env.collector_episode_num()) return;
  env.set_collector_episode_num(episodes);
  Note("env.collector_episode_num", episodes,
       "of each env in a task: an evaluation begins when a task is over");
}

void Derivation::DeriveEvaluations() {
  SerialEvaluatorConfig& evaluator = *policy().mutable_eval()->mutable_evaluator();
  const int64_t by_default = SerialEvaluatorConfig::default_instance().eval_freq();
  CommanderConfig& commander = *policy().mutable_other()->mutable_commander();
  if (evaluator.eval_freq() != by_default) {
    Note("policy.eval.evaluator.eval_freq", absl::StrCat("not ", evaluator.eval_freq()),
         "left out: eval_interval says how often");
    evaluator.set_eval_freq(by_default);
  }
  const double interval = CommanderConfig::default_instance().eval_interval();
  if (!Evaluates(config_) || commander.eval_interval() != interval) return;
  commander.set_eval_interval(kEvalInterval);
  Note("policy.other.commander.eval_interval", kEvalInterval, "seconds between two evaluations");
}

void Derivation::LeaveOutRounds(bool off_policy) {
  LearnSection& learn = *policy().mutable_learn();
  const ReplayRatioConfig& ratio = buffer().replay_ratio();
  if (learn.update_per_collect() != 1 && (ratio.min() != 0 || !std::isinf(ratio.max()))) {
    Note("policy.learn.update_per_collect", absl::StrCat("not ", learn.update_per_collect()),
         "left out: replay_ratio says how often rows are drawn");
    learn.set_update_per_collect(1);
  }
  if (off_policy && collect().overlap()) {
    Note("policy.collect.overlap", "not true", "left out: processes work at the same time anyway");
    collect().set_overlap(false);
  }
  if (config_.resume().period_rounds() != 0) {
    Note("resume.period_rounds", absl::StrCat("not ", config_.resume().period_rounds()),
         "left out: there are no rounds; resume.period_seconds says how often");
    config_.mutable_resume()->set_period_rounds(0);
  }
}

}  // namespace

void DeriveParallelConfig(bool on_policy, ExperimentConfig* config, int players) {
  Derivation(config, players).Derive(on_policy);
}

absl::StatusOr<ExperimentConfig> PrepareParallelConfig(const ExperimentConfig& config,
                                                       absl::string_view source,
                                                       const Clock* clock) {
  ExperimentConfig derived = config;
  std::vector<std::string> problems;
  absl::Status asked;
  const auto ask = [&]() -> absl::Status {
    DING_ASSIGN_OR_RETURN(const EnvSpec game, SpecOfGame(config, clock));
    const EnvSpec env = PlayerSpec(game);
    PolicyModes modes;
    modes.eval = false;
    DING_ASSIGN_OR_RETURN(const std::unique_ptr<Policy> learner, MakePolicy(config, env, modes));
    DING_ASSIGN_OR_RETURN(const std::unique_ptr<Policy> collector,
                          MakePolicy(config, env, CollectModeOnly()));
    const CollectAttributes kind = collector->collect_mode()->attributes();
    DeriveParallelConfig(kind.on_policy, &derived, HasOpponent(config) ? 1 : game.players);
    problems = FindParallelProblems(derived, /*kind_is_known=*/true);
    for (std::string& problem : FindPolicyProblems(derived, env, kind, learner->learn_mode())) {
      problems.push_back(std::move(problem));
    }
    return absl::OkStatus();
  };
  if (IsSupervised(config) || !(asked = ask()).ok()) {
    DeriveParallelConfig(/*on_policy=*/false, &derived);
    problems = FindParallelProblems(derived);
    if (!asked.ok() && problems.empty()) return asked;
    if (!asked.ok()) problems.emplace_back(asked.message());
  }
  if (problems.empty()) return derived;
  return absl::InvalidArgumentError(
      absl::StrCat(source, " cannot run in parallel:\n  ", absl::StrJoin(problems, "\n  ")));
}

}  // namespace ding
