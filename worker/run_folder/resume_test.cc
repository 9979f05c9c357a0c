// Tests that a run that is killed and resumed ends in the same way as one that was never
// interrupted. The tests start the real program and kill it by SIGKILL.
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/episodes.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/env/env.h"
#include "ding_worker/env/env.pb.h"
#include "ding_worker/env/env_registry.h"
#include "ding_worker/metrics/testing/event_file.h"
#include "ding_worker/worker/config/experiment_config.h"
#include "ding_worker/worker/run_folder/run_checkpoints.h"
#include "ding_worker/worker/run_folder/run_folder.h"
#include "ding_worker/worker/testing/demonstrations.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace ding {
namespace {

using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;

constexpr char kProgram[] = "worker/serial";
constexpr char kConfig[] = R"(
seed: 5
max_train_iter: 600
env { type: "CartPole-v0" collector_env_num: 3 evaluator_env_num: 2 n_evaluator_episode: 3 }
policy {
  type: "dqn"
  nstep: 3
  random_collect_size: 20
  params { [type.googleapis.com/ding.DqnConfig] { model { encoder_hidden_size: [16] } } }
  learn { batch_size: 16 update_per_collect: 2 learner { hook { save_ckpt_after_iter: 200 log_show_after_iter: 10 } } }
  collect { n_sample: 7 collector { collect_print_freq: 20 } }
  eval { evaluator { eval_freq: 30 } }
  other { replay_buffer { replay_buffer_size: 1500 } }
}
resume { period_seconds: 0 period_rounds: 3 }
)";

// This config uses all state that an on-policy run can have: moments of observations and returns,
// and the schedules of learning rate and entropy weight.
constexpr char kOnPolicyConfig[] = R"(
seed: 5
max_train_iter: 600
env { type: "Pendulum-v1" collector_env_num: 3 evaluator_env_num: 2 n_evaluator_episode: 3 }
policy {
  type: "ppo"
  params {
    [type.googleapis.com/ding.PpoConfig] {
      actor_critic {
        model { encoder_hidden_size: [16] }
        critic { encoder_hidden_size: [16] }
        lr_decay_env_steps: 20000
        entropy_weight: 0.01
        entropy_decay_env_steps: 10000
        normalize_obs: true
        scale_reward: true
      }
      epoch_per_collect: 2
    }
  }
  learn { batch_size: 16 learner { hook { save_ckpt_after_iter: 200 log_show_after_iter: 10 } } }
  collect { n_sample: 31 collector { collect_print_freq: 20 } }
  eval { evaluator { eval_freq: 30 } }
}
resume { period_seconds: 0 period_rounds: 3 }
)";

// This config uses both evaluators, and statistics of observations. An epoch has 10 batches, so
// that resume points lie in the middle of an epoch.
constexpr char kSupervisedConfig[] = R"(
seed: 5
max_train_iter: 600
data_set { held_out: 0.2 }
env { type: "CartPole-v0" evaluator_env_num: 2 n_evaluator_episode: 3 }
policy {
  type: "bc"
  params { [type.googleapis.com/ding.BcConfig] { model { encoder_hidden_size: [16] } normalize_obs: true } }
  learn { batch_size: 16 learner { hook { save_ckpt_after_iter: 200 log_show_after_iter: 5 } } }
  eval { evaluator { eval_freq: 30 } metric_evaluator { eval_freq: 20 } }
}
resume { period_seconds: 0 period_rounds: 13 }
)";

// Choices whose outcome is not known yet are a part of the state, and the opponent is random.
constexpr char kSelfPlayConfig[] = R"(
seed: 5
max_train_iter: 300
env { type: "TicTacToe" collector_env_num: 3 evaluator_env_num: 2 n_evaluator_episode: 6 }
policy {
  type: "dqn"
  nstep: 2
  random_collect_size: 20
  params { [type.googleapis.com/ding.DqnConfig] { model { encoder_hidden_size: [16] } } }
  learn { batch_size: 16 update_per_collect: 2 learner { hook { save_ckpt_after_iter: 100 log_show_after_iter: 4 } } }
  collect { n_sample: 9 collector { type: "sample_1v1" collect_print_freq: 10 } }
  eval { evaluator { type: "battle_interaction" eval_freq: 30 } }
}
resume { period_seconds: 0 period_rounds: 3 }
)";

// The recurrent state of each env is a part of the state, and stands in the rows of the buffer.
// Collects end within episodes and within samples.
constexpr char kRecurrentConfig[] = R"(
seed: 5
max_train_iter: 600
env { type: "CartPole-v0-masked-velocity" collector_env_num: 3 evaluator_env_num: 2 n_evaluator_episode: 3 }
policy {
  type: "r2d2"
  priority: true
  params { [type.googleapis.com/ding.R2d2Config] { dqn { model {
    type: "rnn" encoder_hidden_size: [8] recurrent { cell: LSTM hidden_size: 8 } } } nstep: 2 } }
  learn { batch_size: 4 update_per_collect: 2 learner { hook { save_ckpt_after_iter: 200 log_show_after_iter: 10 } } }
  collect { n_sample: 5 unroll_len: 6 collector { collect_print_freq: 20 } }
  eval { evaluator { eval_freq: 30 } }
  other { replay_buffer { type: "sequence" replay_buffer_size: 1500 params {
    [type.googleapis.com/ding.SequenceBufferConfig] {
      unroll_len: 6 burn_in: 2 overlap: 3 cross_episodes: true priority {} } } } }
}
resume { period_seconds: 0 period_rounds: 3 }
)";

class ResumeTest : public testing::Test {
 protected:
  explicit ResumeTest(absl::string_view config = kConfig) {
    std::string folder = absl::StrCat(testing::TempDir(), "/resume_XXXXXX");
    folder_ = mkdtemp(folder.data());
    EXPECT_THAT(WriteFileAtomically(Path("config"), config), IsOk());
  }
  ~ResumeTest() override { EXPECT_THAT(RemoveRecursively(folder_), IsOk()); }

  std::string Path(absl::string_view name) const { return JoinPath(folder_, name); }

  std::vector<std::string> Fresh(absl::string_view run) const {
    std::vector<std::string> args = {absl::StrCat("--config=", Path("config")),
                                     absl::StrCat("--exp_dir=", Path(run))};
    for (const std::string& setting : settings_) args.push_back(absl::StrCat("--set=", setting));
    return args;
  }
  std::vector<std::string> Resumed(absl::string_view run) const {
    return {absl::StrCat("--exp_dir=", Path(run)), "--resume"};
  }

  static std::vector<std::string> List(const std::string& folder) {
    absl::StatusOr<std::vector<std::string>> names = ListDirectory(folder);
    EXPECT_THAT(names, IsOk());
    return names.value_or(std::vector<std::string>());
  }

  // Starts the program, with its output in the file `output`. No file may become larger than
  // `max_file_bytes`, as if the disk were full.
  pid_t Start(std::vector<std::string> args, std::optional<rlim_t> max_file_bytes = std::nullopt) {
    args.insert(args.begin(), kProgram);
    std::vector<char*> argv;
    for (std::string& arg : args) argv.push_back(arg.data());
    argv.push_back(nullptr);
    const std::string output = Path("output");
    const pid_t pid = fork();
    if (pid != 0) return pid;
    const int fd = open(output.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
    dup2(fd, STDOUT_FILENO);
    dup2(fd, STDERR_FILENO);
    if (max_file_bytes.has_value()) {
      signal(SIGXFSZ, SIG_IGN);
      const rlimit limit = {*max_file_bytes, *max_file_bytes};
      setrlimit(RLIMIT_FSIZE, &limit);
    }
    execv(argv[0], argv.data());
    _exit(127);
  }

  // Returns the exit code, or -1 if the process was killed.
  static int Wait(pid_t pid) {
    int status = 0;
    EXPECT_EQ(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  static bool IsRunning(pid_t pid) {
    // waitpid() has no WNOWAIT.
    siginfo_t info = {};
    return waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           info.si_pid == 0;
  }
  // Returns true if the process had ended by itself; then its exit code must be 0.
  bool KillAndWait(pid_t pid) {
    kill(pid, SIGKILL);
    const int code = Wait(pid);
    EXPECT_THAT(code, testing::AnyOf(-1, 0)) << Output();
    return code == 0;
  }
  int Run(const std::vector<std::string>& args) { return Wait(Start(args)); }
  std::string Output() const { return ReadFile(Path("output")).value_or(""); }

  // Expects that two runs leave the same files, except for data that depend on time. Compares the
  // files of the checkpoints and the records of the logs.
  void ExpectSameRun(absl::string_view a, absl::string_view b) const {
    const std::vector<std::string> names = List(Path(absl::StrCat(a, "/ckpt")));
    EXPECT_EQ(names, List(Path(absl::StrCat(b, "/ckpt"))));
    for (const std::string& name : names) {
      for (const std::string& file : List(Path(absl::StrCat(a, "/ckpt/", name)))) {
        if (file == "manifest.json") continue;
        const std::string path = absl::StrCat("/ckpt/", name, "/", file);
        const std::string content = ReadFile(Path(absl::StrCat(a, path))).value();
        // A buffer on a disk names its files, which are numbered anew in each process.
        if (absl::StrContains(content, "files/numbers")) continue;
        EXPECT_TRUE(content == ReadFile(Path(absl::StrCat(b, path))).value_or("")) << path;
      }
    }
    EXPECT_EQ(Csv(a), Csv(b));
    EXPECT_EQ(Events(a), Events(b));
    EXPECT_THAT(Csv(a), testing::SizeIs(testing::Gt(500u)));
    EXPECT_THAT(Events(a), testing::SizeIs(testing::Gt(500u)));
  }

  // The statistics of a replay buffer count from 0 in each process, and some of them depend on
  // time, as those of the run's speed do. Each process writes the hyperparameters.
  static bool MayDiffer(absl::string_view tag) {
    return absl::StrContains(tag, "time") || absl::StrContains(tag, "duration") ||
           absl::EndsWith(tag, "_per_sec") || absl::StrContains(tag, "replay_buffer") ||
           absl::StrContains(tag, "second") || absl::StartsWith(tag, "_hparams_");
  }

  // Returns "step,tag,value" of each line.
  std::vector<std::string> Csv(absl::string_view run) const {
    std::vector<std::string> records;
    const std::string text = *ReadFile(Path(absl::StrCat(run, "/log/metrics.csv")));
    for (const absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
      const std::vector<absl::string_view> fields = absl::StrSplit(line, ',');
      EXPECT_EQ(fields.size(), 4u) << line;
      if (MayDiffer(fields[1])) continue;
      records.push_back(absl::StrJoin(fields.begin(), fields.begin() + 3, ","));
    }
    return records;
  }

  // Returns the records of all event files together, sorted.
  std::vector<std::tuple<int64_t, std::string, float>> Events(absl::string_view run) const {
    std::vector<std::tuple<int64_t, std::string, float>> records;
    const std::string folder = Path(absl::StrCat(run, "/log/serial"));
    for (const std::string& name : List(folder)) {
      for (const tensorboard::Event& event : ReadEvents(JoinPath(folder, name))) {
        for (const tensorboard::Summary::Value& value : event.summary().value()) {
          if (MayDiffer(value.tag())) continue;
          records.emplace_back(event.step(), value.tag(), value.simple_value());
        }
      }
    }
    std::sort(records.begin(), records.end());
    return records;
  }

  // Returns "event name" of each line of the run's events.
  std::vector<std::string> EventNames(absl::string_view run) const {
    std::vector<std::string> names;
    const std::string text = ReadFile(Path(absl::StrCat(run, "/log/events.jsonl"))).value_or("");
    for (const absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
      const auto json = nlohmann::json::parse(line);
      names.push_back(absl::StrCat(json.at("event").get<std::string>(), " ",
                                   json.value("name", std::string())));
    }
    return names;
  }

  bool HalfWrittenCheckpoint(absl::string_view run) const {
    const auto names = ListDirectory(Path(absl::StrCat(run, "/ckpt")));
    return names.ok() && std::any_of(names->begin(), names->end(), [](const std::string& name) {
             return absl::StrContains(name, ".tmp.");
           });
  }

  void ExpectSameAfterRandomKills() {
    ASSERT_EQ(Run(Fresh("whole")), 0) << Output();
    const uint64_t seed = std::random_device{}();  // NOLINT(ding): each run tries other moments
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    Rng rng(seed, "moments");
    bool ended = false;
    for (int kills = 0; kills < 12 && !ended; ++kills) {
      const pid_t pid = Start(kills == 0 ? Fresh("killed") : Resumed("killed"));
      std::this_thread::sleep_for(std::chrono::milliseconds(20 + rng.UniformInt(150)));
      ended = KillAndWait(pid);
      // The run was killed before there was anything to resume.
      if (!PathExists(Path("killed/total_config.textproto"))) {
        ASSERT_THAT(RemoveRecursively(Path("killed")), IsOk());
        kills = -1;
      }
    }
    if (!ended) {
      ASSERT_EQ(Run(Resumed("killed")), 0) << Output();
    }
    ExpectSameRun("whole", "killed");
  }

  // A manager that waits for all envs returns them in their order, no matter who steps them and
  // when they answer. So the run must be the same as with the manager in the caller's thread.
  void ExpectSameWithEveryManager() {
    ASSERT_EQ(Run(Fresh("whole")), 0) << Output();
    for (const char* manager : {"async_thread", "subprocess", "async_subprocess"}) {
      SCOPED_TRACE(manager);
      settings_ = {absl::StrCat("env.manager.type=", manager)};
      if (settings_[0] != "env.manager.type=subprocess") {
        settings_.push_back("env.manager.wait_num=0");
      }
      ASSERT_EQ(Run(Fresh(manager)), 0) << Output();
      ExpectSameRun("whole", manager);
    }
  }

  std::string folder_;
  std::vector<std::string> settings_;  // "path=value", for every fresh run
};

TEST(ResumeCommandTest, NamesTheProgramOrTheToolThatStartedIt) {
  unsetenv("DING_WORKER_COMMAND");
  EXPECT_EQ(ResumeCommand("/bin/my serial", "/runs/a"),
            "'/bin/my serial' --resume --exp_dir=/runs/a");
  setenv("DING_WORKER_COMMAND", "tools/train --parallel", /*overwrite=*/1);
  EXPECT_EQ(ResumeCommand("/bin/parallel", "/runs/a"),
            "tools/train --parallel --resume --exp_dir=/runs/a");
  unsetenv("DING_WORKER_COMMAND");
}

TEST_F(ResumeTest, KilledAtRandomMoments) { ExpectSameAfterRandomKills(); }

TEST_F(ResumeTest, KilledAtRandomMomentsWithPriorities) {
  settings_ = {"policy.priority=true", "policy.other.replay_buffer.type=advanced"};
  ExpectSameAfterRandomKills();
}

TEST_F(ResumeTest, KilledAtRandomMomentsWithRowsOnADisk) {
  settings_ = {"policy.other.replay_buffer.storage=DISK"};
  ExpectSameAfterRandomKills();
}

class OnPolicyResumeTest : public ResumeTest {
 protected:
  OnPolicyResumeTest() : ResumeTest(kOnPolicyConfig) {}
};

TEST_F(OnPolicyResumeTest, KilledAtRandomMoments) { ExpectSameAfterRandomKills(); }

TEST_F(ResumeTest, EveryManagerGivesTheSameRun) { ExpectSameWithEveryManager(); }
TEST_F(OnPolicyResumeTest, EveryManagerGivesTheSameRun) { ExpectSameWithEveryManager(); }

TEST_F(ResumeTest, KilledAtRandomMomentsWithEnvsInThreads) {
  settings_ = {"env.manager.type=async_thread"};
  ExpectSameAfterRandomKills();
}

TEST_F(OnPolicyResumeTest, KilledAtRandomMomentsWithEnvsInProcesses) {
  settings_ = {"env.manager.type=subprocess"};
  ExpectSameAfterRandomKills();
}

class RecurrentResumeTest : public ResumeTest {
 protected:
  RecurrentResumeTest() : ResumeTest(kRecurrentConfig) {}
};

TEST_F(RecurrentResumeTest, KilledAtRandomMoments) { ExpectSameAfterRandomKills(); }

class RecurrentOnPolicyResumeTest : public ResumeTest {
 protected:
  RecurrentOnPolicyResumeTest()
      : ResumeTest(absl::StrReplaceAll(
            kOnPolicyConfig, {{"model { encoder_hidden_size: [16] }",
                               "model { type: \"rnn\" recurrent { cell: GRU hidden_size: 8 } }"},
                              {"Pendulum-v1", "Pendulum-v1-masked-velocity"},
                              {"n_sample: 31", "n_sample: 13 unroll_len: 4"}})) {}
};

TEST_F(RecurrentOnPolicyResumeTest, KilledAtRandomMoments) { ExpectSameAfterRandomKills(); }

class A2cResumeTest : public ResumeTest {
 protected:
  A2cResumeTest()
      : ResumeTest(absl::StrReplaceAll(
            kOnPolicyConfig,
            {{"\"ppo\"", "\"a2c\""}, {"PpoConfig", "A2cConfig"}, {"epoch_per_collect: 2", ""}})) {}
};

TEST_F(A2cResumeTest, KilledAtRandomMoments) { ExpectSameAfterRandomKills(); }

class SupervisedResumeTest : public ResumeTest {
 protected:
  SupervisedResumeTest() : ResumeTest(kSupervisedConfig) {
    EnvConfig env;
    env.set_type("CartPole-v0");
    const FieldSpec obs = (*create_env(env))->spec().observation->field(0);
    Write(MakeDemonstrations(10, env.type(), obs));
    settings_ = {absl::StrCat("data_set.path=", Path("episodes"))};
  }
  void Write(const EpisodeSet& set) { EXPECT_THAT(WriteEpisodes(Path("episodes"), set), IsOk()); }
};

TEST_F(SupervisedResumeTest, KilledAtRandomMoments) { ExpectSameAfterRandomKills(); }

TEST_F(SupervisedResumeTest, KilledAtRandomMomentsInWindowsOfFiles) {
  const EpisodeSet set = *ReadEpisodes(Path("episodes"));
  WriteInFiles(set, 1, Path("files"));
  settings_ = {absl::StrCat("data_set.path=", Path("files")), "data_set.window_rows=45"};
  ExpectSameAfterRandomKills();
}

TEST_F(SupervisedResumeTest, WritesTheUsualFilesAndResumes) {
  ASSERT_EQ(Run(Fresh("run")), 0) << Output();
  EXPECT_THAT(Output(), AllOf(HasSubstr("\"stop\":false"), HasSubstr("\"env_step\":0"),
                              HasSubstr("\"train_iter\":600"), HasSubstr("\"eval_value\":"),
                              HasSubstr("\"metric\":{\"accuracy\":")));
  EXPECT_THAT(List(Path("run")),
              testing::IsSupersetOf({"total_config.textproto", "result.json", "ckpt", "log"}));
  EXPECT_THAT(List(Path("run/ckpt")),
              testing::IsSupersetOf(
                  {"ckpt_best", "ckpt_best_return", "iteration_600", "resume_598", "resume_600"}));
  EXPECT_THAT(*ReadFile(Path("run/log/serial_logger.txt")),
              HasSubstr("8 episodes (160 rows) of env 'CartPole-v0' to learn from, 2 (40 rows)"));
  std::vector<std::string> longer = Resumed("run");
  longer.push_back("--max_train_iter=610");
  ASSERT_EQ(Run(longer), 0) << Output();
  EXPECT_THAT(Output(), AllOf(HasSubstr("resuming at train iteration 600"),
                              HasSubstr("train_iter 610"), testing::Not(HasSubstr("env_step/s"))));
  EXPECT_THAT(
      EventNames("run"),
      testing::IsSupersetOf({"start new", "evaluation evaluator", "evaluation metric_evaluator",
                             "checkpoint ckpt_best", "checkpoint iteration_600", "end finished",
                             "start resumed", "checkpoint iteration_610"}));
  Write(MakeDemonstrations(11));
  longer.back() = "--max_train_iter=620";
  EXPECT_EQ(Run(longer), 1);
}

class SelfPlayResumeTest : public ResumeTest {
 protected:
  SelfPlayResumeTest() : ResumeTest(kSelfPlayConfig) {}
};

TEST_F(SelfPlayResumeTest, KilledAtRandomMoments) { ExpectSameAfterRandomKills(); }
TEST_F(SelfPlayResumeTest, EveryManagerGivesTheSameRun) { ExpectSameWithEveryManager(); }

class OpponentResumeTest : public SelfPlayResumeTest {
 protected:
  OpponentResumeTest() {
    settings_.push_back(
        "opponent={type:\"dqn\" learns:true params{[type.googleapis.com/ding.DqnConfig]{"
        "model{encoder_hidden_size:[24]}}}}");
  }
};

TEST_F(OpponentResumeTest, KilledAtRandomMoments) { ExpectSameAfterRandomKills(); }

TEST_F(ResumeTest, ARunThatFailsSaysWhatItHasSaved) {
  settings_ = {"policy.learn.learner.hook.load_ckpt_before_run=/no/checkpoint"};
  ASSERT_EQ(Run(Fresh("run")), 1);
  EXPECT_THAT(Output(), AllOf(HasSubstr("the policy of train iteration 0 is saved in"),
                              ContainsRegex("load_ckpt_before_run=.*/run/ckpt/ckpt_exception\n")));
}

TEST_F(ResumeTest, ABudgetThatIsUsedUpIsNamed) {
  ASSERT_EQ(Run(Fresh("run")), 0) << Output();
  ASSERT_EQ(Run(Resumed("run")), 0) << Output();
  EXPECT_THAT(Output(), HasSubstr("max_train_iter is 600, and the run has reached 600 before: "
                                  "--max_train_iter=N with a larger number lets it go on"));
}

TEST_F(ResumeTest, KilledWhileACheckpointIsWritten) {
  ASSERT_EQ(Run(Fresh("whole")), 0) << Output();
  int half_written = 0;
  bool ended = false;
  for (int kills = 0; kills < 8 && !ended; ++kills) {
    const pid_t pid = Start(kills == 0 ? Fresh("killed") : Resumed("killed"));
    // Waits until the run has begun, so that there is something to resume and the run makes
    // progress.
    while (kills == 0 && !PathExists(Path("killed/total_config.textproto")) && IsRunning(pid)) {
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(60));
    while (!HalfWrittenCheckpoint("killed") && IsRunning(pid)) {
    }
    ended = KillAndWait(pid);
    half_written += HalfWrittenCheckpoint("killed") ? 1 : 0;
  }
  EXPECT_GT(half_written, 0);
  if (!ended) {
    ASSERT_EQ(Run(Resumed("killed")), 0) << Output();
  }
  EXPECT_FALSE(HalfWrittenCheckpoint("killed"));
  ExpectSameRun("whole", "killed");
}

// ThreadSanitizer writes a file of its own when a program starts, and does not survive the limit.
#if !defined(__SANITIZE_THREAD__)
TEST_F(ResumeTest, AFullDiskIsSurvived) {
  ASSERT_EQ(Run(Fresh("whole")), 0) << Output();
  // The limit is enough for the model, but not for the replay buffer at the end of the run.
  EXPECT_EQ(Wait(Start(Fresh("full"), 30000)), 1);
  EXPECT_THAT(Output(), HasSubstr("File too large"));
  ASSERT_THAT(OpenNewestResumePoint(Path("full")), IsOk());
  EXPECT_TRUE(OpenNewestResumePoint(Path("full"))->has_value());
  ASSERT_EQ(Run(Resumed("full")), 0) << Output();
  EXPECT_THAT(Output(), HasSubstr("resuming at env step"));
  ExpectSameRun("whole", "full");
}
#endif

TEST_F(ResumeTest, ADamagedPointIsPassedOver) {
  ASSERT_EQ(Run(Fresh("whole")), 0) << Output();
  ASSERT_EQ(Run(Fresh("damaged")), 0) << Output();
  const std::vector<std::string> names = List(Path("damaged/ckpt"));
  std::string newest;
  for (const std::string& name : names) {
    if (absl::StartsWith(name, "resume_")) newest = name;
  }
  const std::string file = Path(absl::StrCat("damaged/ckpt/", newest, "/model.safetensors"));
  std::string content = *ReadFile(file);
  content[content.size() / 2] ^= 1;
  ASSERT_THAT(WriteFileAtomically(file, content), IsOk());
  ASSERT_EQ(Run(Resumed("damaged")), 0) << Output();
  EXPECT_THAT(Output(), AllOf(HasSubstr("passed over a resume point"), HasSubstr(newest)));
  ExpectSameRun("whole", "damaged");
}

// A run has one history: the checkpoints of the first one are not mixed with those of the second.
TEST_F(ResumeTest, Resume_AllPointsAreLost_BeginsAnewWithTheCheckpointsAside) {
  ASSERT_EQ(Run(Fresh("whole")), 0) << Output();
  ASSERT_EQ(Run(Fresh("lost")), 0) << Output();
  for (const std::string& name : List(Path("lost/ckpt"))) {
    if (!absl::StartsWith(name, "resume_")) continue;
    ASSERT_THAT(RemoveRecursively(Path(absl::StrCat("lost/ckpt/", name))), IsOk());
  }
  const std::vector<std::string> left = List(Path("lost/ckpt"));
  ASSERT_EQ(Run(Resumed("lost")), 0) << Output();
  EXPECT_THAT(Output(), AllOf(HasSubstr("has no resume point: beginning anew"),
                              HasSubstr("its checkpoints are now in"), HasSubstr("ckpt.before_1")));
  EXPECT_EQ(List(Path("lost/ckpt.before_1")), left);
  ASSERT_THAT(RemoveRecursively(Path("lost/ckpt.before_1")), IsOk());
  ExpectSameRun("whole", "lost");
}

TEST_F(ResumeTest, ABudgetMayGrow) {
  ASSERT_EQ(Run(Fresh("whole")), 0) << Output();
  std::vector<std::string> shorter = Fresh("shorter");
  shorter.push_back("--max_train_iter=300");
  ASSERT_EQ(Run(shorter), 0) << Output();
  std::vector<std::string> longer = Resumed("shorter");
  longer.push_back("--max_train_iter=600");
  ASSERT_EQ(Run(longer), 0) << Output();
  // The checkpoint at the end of the shorter run does not matter here.
  ASSERT_THAT(RemoveRecursively(Path("shorter/ckpt/iteration_300")), IsOk());
  ExpectSameRun("whole", "shorter");
}

TEST_F(ResumeTest, AnotherConfigIsRefusedWithEveryDifference) {
  ASSERT_EQ(Run(Fresh("run")), 0) << Output();
  std::vector<std::string> changed = Resumed("run");
  changed.push_back("--set=policy.learn.batch_size=8");
  changed.push_back("--set=policy.params.learning_rate=0.5");
  changed.push_back("--set=env.type=CartPole-v1");
  changed.push_back("--set=policy.params.learn_threads=2");
  EXPECT_EQ(Run(changed), 1);
  EXPECT_THAT(Output(), AllOf(HasSubstr("policy.learn.batch_size: 16 -> 8"),
                              HasSubstr("policy.params.learning_rate"), HasSubstr("CartPole-v1"),
                              testing::Not(HasSubstr("ignored"))));
  std::vector<std::string> same = Resumed("run");
  same.push_back("--set=env.stop_value=5");
  same.push_back("--set=policy.params.learn_threads=2");
  same.push_back("--set=policy.collect.collector.collect_print_freq=7");
  EXPECT_EQ(Run(same), 0) << Output();
  EXPECT_THAT(Output(), HasSubstr("\"stop\":true"));
}

TEST_F(ResumeTest, SchedulesMayChangeButNotVanish) {
  const auto rates = [&](absl::string_view rate) {
    return absl::StrCat(
        "--set=policy.schedule=[{field:'learning_rate' type:'constant' steps:1 start:", rate, "}]");
  };
  const auto last_rate = [&] {
    std::string last;
    for (const std::string& line : Csv("run")) {
      if (absl::StrContains(line, "/cur_lr_avg,")) last = line.substr(line.rfind(',') + 1);
    }
    return std::stod(last);
  };
  std::vector<std::string> args = Fresh("run");
  args.push_back(rates("0.002"));
  ASSERT_EQ(Run(args), 0) << Output();
  EXPECT_NEAR(last_rate(), 0.002, 1e-9);
  args.insert(args.end(), {"--resume", "--max_train_iter=700"});
  args[args.size() - 3] = rates("0.003");
  ASSERT_EQ(Run(args), 0) << Output();
  EXPECT_THAT(Output(), HasSubstr("resuming at env step"));
  EXPECT_NEAR(last_rate(), 0.003, 1e-9);
  args.erase(args.end() - 3);
  EXPECT_EQ(Run(args), 1);
  EXPECT_THAT(Output(), HasSubstr("the run to resume has a schedule of 'learning_rate', and the "
                                  "config has none"));
}

TEST_F(ResumeTest, APointOfAnotherVersionIsRefused) {
  ASSERT_EQ(Run(Fresh("run")), 0) << Output();
  for (const std::string& name : List(Path("run/ckpt"))) {
    const std::string path = Path(absl::StrCat("run/ckpt/", name, "/manifest.json"));
    const std::string manifest = *ReadFile(path);
    const std::string version = "\"major_version\": 1";
    ASSERT_THAT(manifest, HasSubstr(version));
    ASSERT_THAT(WriteFileAtomically(
                    path, absl::StrReplaceAll(manifest, {{version, "\"major_version\": 9"}})),
                IsOk());
  }
  EXPECT_EQ(Run(Resumed("run")), 1);
  EXPECT_THAT(Output(), HasSubstr("has version 9.0, this program reads versions 1.x"));
}

TEST_F(ResumeTest, SaysWhenThereIsNothingToResume) {
  EXPECT_EQ(Run({"--resume"}), 1);
  EXPECT_THAT(Output(), HasSubstr("--resume needs --exp_dir"));
  EXPECT_EQ(Run(Resumed("nowhere")), 1);
  EXPECT_THAT(Output(), AllOf(HasSubstr("no run to resume"), HasSubstr("nowhere")));
}

TEST_F(ResumeTest, AReplayBufferBeyondTheCapIsLeftOutWithAWarning) {
  std::vector<std::string> args = Fresh("capped");
  args.push_back("--set=resume.max_replay_bytes=1000");
  ASSERT_EQ(Run(args), 0) << Output();
  EXPECT_THAT(Output(), HasSubstr("more than resume.max_replay_bytes (1000)"));
  std::vector<std::string> resumed = Resumed("capped");
  resumed.push_back("--max_train_iter=700");
  EXPECT_EQ(Run(resumed), 0) << Output();
  EXPECT_THAT(Output(),
              AllOf(HasSubstr("is without replay_buffer"), HasSubstr("\"train_iter\":700")));
}

TEST(CheckSameExperimentTest, AllowsWhatDoesNotChangeTheRun) {
  DING_ASSERT_OK_AND_ASSIGN(const ExperimentConfig saved,
                            ParseExperimentConfig(kConfig, "test", {}));
  EXPECT_THAT(CheckSameExperiment(saved, saved), IsOk());
  for (const char* setting :
       {"exp_name=other", "max_env_step=7", "max_train_iter=7", "env.stop_value=7",
        "policy.learn.learner.hook.log_show_after_iter=7",
        "policy.learn.learner.hook.log_reduce_after_iter=true",
        "policy.collect.collector.collect_print_freq=7", "resume.period_seconds=7"}) {
    DING_ASSERT_OK_AND_ASSIGN(const ExperimentConfig now,
                              ParseExperimentConfig(kConfig, "test", {setting}));
    EXPECT_THAT(CheckSameExperiment(saved, now), IsOk()) << setting;
  }
  for (const char* setting : {"seed=7", "policy.nstep=7", "policy.learn.update_per_collect=7",
                              "env.collector_env_num=7", "policy.params.target_update_freq=7"}) {
    DING_ASSERT_OK_AND_ASSIGN(const ExperimentConfig now,
                              ParseExperimentConfig(kConfig, "test", {setting}));
    EXPECT_THAT(CheckSameExperiment(saved, now),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("7")))
        << setting;
  }
}

}  // namespace
}  // namespace ding
