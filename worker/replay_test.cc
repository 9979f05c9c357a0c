// Tests the recording of parallel runs, between the threads of one process, and the replay of their
// learners.

#include "ding_worker/worker/processes/replay.h"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/interaction/store/store.h"
#include "ding_worker/interaction/store/store_registry.h"
#include "ding_worker/interaction/transport/in_process_transport.h"
#include "ding_worker/metrics/sink.h"
#include "ding_worker/worker/config/experiment_config.h"
#include "ding_worker/worker/config/text_config.h"
#include "ding_worker/worker/coordination/parallel_run_folder.h"
#include "ding_worker/worker/experiment.pb.h"
#include "ding_worker/worker/tasks/recording.h"
#include "ding_worker/worker/testing/in_process_run.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class ReplayTest : public testing::Test {
 protected:
  ReplayTest()
      : folder_(JoinPath(testing::TempDir(),
                         testing::UnitTest::GetInstance()->current_test_info()->name())),
        run_(JoinPath(folder_, "run")) {
    options_.exp_dir = run_;
    options_.out = JoinPath(folder_, "out");
  }
  ~ReplayTest() override { std::filesystem::remove_all(folder_); }

  ExperimentConfig Config(const std::string& name, std::vector<std::string> settings) {
    settings.push_back("policy.other.commander.eval_interval=1000");
    return LoadExperimentConfig(absl::StrCat("worker/configs/", name, ".textproto"), settings)
        .value();
  }
  // Runs it with two collectors and a learner, to its end by max_train_iter.
  void Record(const ExperimentConfig& config) {
    EXPECT_THAT(CreateDirectories(run_), IsOk());
    EXPECT_THAT(WriteFileAtomically(JoinPath(run_, run_files::kConfig), PrintTextConfig(config)),
                IsOk());
    ComponentDeps deps;
    deps.exp_dir = run_;
    deps.seed = config.seed();
    InProcessTransport transport;
    const std::unique_ptr<Store> store = create_store("mem:").value();
    const InProcessRun run = RunInProcess(config, deps, store.get(), &transport, &transport);
    EXPECT_THAT(run.end, IsOk());
    EXPECT_THAT(run.workers, IsOk());
  }
  void RecordDqn(const std::vector<std::string>& more = {}) {
    std::vector<std::string> settings = {"max_train_iter=1000", "system.record_bytes=1000000000"};
    settings.insert(settings.end(), more.begin(), more.end());
    Record(Config("cartpole_dqn_parallel_fast", settings));
  }
  // The bytes of a component of the last checkpoint.
  static std::string Saved(const std::string& exp_dir, const std::string& component) {
    return ReadFile(
               JoinPath(exp_dir, absl::StrCat("ckpt/learner_resume/", component, ".safetensors")))
        .value();
  }
  void ExpectSameCheckpoint() {
    for (const std::string component : {"model", "train_state", "learner"}) {
      EXPECT_TRUE(Saved(run_, component) == Saved(options_.out, component)) << component;
    }
  }
  std::string File() const { return JoinPath(RecordingFolder(run_), "learner_1"); }

  const std::string folder_;
  const std::string run_;
  ReplayOptions options_;
};

struct Recorded {
  std::string config;
  std::vector<std::string> settings;
};

class ReplayedPolicyTest : public ReplayTest, public testing::WithParamInterface<Recorded> {};

TEST_P(ReplayedPolicyTest, Replay_GivesTheSameBytes) {
  std::vector<std::string> settings = GetParam().settings;
  settings.push_back("system.record_bytes=1000000000");
  Record(Config(GetParam().config, settings));
  DING_ASSERT_OK_AND_ASSIGN(const ReplayReport report, Replay(options_));
  EXPECT_TRUE(report.same) << report.text;
  EXPECT_THAT(report.text, Not(HasSubstr(": 0 versions")));
  ExpectSameCheckpoint();
}

INSTANTIATE_TEST_SUITE_P(
    Policies, ReplayedPolicyTest,
    testing::Values(Recorded{"cartpole_dqn_parallel_fast", {"max_train_iter=2000"}},
                    Recorded{"cartpole_dqn_parallel_fast",
                             {"max_train_iter=1000", "policy.priority=true",
                              "policy.other.replay_buffer.type=advanced"}},
                    Recorded{"cartpole_ppo_parallel", {"max_env_step=10000"}},
                    Recorded{"cartpole_masked_r2d2_parallel", {"max_train_iter=100"}},
                    Recorded{"cartpole_impala_parallel", {"max_env_step=5000"}}),
    [](const auto& info) { return absl::StrCat(info.param.config, "_", info.index); });

TEST_F(ReplayTest, Replay_UntilIter_EndsThere) {
  RecordDqn();
  options_.until_iter = 500;
  DING_ASSERT_OK_AND_ASSIGN(const ReplayReport report, Replay(options_));
  EXPECT_TRUE(report.same);
  EXPECT_THAT(report.text,
              HasSubstr("learner_1: iterations 0 to 500: 51 versions have the same bytes"));
}

TEST_F(ReplayTest, Replay_AnotherLearningRate_DiffersFromTheSecondVersionOn) {
  RecordDqn();
  options_.settings = {"policy.params.learning_rate=0.002"};
  DING_ASSERT_OK_AND_ASSIGN(const ReplayReport report, Replay(options_));
  EXPECT_FALSE(report.same);
  EXPECT_THAT(report.text, HasSubstr("version 2 of the policy (iteration 10) is the first that "
                                     "differs, in "));
  EXPECT_THAT(report.text, HasSubstr("tensors, first in '"));
  EXPECT_THAT(report.text, HasSubstr("the 1 versions before it have the same bytes"));
}

// Flips a bit in the rows of a chunk.
TEST_F(ReplayTest, Replay_DamagedChunk_IsRefusedByName) {
  RecordDqn();
  std::string key;
  std::string chunk;
  {
    DING_ASSERT_OK_AND_ASSIGN(const auto recording, RecordingReader::Open(File()));
    // Worker 1 is the learner if it joined first.
    key = recording->Chunk("data/1/1").ok() ? "data/1/1" : "data/2/1";
    DING_ASSERT_OK_AND_ASSIGN(chunk, recording->Chunk(key));
  }
  std::string bytes = ReadFile(File()).value();
  size_t at = std::string::npos;
  for (size_t begin = 0; at == std::string::npos; begin += 32) {
    ASSERT_LT(begin, chunk.size());
    const std::string part = chunk.substr(begin, 32);  // Other chunks may have the same bytes.
    if (bytes.find(part) == bytes.rfind(part)) at = bytes.find(part);
  }
  bytes[at] = static_cast<char>(bytes[at] ^ 1);
  EXPECT_THAT(WriteFileAtomically(File(), bytes), IsOk());
  EXPECT_THAT(
      Replay(options_),
      StatusIs(absl::StatusCode::kDataLoss,
               AllOf(HasSubstr(absl::StrCat("chunk '", key, "', of which the learner learned in")),
                     HasSubstr("is damaged or gone"))));
}

TEST_F(ReplayTest, Record_UpToItsBound_ReplaysWhatIsThere) {
  RecordDqn({"system.record_bytes=300000", "max_train_iter=2000"});
  EXPECT_LT(std::filesystem::file_size(File()), 400000);
  DING_ASSERT_OK_AND_ASSIGN(const ReplayReport report, Replay(options_));
  EXPECT_TRUE(report.same);
  EXPECT_THAT(
      report.text,
      HasSubstr("the recording ends there: the recordings of the run reach system.record_bytes"));
}

TEST_F(ReplayTest, ShowIteration_TellsWhoCollectedTheRows) {
  RecordDqn();
  EXPECT_THAT(NameRecordedWorker(run_, 1, "collector-0"), IsOk());
  DING_ASSERT_OK_AND_ASSIGN(const std::string text, ShowIteration(run_, 700));
  EXPECT_THAT(text, HasSubstr("batch 700: after iteration 699, at env step "));
  EXPECT_THAT(text, HasSubstr("(iteration "));
  EXPECT_THAT(text, testing::ContainsRegex("data/1/[0-9a-f]+ .* collector-0 .*[0-9]"));
  EXPECT_THAT(ShowIteration(run_, 1000000), StatusIs(absl::StatusCode::kNotFound));
}

TEST_F(ReplayTest, Replay_Refusals) {
  RecordDqn({"system.record_bytes=0"});
  EXPECT_THAT(Replay(options_), StatusIs(absl::StatusCode::kFailedPrecondition,
                                         HasSubstr("the run was not recorded")));
  std::filesystem::remove_all(run_);
  RecordDqn();
  EXPECT_THAT(CreateDirectories(JoinPath(options_.out, "ckpt")), IsOk());
  EXPECT_THAT(Replay(options_),
              StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("is not an empty folder")));
  std::filesystem::remove_all(options_.out);
  {
    DING_ASSERT_OK_AND_ASSIGN(const auto alive, RecordingReader::Open(File()));
    EXPECT_THAT(Replay(options_),
                StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("in use")));
  }
  options_.settings = {"policy.params.learning_rat=0.002"};
  EXPECT_THAT(Replay(options_), StatusIs(absl::StatusCode::kInvalidArgument));
  options_.settings.clear();
  const std::string path = JoinPath(run_, run_files::kConfig);
  ExperimentConfig config = LoadExperimentConfig(path, {"policy.nstep=1"}).value();
  EXPECT_THAT(WriteFileAtomically(path, PrintTextConfig(config)), IsOk());
  EXPECT_THAT(Replay(options_),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("is not of the config in"), HasSubstr("nstep"))));
}

}  // namespace
}  // namespace ding
