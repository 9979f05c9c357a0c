// Every field that the serial program uses changes a run: the test trains for a moment by a small
// config, again with the field set to another value, and compares everything that the two runs
// leave. worker/config_fields.txt says which kinds of run use a field;
// worker/config_fields_runs.txt, whose head says how to read it, with what other value and beside
// what settings a field has an effect, and which fields change nothing, for a reason. A line there
// is tested, too: a field of which it says that it changes nothing must change nothing.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/log.h"
#include "ding_worker/base/mutex.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/metrics/sink.h"
#include "ding_worker/policy/bc/bc.pb.h"
#include "ding_worker/policy/dqn/dqn.pb.h"
#include "ding_worker/policy/ppo/ppo.pb.h"
#include "ding_worker/policy/r2d2/r2d2.pb.h"
#include "ding_worker/policy/sac/sac.pb.h"
#include "ding_worker/worker/config/experiment_config.h"
#include "ding_worker/worker/config/field_uses.h"
#include "ding_worker/worker/experiment.pb.h"
#include "ding_worker/worker/pipeline/pipeline.h"
#include "ding_worker/worker/pipeline/supervised_pipeline.h"
#include "ding_worker/worker/testing/config_fields.h"
#include "google/protobuf/descriptor.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

constexpr char kRunsTable[] = "worker/config_fields_runs.txt";

// The kinds of run of the serial program: the first columns of the table of uses, with the names
// that lines of the table of runs begin with.
enum class Kind : size_t { kSerial, kOnPolicy, kSupervised };
constexpr const char* kKindNames[] = {"serial", "on-policy", "supervised"};

// ------------------------------------------------------------------------------------- the table

// A line of the table of runs.
struct FieldRun {
  char effect = 'c';
  std::string value;
  std::vector<std::string> settings;
  std::string reason;
};
using FieldRuns = std::map<std::string, FieldRun, std::less<>>;

FieldRuns ReadRunsTable() {
  FieldRuns runs;
  const std::string table = ReadFile(kRunsTable).value();
  for (const absl::string_view line : absl::StrSplit(table, '\n', absl::SkipEmpty())) {
    if (absl::StartsWith(line, "#")) continue;
    std::vector<std::string> columns = absl::StrSplit(line, " |");
    if (columns.size() != 5 || !runs.try_emplace(columns[0]).second) {
      ADD_FAILURE() << "'" << line << "': expected 5 columns, and each name once";
      continue;
    }
    for (std::string& column : columns) absl::StripAsciiWhitespace(&column);
    FieldRun& run = runs[columns[0]];
    run.effect = columns[1].empty() ? ' ' : columns[1][0];
    run.value = columns[2];
    run.settings = absl::StrSplit(columns[3], " ; ", absl::SkipEmpty());
    run.reason = columns[4];
    EXPECT_TRUE(absl::StrContains("clne-", run.effect)) << line;
    EXPECT_EQ(run.reason.empty(), run.effect == 'c') << line << ": all but 'c' have a reason";
  }
  return runs;
}

// Finds the line for a field: that of the kind of run, or that of the field.
FieldRuns::const_iterator FindRun(Kind kind, const std::string& field, const FieldRuns& runs) {
  const auto of_kind = runs.find(absl::StrCat(kKindNames[static_cast<size_t>(kind)], "/", field));
  return of_kind != runs.end() ? of_kind : FindLine(runs, field);
}

// ------------------------------------------------------------------------------------- a run

// Writes all metrics into a text.
class TextSink : public MetricSink {
 public:
  void Scalar(absl::string_view tag, int64_t step, double value) override {
    Add(absl::StrCat(tag, " ", step, " ", absl::StrFormat("%.17g", value)));
  }
  void Histogram(absl::string_view tag, int64_t step, absl::Span<const float> values) override {
    Add(absl::StrCat(tag, " ", step, " ", absl::StrJoin(values, " ")));
  }
  void Text(absl::string_view tag, int64_t step, absl::string_view text) override {
    Add(absl::StrCat(tag, " ", step, " ", text));
  }
  void EncodedImage(absl::string_view tag, int64_t step, int, int,
                    absl::string_view file) override {
    Add(absl::StrCat(tag, " ", step, " ", file));
  }
  // Not the hyperparameters: they are the config.
  void BeginRun(const RunDescription& run) override { Add(run.name); }
  absl::Status Flush() override { return absl::OkStatus(); }

  std::string text() const ABSL_LOCKS_EXCLUDED(mutex_) {
    const MutexLock lock(&mutex_);
    return text_;
  }

 private:
  void Add(absl::string_view line) ABSL_LOCKS_EXCLUDED(mutex_) {
    const MutexLock lock(&mutex_);
    absl::StrAppend(&text_, line, "\n");
  }

  mutable Mutex mutex_;
  std::string text_ ABSL_GUARDED_BY(mutex_);
};

// Collects the lines of the log while it lives.
class LogLines : public LogSink {
 public:
  LogLines() : before_(SetLogSink(this)) {}
  ~LogLines() override { SetLogSink(before_); }

  void Send(const LogLine& line) override ABSL_LOCKS_EXCLUDED(mutex_) {
    const MutexLock lock(&mutex_);
    absl::StrAppend(&text_, line.message, "\n");
  }
  std::string text() const ABSL_LOCKS_EXCLUDED(mutex_) {
    const MutexLock lock(&mutex_);
    return text_;
  }

 private:
  LogSink* const before_;
  mutable Mutex mutex_;
  std::string text_ ABSL_GUARDED_BY(mutex_);
};

// What a run leaves.
struct Leavings {
  std::map<std::string, std::string> results;  // the metrics, the result, and files by their paths
  std::string log;
};

// The first lines of two texts that differ, where they differ.
std::string FirstLines(absl::string_view left, absl::string_view right) {
  size_t at = 0;
  while (at < left.size() && at < right.size() && left[at] == right[at]) ++at;
  constexpr size_t kShown = 100;
  const size_t begin = at < kShown ? 0 : at - kShown;
  return absl::StrCat("'", absl::CHexEscape(left.substr(begin, 2 * kShown)), "', '",
                      absl::CHexEscape(right.substr(begin, 2 * kShown)), "'");
}

// Describes the first difference of the results, else that of the logs; empty if there is none.
std::string FirstDifference(const Leavings& left, const Leavings& right) {
  for (const auto& [name, content] : left.results) {
    const auto found = right.results.find(name);
    if (found == right.results.end()) return absl::StrCat(name, " is missing");
    if (content != found->second)
      return absl::StrCat(name, ": ", FirstLines(content, found->second));
  }
  if (left.results.size() < right.results.size()) return "there are more files";
  if (left.log != right.log) return absl::StrCat("log: ", FirstLines(left.log, right.log));
  return "";
}

std::string ResultText(const SerialResult& result) {
  return absl::StrCat(result.stop, " ", result.why, " ", result.env_step, " ", result.train_iter,
                      " ", absl::StrJoin(result.eval_value_raw, " "), " ",
                      result.confirmation.has_value() ? result.confirmation->mean : 0);
}

absl::Status AddFiles(const std::string& folder, const std::string& below, Leavings* leavings) {
  DING_ASSIGN_OR_RETURN(const std::vector<std::string> names, ListDirectory(folder));
  for (const std::string& name : names) {
    const std::string path = JoinPath(folder, name);
    if (IsDirectory(path)) {
      DING_RETURN_IF_ERROR(AddFiles(path, absl::StrCat(below, name, "/"), leavings));
      continue;
    }
    std::string& content = leavings->results[absl::StrCat(below, name)];
    // A manifest holds the config.
    if (name == "manifest.json") continue;
    DING_ASSIGN_OR_RETURN(content, ReadFile(path));
  }
  return absl::OkStatus();
}

// Time is simulated, so that a run has no other input than its config. It passes between rounds,
// not during evaluations, whose progress has a detail.
absl::StatusOr<Leavings> Train(const ExperimentConfig& config, const std::string& folder) {
  DING_RETURN_IF_ERROR(CreateNewDirectory(folder));
  const LogLines log;
  SimulatedClock clock;
  const auto metrics = std::make_shared<TextSink>();
  SerialOptions options;
  options.exp_dir = folder;
  options.metrics = metrics;
  options.clock = &clock;
  options.progress = [&clock](const ProgressState& state) {
    if (state.detail.empty()) clock.Advance(absl::Milliseconds(250));
  };
  SerialResult result;
  {
    DING_ASSIGN_OR_RETURN(const std::unique_ptr<Pipeline> pipeline,
                          CreatePipeline(config, options));
    DING_RETURN_IF_ERROR(pipeline->Run(&result));
  }
  Leavings leavings;
  leavings.results = {{"metrics", metrics->text()}, {"result", ResultText(result)}};
  // The thread that writes checkpoints logs, too: the order of lines is not always the same.
  std::vector<std::string> lines = absl::StrSplit(log.text(), '\n');
  std::sort(lines.begin(), lines.end());
  leavings.log = absl::StrJoin(lines, "\n");
  DING_RETURN_IF_ERROR(AddFiles(folder, "", &leavings));
  return leavings;
}

// ------------------------------------------------------------------------------------- the test

// $0 is the policy, $1 the data set or the budget of env steps, $2 of the envs that collect.
constexpr char kConfig[] = R"(
max_train_iter: 30
resume { period_seconds: 0 }
$1
env { type: "CartPole-v0" evaluator_env_num: 2 n_evaluator_episode: 2 $2 }
policy {
  $0
  learn {
    batch_size: 8
    learner { hook {
      log_show_after_iter: 5
      save_ckpt_after_iter: 0
      hook { type: "log_show" name: "mine" freq: 7 }
    } }
  }
  eval { evaluator { eval_freq: 10 } }
})";
std::string PolicyText(const std::string& type, const google::protobuf::Descriptor& params,
                       const std::string& model) {
  return absl::StrCat("type: \"", type, "\" params ", InAny(params, model));
}

std::string ConfigText(Kind kind) {
  std::string policy;
  std::string data = "max_env_step: 400";
  std::string collects = "collector_env_num: 2";
  switch (kind) {
    case Kind::kSerial:
      policy = absl::StrCat("collect { n_sample: 4 collector { collect_print_freq: 5 } } ",
                            PolicyText("dqn", *DqnConfig::descriptor(), kSmallModel));
      break;
    case Kind::kOnPolicy:
      policy = absl::StrCat(
          "collect { n_sample: 16 collector { collect_print_freq: 5 } } ",
          PolicyText("ppo", *PpoConfig::descriptor(),
                     absl::StrCat("epoch_per_collect: 2 actor_critic { ", kSmallModels, " }")));
      break;
    case Kind::kSupervised:
      policy = PolicyText("bc", *BcConfig::descriptor(), kSmallModel);
      data = absl::StrCat("data_set { path: \"", EpisodesOf("CartPole-v0"), "\" }");
      collects = "";
      break;
  }
  return absl::StrReplaceAll(kConfig, {{"$0", policy}, {"$1", data}, {"$2", collects}});
}

// A cart that a motor pushes along a rail, and a pole on it.
constexpr char kMjcf[] = R"(
<mujoco>
  <compiler autolimits="true"/>
  <worldbody>
    <camera name="top" pos="0 0 3"/>
    <body>
      <joint name="slide" type="slide" axis="1 0 0"/>
      <geom size="0.1" mass="$0"/>
      <body><joint name="hinge" type="hinge" axis="0 1 0"/><geom size="0.1" pos="0 0 0.5"/></body>
    </body>
  </worldbody>
  <actuator><motor joint="slide" ctrlrange="-1 1"/></actuator>
</mujoco>)";

// A checkpoint is flushed to its disk, for which a thousand runs would wait for minutes: in memory,
// where that is possible.
std::string TemporaryFolder() { return IsDirectory("/dev/shm") ? "/dev/shm" : testing::TempDir(); }

class ConfigFieldsChangeTest : public testing::TestWithParam<Kind> {
 protected:
  ConfigFieldsChangeTest()
      : folder_(CreateTemporaryDirectory(JoinPath(TemporaryFolder(), "change")).value()),
        text_(ConfigText(GetParam())),
        other_episodes_(EpisodesOf("CartPole-v0", 5)),
        pendulum_(EpisodesOf("Pendulum-v1")),
        model_(JoinPath(folder_, "model.xml")),
        heavier_(JoinPath(folder_, "heavier.xml")) {
    EXPECT_THAT(WriteFileAtomically(model_, absl::StrReplaceAll(kMjcf, {{"$0", "1"}})), IsOk());
    EXPECT_THAT(WriteFileAtomically(heavier_, absl::StrReplaceAll(kMjcf, {{"$0", "2"}})), IsOk());
  }
  ~ConfigFieldsChangeTest() override { EXPECT_THAT(RemoveRecursively(folder_), IsOk()); }

  // The folder has the same path in each run, as it may stand in what the run leaves.
  absl::StatusOr<Leavings> Run(const std::vector<std::string>& settings) const {
    DING_ASSIGN_OR_RETURN(const ExperimentConfig config,
                          ParseExperimentConfig(text_, "config", settings));
    const std::string run = JoinPath(folder_, "run");
    absl::StatusOr<Leavings> leavings = Train(config, run);
    DING_RETURN_IF_ERROR(RemoveRecursively(run));
    return leavings;
  }

  // A run whose checkpoints are $checkpoint.
  absl::Status RunEarlier() const {
    DING_ASSIGN_OR_RETURN(const ExperimentConfig config,
                          ParseExperimentConfig(text_, "config", {"seed=9"}));
    return Train(config, JoinPath(folder_, "earlier")).status();
  }

  // As Run(), but a run is made when it is first asked for, and is made twice then: two equal runs
  // that differ would hide that a field changes nothing.
  const absl::StatusOr<Leavings>& RunOnce(const std::vector<std::string>& settings) {
    const std::string key = absl::StrJoin(settings, "\n");
    const auto found = runs_.find(key);
    if (found != runs_.end()) return found->second;
    const absl::StatusOr<Leavings>& first = runs_.emplace(key, Run(settings)).first->second;
    const absl::StatusOr<Leavings> second = Run(settings);
    if (!first.ok() || !second.ok()) return first;
    EXPECT_EQ(FirstDifference(*first, *second), "")
        << "two equal runs differ: " << absl::StrJoin(settings, " ");
    return first;
  }

  // Puts the paths and configs of this test in the place of their names in the table.
  std::vector<std::string> Resolve(const std::vector<std::string>& settings) const {
    std::vector<std::string> resolved;
    for (const std::string& setting : settings) {
      const std::string with_paths = absl::StrReplaceAll(
          setting, {{"$checkpoint", JoinPath(folder_, "earlier/ckpt/ckpt_best")},
                    {"$episodes", other_episodes_},
                    {"$pendulum", pendulum_},
                    {"$model", model_},
                    {"$heavier", heavier_}});
      if (setting == "$sac") {
        resolved.push_back("policy.type=sac");
        resolved.push_back(absl::StrCat(
            "policy.params=",
            InAny(*SacConfig::descriptor(), absl::StrCat("continuous {", kSmallModels, "}"))));
      } else if (setting == "$r2d2") {
        resolved.push_back("policy.type=r2d2");
        resolved.push_back("policy.collect.unroll_len=4");
        resolved.push_back(
            absl::StrCat("policy.params=",
                         InAny(*R2d2Config::descriptor(),
                               "dqn { model { type: \"rnn\" recurrent { hidden_size: 4 } } }")));
      } else {
        resolved.push_back(with_paths);
      }
    }
    return resolved;
  }

  // Compares two runs which differ in the field alone.
  void CheckField(const ConfigField& field, const FieldUse& use, const FieldRun& run) {
    std::vector<std::string> settings = field.settings;
    settings.insert(settings.end(), use.settings.begin(), use.settings.end());
    settings.insert(settings.end(), run.settings.begin(), run.settings.end());
    settings = Resolve(settings);
    const std::string value =
        run.value.empty() ? OtherValue(field, std::string(absl::StripPrefix(use.value, "?")))
                          : Resolve({run.value})[0];
    ASSERT_FALSE(value.empty()) << field.name << " needs a value in " << kRunsTable;
    const absl::StatusOr<Leavings>& before = RunOnce(settings);
    ASSERT_THAT(before.status(), IsOk())
        << field.name << ", the run without it: " << absl::StrJoin(settings, " ");
    settings.push_back(absl::StrCat(field.path, "=", value));
    const absl::StatusOr<Leavings> after = Run(settings);
    if (run.effect == 'e') {
      EXPECT_TRUE(absl::StrContains(after.status().message(), field.descriptor->name()))
          << field.name << ": " << after.status();
      return;
    }
    ASSERT_THAT(after.status(), IsOk()) << field.name << ": " << absl::StrJoin(settings, " ");
    EXPECT_EQ(before->results != after->results, run.effect == 'c')
        << field.name << (run.effect == 'c' ? " changes nothing: " : " changes the run: ")
        << absl::StrJoin(settings, " ");
    if (run.effect == 'c') return;
    EXPECT_EQ(before->log != after->log, run.effect == 'l')
        << field.name << ", lines of the log: " << absl::StrJoin(settings, " ");
  }

  const std::string folder_;
  const std::string text_;
  const std::string other_episodes_;
  const std::string pendulum_;
  const std::string model_;
  const std::string heavier_;
  std::map<std::string, absl::StatusOr<Leavings>> runs_;
};

TEST_P(ConfigFieldsChangeTest, AFieldThatIsUsedChangesTheRun) {
  ASSERT_THAT(RunEarlier(), IsOk());
  const FieldRuns runs = ReadRunsTable();
  const FieldUses table = ReadConfigFieldsTable();
  for (const ConfigField& field : AllConfigFields()) {
    const std::optional<FieldUse> use = FindFieldUse(table, field.name);
    if (!use.has_value()) continue;  // config_fields_test reports this.
    const size_t kind = static_cast<size_t>(GetParam());
    if (use->uses[kind] != 'u') continue;
    // The params of a type are what they are in any kind of run.
    if (!field.settings.empty() && use->uses.find('u') != kind) continue;
    const auto run = FindRun(GetParam(), field.name, runs);
    if (run == runs.end()) {
      CheckField(field, *use, FieldRun());
    } else if (run->second.effect != '-') {
      CheckField(field, *use, run->second);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, ConfigFieldsChangeTest,
    testing::Values(Kind::kSerial, Kind::kOnPolicy, Kind::kSupervised),
    [](const testing::TestParamInfo<Kind>& info) {
      return absl::StrReplaceAll(kKindNames[static_cast<size_t>(info.param)], {{"-", "_"}});
    });

TEST(ConfigFieldsChangeTableTest, HasALineForFieldsThatAreUsedOnly) {
  const FieldRuns runs = ReadRunsTable();
  const FieldUses table = ReadConfigFieldsTable();
  std::set<std::string> met;
  for (const ConfigField& field : AllConfigFields()) {
    const std::optional<FieldUse> use = FindFieldUse(table, field.name);
    if (!use.has_value()) continue;  // config_fields_test reports this.
    for (const Kind kind : {Kind::kSerial, Kind::kOnPolicy, Kind::kSupervised}) {
      if (use->uses[static_cast<size_t>(kind)] != 'u') continue;
      const auto run = FindRun(kind, field.name, runs);
      if (run != runs.end()) met.insert(run->first);
    }
  }
  for (const auto& [name, run] : runs) {
    EXPECT_TRUE(met.count(name) > 0) << name << ": no kind of run uses such a field";
  }
}

}  // namespace
}  // namespace ding
